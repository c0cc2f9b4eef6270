"""Hosts: pods have SageMaker's names in the order of the hosts."""

from typing import Any

import pytest

from traingrid.backends.eks.hosts import host_name

_ROLE = "training.kubeflow.org/job-role"


@pytest.mark.parametrize(
    ("metadata", "host"),
    [
        ({"name": "n-0-x7k2p", "annotations": {"batch.kubernetes.io/job-completion-index": "0"}}, "algo-1"),
        ({"name": "n-11-x7k2p", "labels": {"batch.kubernetes.io/job-completion-index": "11"}}, "algo-12"),
        ({"name": "n-launcher-x7k2p", "labels": {_ROLE: "launcher"}}, "algo-1"),
        ({"name": "n-worker-0", "labels": {_ROLE: "worker", "training.kubeflow.org/replica-index": "0"}}, "algo-2"),
        ({"name": "n-worker-1", "labels": {_ROLE: "worker", "training.kubeflow.org/replica-index": "2"}}, "algo-3"),
    ],
)
def test_the_name_of_a_host_follows_from_its_index(metadata: dict[str, Any], host: str) -> None:
    assert host_name({"metadata": metadata}) == host
