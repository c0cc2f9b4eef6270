"""Audit of created resources: checks the names of Batch jobs, and the recorded API calls if a snapshot has them."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from traingrid.audit.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.audit.snapshot import World

_ARRAY = "SubmitJob"
_NAMES = {
    "CreateTrainingJob": "TrainingJobName",
    "create jobs": "name",
    "create mpijobs": "name",
    _ARRAY: "jobName",
}
"""The field with the name of the created resource, by action. Actions on clusters are a verb and a resource."""
_SUBMISSION = re.compile(r"([0-9a-f]{8})(-|$)")


def duplicate_arrays(world: World) -> Iterator[Violation]:
    """Find submissions with more than one Batch job of the same name (I2)."""
    for name, ids in world.batch_jobs.items():
        if len(ids) > 1:
            sentence = f"{len(ids)} Batch jobs have the name {name}: {', '.join(ids)}"
            yield Violation(invariant="I2", kind="duplicate", submission=submission_of(world.grid, name), what=sentence)


def duplicate_calls(world: World) -> Iterator[Violation]:
    """Find create requests that AWS or clusters accepted twice (I2).

    Only recorded calls show this if the second resource replaced the first.
    """
    accepted = Counter[tuple[bool, str]]()
    for call in world.calls or ():
        name = created_resource(call)
        if submission_of(world.grid, name):
            accepted[_is_array(call), name] += 1
    for (is_array, name), times in accepted.items():
        if times > 1:
            sentence = f"{'an array' if is_array else 'a training job'} was accepted {times} times with the name {name}"
            yield Violation(invariant="I2", kind="duplicate", submission=submission_of(world.grid, name), what=sentence)


def created_resource(call: Mapping[str, Any]) -> str:
    """Return the name of the resource that a call created; empty for calls that may happen more than once."""
    field = _NAMES.get(call["action"])
    return str(call["parameters"].get(field, "")) if field else ""


def _is_array(call: Mapping[str, Any]) -> bool:
    return bool(call["action"] == _ARRAY)


def submission_of(grid: str, name: str) -> str:
    """Return the submission id in a training job's or Batch job's name; empty for a name outside this grid."""
    match = _SUBMISSION.match(name.removeprefix(f"{grid}-")) if name.startswith(f"{grid}-") else None
    return match[1] if match else ""


def unclaimed_calls(world: World) -> Iterator[Violation]:
    """Find resources that were created for a submission that does not exist, such as a rejected manifest's (I7)."""
    for call in world.calls or ():
        name = created_resource(call)
        submission = submission_of(world.grid, name)
        if submission and submission not in world.submissions and not world.may_have(submission):
            sentence = f"{call['action']} was accepted for {name}, but its submission was never claimed"
            yield Violation(invariant="I7", kind="other", submission=submission, what=sentence)
