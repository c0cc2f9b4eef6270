"""Keep-alive rules: whether the instances of a line's job may be kept for the next job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.grid.model import Grid

_REMOVE = "Remove keep_alive, or {}."


def keep_alive_rules(
    found: Mapping[str, Any], given: Mapping[str, object], grid: Grid
) -> Iterator[tuple[str, bool, str, str]]:
    """Yield the rules of `keep_alive`: the field, whether it is violated, the reason, and the next step.

    Spot instances are not kept (https://docs.aws.amazon.com/sagemaker/latest/dg/train-warm-pools.html, Considerations).
    A budget counts the time of trainings only, so it would not limit the cost of kept instances. No documentation
    describes kept instances of a service queue or of a training plan.

    Args:
        found: The line's valid fields.
        given: All fields of the line; one with an invalid value counts as present.
        grid: The grid.
    """
    longest = grid.training.max_keep_alive
    seconds = found.get("keep_alive", 0)
    deploy = "set max_keep_alive of `training` in grid.yaml and deploy"
    yield "keep_alive", longest is None, "this grid keeps no instances", _REMOVE.format(deploy)
    limit = "Reduce it; the limit is max_keep_alive of `training` in grid.yaml."
    wrong = longest is not None and seconds > longest
    yield "keep_alive", wrong, f"must be at most {longest} s, the limit of this grid", limit
    yield "keep_alive", bool(found.get("spot")), "SageMaker keeps no spot instances", _REMOVE.format("spot")
    reason = "a budget does not count the cost of kept instances"
    yield "keep_alive", "budget_dollars" in given, reason, _REMOVE.format("the budget")
    queued = found.get("launch", grid.job.launch) == "queued"
    yield "keep_alive", queued, "not supported in a service queue", _REMOVE.format("write launch direct")
    planned = "training_plan" in given
    yield "keep_alive", planned, "the instances of a training plan are reserved anyway", _REMOVE.format("the plan")
