"""EKS backend: launches each training job once, also after lost replies."""

import json
from dataclasses import replace
from typing import Any

import pytest

from localcloud.kubernetes import resources as kinds
from tests.integration.eks.steps import REGION, start, tags
from tests.integration.localcloud.kubernetes.running_cluster import Cluster
from tests.support.eks_jobs import NAME, eks_job
from traingrid.backends.base import LaunchError
from traingrid.backends.eks import jobs
from traingrid.backends.eks.backend import Eks
from traingrid.grid.deployment import Deployment
from traingrid.kubernetes.client import JOB, SERVICE, Client
from traingrid.kubernetes.cluster import Cluster as Described
from traingrid.kubernetes.errors import UnavailableError, error_of


def test_a_training_job_in_auto_mode_has_no_label_of_managed_node_groups(
    deployment: Deployment, described: Described, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "cluster_of", lambda *_: replace(described, auto_mode=True))
    start(Eks(deployment, REGION))
    made = client.find(JOB, NAME)
    assert made
    assert "eks.amazonaws.com/capacityType" not in json.dumps(made["spec"]["template"]["spec"]["affinity"])


def test_a_training_job_is_created_once_and_found_again(eks: Eks, client: Client) -> None:
    assert start(eks) is None
    made = client.get(JOB, NAME)
    assert client.get(SERVICE, NAME)["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    seen = start(eks)
    assert (seen.state, seen.phase, seen.fingerprint) == ("InProgress", "Starting", eks.fingerprint(NAME, eks_job()))
    assert eks.attach(NAME, eks_job(), {}) == seen
    assert (eks.tags(seen) or {}).items() >= tags(eks, eks_job()).items()
    assert len(list(client.all(JOB))) == 1


def test_an_mpijob_is_created_and_described(eks: Eks, client: Client) -> None:
    job = eks_job(eks_kind="mpijob", instance_count=2)
    assert start(eks, job) is None
    assert start(eks, job).arn.split("/")[-3:-1] == ["mpijobs", NAME]
    assert client.find(SERVICE, NAME) is None, "the operator creates it"


def test_a_line_whose_kind_has_changed_finds_its_training_job(eks: Eks, client: Client) -> None:
    start(eks, eks_job(eks_kind="mpijob"))
    assert start(eks, eks_job()).arn.split("/")[-3] == "mpijobs"
    assert list(client.all(JOB)) == []


@pytest.mark.parametrize("created", [True, False])
def test_a_lost_reply_is_resolved_by_the_name(
    eks: Eks, client: Client, monkeypatch: pytest.MonkeyPatch, created: bool
) -> None:
    plain = Client.create

    def lost(self: Client, kind: Any, made: Any) -> Any:
        if kind is JOB and created:
            plain(self, kind, made)
        if kind is JOB:
            raise UnavailableError(0, "ReadTimeoutError", "no answer")
        return plain(self, kind, made)

    monkeypatch.setattr(Client, "create", lost)
    if created:
        assert start(eks).state == "InProgress"
        assert client.find(SERVICE, NAME)
    else:
        with pytest.raises(LaunchError) as error:
            start(eks)
        assert (error.value.failure.name, error.value.unresolved) == ("service_error", True)


def test_a_child_that_died_before_the_service_was_created_leaves_it_to_the_next(
    eks: Eks, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Eks, "_add_service", lambda *_: None)
        start(eks)
    assert client.find(SERVICE, NAME) is None
    eks.attach(NAME, eks_job(), {})
    assert client.find(SERVICE, NAME)


def test_a_name_is_taken_until_its_finalizer_is_removed(eks: Eks, client: Client) -> None:
    start(eks)
    eks.stop(NAME)
    seen = start(eks)
    assert (seen.state, seen.reason) == ("Stopped", "")
    assert client.get(JOB, NAME)["metadata"]["annotations"]["traingrid/stopped-for"] == "cancel"


def test_another_request_with_the_name_is_refused(eks: Eks) -> None:
    start(eks)
    with pytest.raises(LaunchError) as error:
        start(eks, eks_job(hyperparameters={"epochs": "2"}))
    assert error.value.failure.name == "other_request"


def test_a_foreign_object_with_the_name_is_refused(eks: Eks, cluster: Cluster) -> None:
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "x", "image": "y"}]}}}
    foreign = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": NAME}, "spec": spec}
    cluster.store.create(kinds.JOB, "default", foreign)
    with pytest.raises(LaunchError, match="did not create it") as error:
        start(eks)
    assert error.value.failure.name == "conflict"


def test_a_training_job_that_cannot_be_read_is_not_given_up(eks: Eks, monkeypatch: pytest.MonkeyPatch) -> None:
    start(eks)

    def refuse(*_: Any) -> None:
        raise error_of(403, {"message": "cannot get"})

    monkeypatch.setattr(Client, "get", refuse)
    with pytest.raises(LaunchError) as error:
        eks.attach(NAME, eks_job(), {})
    assert (error.value.failure.name, error.value.unresolved) == ("service_error", True)
