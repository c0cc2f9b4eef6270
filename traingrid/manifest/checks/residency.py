"""Residency check: the Regions of a line must be allowed for its data; also the instance types that a plan may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.grid.residency import is_resident
from traingrid.job.accelerators import accelerators
from traingrid.manifest.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.manifest.allowed import Rules
    from traingrid.manifest.line import Line

_ONE_PLACE = "Remove the Region from the line, or change `residency` of the Region in grid.yaml and deploy."


def check(line: Line, rules: Rules) -> Iterator[Problem]:
    """Yield a problem for each Region that the residency of the line, or of another of its Regions, does not allow.

    Also yield the problems of `instance_types`.
    """
    grid = rules.grid
    regions = (line.region, *line.replicas)
    areas = line.settings.residency or ()
    for region in regions:
        if not is_resident(region, areas):
            reason = f"the data may only be in {', '.join(areas)}, but the line names {region}"
            yield Problem("residency", " ".join(areas), reason, "Change the Region, or the residency.")
    for region in regions:
        for second_region in regions:
            if not grid.may_hold(second_region, region):
                allowed = ", ".join(grid.regions[region].residency)
                reason = (
                    f"grid.yaml allows the data of {region} only in {allowed}, but the line also names {second_region}"
                )
                yield Problem(
                    "region" if second_region == regions[0] else "replicas", second_region, reason, _ONE_PLACE
                )
    yield from _types_with_other_accelerators(line, rules)


def _types_with_other_accelerators(line: Line, rules: Rules) -> Iterator[Problem]:
    """Yield a problem for each of a line's `instance_types` with another number of accelerators than its own type."""
    job = line.settings.applied_to(rules.grid.job)
    number = accelerators(job.instance_type, job.processes_per_host)
    for alternative in line.settings.instance_types or ():
        if (accelerators_of_it := accelerators(alternative, job.processes_per_host)) != number:
            reason = (
                f"{alternative} has {accelerators_of_it} accelerators, and {job.instance_type} has {number}, "
                "for which processes_per_host is set"
            )
            step = "List types with as many accelerators as the line's own type."
            yield Problem("instance_types", alternative, reason, step)
