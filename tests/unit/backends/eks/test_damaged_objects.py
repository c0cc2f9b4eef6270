"""Damaged objects: annotations that others have written damage no more than their own object."""

import copy
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.eks_jobs import CLUSTER_ARN, NAME, REGION, at, eks_deployment, found, pod, terminated
from tests.support.rows import each_row
from traingrid.backends.eks import labels
from traingrid.backends.eks.cluster_job import ClusterJob
from traingrid.backends.eks.inventory import EksInventory
from traingrid.backends.eks.state import describe_cluster_job, tags_in
from traingrid.backends.inventory import Inventory
from traingrid.backends.joint_inventory import JointInventory, PartlyListedError
from traingrid.backends.training_job import TrainingJob
from traingrid.job.state import JobState
from traingrid.kubernetes.client import JOB

NAMESPACE = found().namespace
OTHER = "traingrid-aaaaaaaa-0-1"
NESTED = "[" * 100_000
REQUESTS = {
    "nested": NESTED,
    "nested in an object": '{"a": ' * 100_000,
    "digits": '{"Tags": ' + "1" * 5000 + "}",
    "not JSON": "{",
    "list": "[]",
    "keys of tags": '{"Tags": [{"key": "x"}]}',
    "text as tags": '{"Tags": "xy"}',
    "null as a tag": '{"Tags": [{"Key": "x", "Value": null}]}',
    "null as tags": '{"Tags": null}',
    "list as output": '{"OutputDataConfig": []}',
    "channels": '{"InputDataConfig": [{"name": "x"}]}',
    "number": 7,
}
ENDS = {
    "nested": NESTED,
    "digits": "1" * 5000,
    "list": "[]",
    "list as state": '{"state": ["a"], "phase": "x"}',
    "unknown member": '{"state": "Completed", "phase": "x", "more": 1}',
    "no phase": '{"state": "Completed"}',
    "unfinished": '{"state": "InProgress", "phase": "x"}',
}


FAILED = [{"type": "Failed", "status": "True", "lastTransitionTime": at(60), "reason": "BackoffLimitExceeded"}]
COMPLETED = {"state": "Completed", "phase": "Completed"}
FORGED: dict[str, dict[str, str]] = {
    "a success": {labels.ENDED: json.dumps(COMPLETED)},
    "a success with its model": {labels.ENDED: json.dumps(COMPLETED | {"artifact": "s3://out/model.tar.gz"})},
    "a success with another model": {labels.ENDED: json.dumps(COMPLETED | {"artifact": "s3://other/model.tar.gz"})},
    "a failure that does not exist": {labels.ENDED: '{"state": "Failed", "phase": "Failed", "failure": "none"}'},
    "an end of the training": {labels.TRAINED: "true"},
    "a stop for a failure": {labels.STOPPED_FOR: "image", labels.STOPPED_BECAUSE: "The image is none."},
    "a stop for its time": {labels.STOPPED_FOR: "max_runtime"},
    "a cancel": {labels.STOPPED_FOR: "cancel"},
}


@each_row("annotations", FORGED.items())
def test_a_failed_pod_refutes_annotations_that_a_person_has_written(annotations: dict[str, str]) -> None:
    failed = pod(phase="Failed", train=terminated(1, since=10, until=50))
    honest, seen = (describe_cluster_job(found(failed, conditions=FAILED, annotations=of)) for of in ({}, annotations))
    assert (seen.state, seen.failure, seen.reason, seen.artifact) == (
        honest.state,
        honest.failure,
        honest.reason,
        honest.artifact,
    )
    assert seen.state == JobState.FAILED


def test_a_noted_model_of_another_training_job_is_not_recorded() -> None:
    complete = [{"type": "Complete", "lastTransitionTime": at(60)}]
    noted = {labels.ENDED: FORGED["a success with another model"][labels.ENDED]}
    seen = describe_cluster_job(found(conditions=complete, annotations=noted))
    assert seen.state == JobState.COMPLETED
    assert seen.artifact.endswith(f"/{NAME}/output/model.tar.gz")


def entry_of(name: str = NAME, request: object = None, *, is_ours: bool = True, **annotations: str) -> dict[str, Any]:
    """Return an object; `annotations` are those of the object without the prefix, with "_" for "-"."""
    entry = copy.deepcopy(dict(found().object))
    entry["metadata"] |= {"name": name, "uid": f"uid of {name}"}
    entry["metadata"]["annotations"] |= {
        f"traingrid/{key.replace('_', '-')}": text for key, text in annotations.items()
    }
    if request is not None:
        entry["spec"]["template"]["metadata"]["annotations"][labels.REQUEST] = request
    if not is_ours:
        del entry["metadata"]["finalizers"]
    return entry


