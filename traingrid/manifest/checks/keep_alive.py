"""Keep-alive check: whether the instances of a line's job may be kept for the next job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.manifest.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.manifest.allowed import Rules
    from traingrid.manifest.line import Line

_REMOVE_KEEP_ALIVE_OR = "Remove keep_alive, or {}."


def check(line: Line, rules: Rules) -> Iterator[Problem]:
    """Yield the errors of a line's keep_alive: the instances of some jobs cannot be kept.

    Spot instances are not kept (https://docs.aws.amazon.com/sagemaker/latest/dg/train-warm-pools.html, Considerations).
    A budget counts the time of trainings only, so it would not limit the cost of kept instances. No documentation
    describes kept instances of a service queue or of a training plan.
    """
    seconds, grid = line.settings.keep_alive, rules.grid
    if seconds is None:
        return
    longest = grid.training.max_keep_alive
    deploy = "set max_keep_alive of `training` in grid.yaml and deploy"
    limit = "Reduce it; the limit is max_keep_alive of `training` in grid.yaml."
    is_queued = line.settings.applied_to(grid.job).launch == "queued"
    has_budget, has_plan = "budget_dollars" in line.fields, "training_plan" in line.fields
    too_long = longest is not None and seconds > longest
    rules_of_field = (
        (longest is None, "this grid keeps no instances", _REMOVE_KEEP_ALIVE_OR.format(deploy)),
        (too_long, f"must be at most {longest} s, the limit of this grid", limit),
        (line.settings.spot, "SageMaker keeps no spot instances", _REMOVE_KEEP_ALIVE_OR.format("spot")),
        (has_budget, "a budget does not count the cost of kept instances", _REMOVE_KEEP_ALIVE_OR.format("the budget")),
        (is_queued, "not supported in a service queue", _REMOVE_KEEP_ALIVE_OR.format("write launch direct")),
        (has_plan, "the instances of a training plan are reserved anyway", _REMOVE_KEEP_ALIVE_OR.format("the plan")),
    )
    for is_wrong, reason, next_step in rules_of_field:
        if is_wrong:
            yield Problem("keep_alive", None, reason, next_step)
