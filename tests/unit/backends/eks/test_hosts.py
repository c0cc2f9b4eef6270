"""Hosts: pods have SageMaker's names in the order of the hosts."""

import pytest

from traingrid.backends.eks.hosts import host_name


@pytest.mark.parametrize(
    ("hostname", "host"),
    [
        ("n-1-0", "algo-1"),
        ("n-1-11", "algo-12"),
        ("n-1-launcher", "algo-1"),
        ("n-1-worker-0", "algo-2"),
        ("n-1-worker-11", "algo-13"),
    ],
)
def test_the_name_of_a_host_follows_from_its_host_name(hostname: str, host: str) -> None:
    metadata = {"labels": {"batch.kubernetes.io/job-completion-index": "7", "training.kubeflow.org/job-role": "worker"}}
    assert host_name({"metadata": metadata, "spec": {"hostname": hostname}}) == host