def ended(**annotations: Any) -> dict[str, Any]:
    """Return an object that has completed."""
    condition = {"type": "Complete", "status": "True", "lastTransitionTime": at(100)}
    return entry_of(**annotations) | {"status": {"conditions": [condition], "completionTime": at(100)}}


def inventory(*entries: dict[str, Any]) -> EksInventory:
    """Return the inventory of a cluster with these Jobs and no pods."""
    made = EksInventory(eks_deployment(), REGION)
    client = SimpleNamespace(
        cluster=SimpleNamespace(arn=CLUSTER_ARN), all=lambda kind, **_: iter(entries if kind is JOB else ())
    )
    vars(made._jobs)["client"] = client
    return made


@each_row("request_text", REQUESTS.items())
def test_a_damaged_request_of_our_object_is_reported_and_others_are_listed(request_text: object) -> None:
    other, damaged = list(inventory(entry_of(OTHER), entry_of(request=request_text)).listed())
    assert (other.name, other.damaged) == (OTHER, None)
    assert (damaged.name, damaged.state) == (NAME, JobState.IN_PROGRESS)
    assert damaged.damaged
    assert damaged.damaged.place == f"The Job {NAMESPACE}/{NAME} in {REGION}"
    assert labels.REQUEST in damaged.damaged.problem
    assert f"kubectl delete jobs {NAME} -n" in damaged.damaged.next_step


@each_row("request_text", REQUESTS.items())
def test_an_object_of_another_program_with_a_damaged_request_is_left_out(request_text: object) -> None:
    entries = [entry_of(OTHER), entry_of(request=request_text, is_ours=False)]
    assert [job.name for job in inventory(*entries).listed()] == [OTHER]


@each_row("request_text", REQUESTS.items())
def test_the_tags_of_a_damaged_request_are_those_of_nobody(request_text: object) -> None:
    cluster_job = ClusterJob(kind=JOB, object=entry_of(request=request_text), pods=[], cluster_arn=CLUSTER_ARN)
    assert tags_in(cluster_job) == {}
    assert describe_cluster_job(cluster_job).fingerprint == ""


def test_parts_of_a_pod_template_of_other_types_are_absent() -> None:
    templates: tuple[object, ...] = ("text", {"metadata": []}, {"metadata": {"annotations": "text"}}, None)
    for template in templates:
        entry = entry_of()
        entry["spec"]["template"] = template
        assert [job.name for job in inventory(entry, entry_of(OTHER)).listed()] == [NAME, OTHER]


@each_row("text", [(text, text) for text in ("yesterday", "2026-99-99T00:00:00Z", "")])
def test_a_damaged_time_of_a_start_is_as_absent(text: str) -> None:
    assert list(inventory(entry_of(started_at=text)).listed()) == list(inventory(entry_of()).listed())
    cluster_job = ClusterJob(kind=JOB, object=entry_of(started_at=text), pods=[], cluster_arn=CLUSTER_ARN)
    assert cluster_job.started_at is None


@each_row("text", ENDS.items())
def test_a_damaged_end_is_as_absent(text: str) -> None:
    assert list(inventory(ended(ended=text)).listed()) == list(inventory(ended()).listed())
    assert list(inventory(ended(ended=text)).ended()) == list(inventory(ended()).ended())


def test_a_valid_end_decides() -> None:
    (job,) = inventory(ended(ended=json.dumps({"state": "Failed", "phase": "Failed"}))).listed()
    assert job.state == JobState.FAILED


def test_values_in_another_format_do_not_hide_the_other_backends() -> None:
    (listed,) = inventory(entry_of()).listed()

    class Broken:
        def listed(self, *_: object) -> Iterator[TrainingJob]:
            raise ValueError("Invalid isoformat string")

    class Healthy:
        def listed(self, *_: object) -> Iterator[TrainingJob]:
            yield listed

    healthy: Inventory = Healthy()  # type: ignore[assignment]  # only its list is read
    broken: Inventory = Broken()  # type: ignore[assignment]  # only its list is read
    jobs = JointInventory({"sagemaker": healthy, "eks": broken}).listed()
    assert next(jobs) == listed
    with pytest.raises(PartlyListedError, match="isoformat"):
        next(jobs)
