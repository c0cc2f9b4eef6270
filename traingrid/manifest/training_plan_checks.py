"""Training plan validation: checks the training plans of a line in each of its Regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.manifest.values import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.manifest.allowed import Rules


def plans_of(
    value: object, regions: tuple[str, ...], settings: Mapping[str, Any], rules: Rules
) -> Iterator[tuple[str, object, str | RefusedError]]:
    """Yield the Region, the given value and the training plan of each entry of a line's `training_plan`, or its error.

    The Region of an error is empty if it concerns the whole field. A plan for spot instances is refused: the instances
    of a plan are reserved and paid in advance, and SageMaker's service model lists training plans beside on-demand
    capacity and excludes managed spot training (ResourceConfig, InstancePreferences). Whether the instance type is that
    of the plan is known to SageMaker only, which refuses another one.

    Args:
        value: An ARN in the line's own Region, or a mapping from Regions to ARNs.
        regions: The line's Region and those of its replicas.
        settings: The line's other validated fields.
        rules: The allow-lists.
    """
    if settings.get("spot"):
        reason = "a training plan has no spot instances: its instances are reserved"
        yield "", value, RefusedError(reason, "Remove spot, or training_plan.")
        return
    if not isinstance(value, dict):
        plan = _plan(value, regions[0], rules)
        yield "" if isinstance(plan, RefusedError) else regions[0], value, plan
        return
    for region, arn in value.items():
        if region in regions:
            yield region, arn, _plan(arn, region, rules)
            continue
        next_step = f"Write {' or '.join(regions)}, or add the data of that Region to replicas."
        yield region, arn, RefusedError("the line has no data in this Region", next_step)


def _plan(arn: object, region: str, rules: Rules) -> str | RefusedError:
    try:
        return rules.training_plan(arn, region)
    except RefusedError as refused:
        return refused
