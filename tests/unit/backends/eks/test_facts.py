"""Facts: times, model, tags and fingerprint of a training job, from its object and its pods."""

import pytest

from tests.support.eks_jobs import CLUSTER_ARN, NAME, at, found, pod, training_object
from tests.unit.backends.eks.pods import COMPLETE, SUCCEEDED
from traingrid.backends.eks.state import describe_cluster_job, tags_in


def test_the_facts_of_a_completed_training_job_come_from_its_pods() -> None:
    seen = describe_cluster_job(found(SUCCEEDED, conditions=COMPLETE))
    assert seen.artifact == "s3://out/model.tar.gz"
    assert (seen.training_seconds, seen.billable_seconds) == (30, 45)
    assert seen.arn == f"{CLUSTER_ARN}/traingrid/jobs/{NAME}/uid-1"


def test_a_completed_training_job_whose_nodes_are_gone_has_a_model() -> None:
    seen = describe_cluster_job(found(conditions=COMPLETE))
    assert seen.artifact.endswith(f"/out/{NAME}/output/model.tar.gz")
    assert seen.billable_seconds == 59


def test_a_training_job_starts_when_its_last_host_has_a_node() -> None:
    assert describe_cluster_job(found(pod(startTime=at(10)), hosts=2)).started_at is None
    started = describe_cluster_job(found(pod(startTime=at(10)), pod(1, startTime=at(30)), hosts=2)).started_at
    assert started == describe_cluster_job(found(pod(startTime=at(30)))).started_at


@pytest.mark.parametrize("mpi", [False, True])
def test_tags_and_fingerprint_are_those_of_the_request_and_not_of_annotations(mpi: bool) -> None:
    changed = found(mpi=mpi, annotations={"traingrid/tags": "{}", "traingrid/fingerprint": "x"})
    assert tags_in(changed)["traingrid:submission"] == "0123abcd"
    assert describe_cluster_job(changed).fingerprint == training_object().fingerprint


@pytest.mark.parametrize("annotations", [{}, {"traingrid/request": "no JSON"}, {"traingrid/request": "[]"}])
def test_an_object_of_another_program_has_neither_tags_nor_a_fingerprint(annotations: dict[str, str]) -> None:
    foreign = found()
    foreign.object["spec"]["template"]["metadata"]["annotations"] = annotations
    assert (tags_in(foreign), describe_cluster_job(foreign).fingerprint) == ({}, "")
