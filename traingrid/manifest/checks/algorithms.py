"""Algorithm check: a line that trains a built-in algorithm against the algorithm's published rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.algorithms.algorithm import BrokenRule, ChannelUse, Use
from traingrid.algorithms.built_in import built_in
from traingrid.job.initial_model import MODEL_CHANNEL, MODEL_CONTENT_TYPE
from traingrid.job.job import job_in_region
from traingrid.manifest.line import NO_SUBMISSION, image_of, job_of_line
from traingrid.manifest.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.algorithms.built_in import BuiltIn
    from traingrid.grid.model import GridSettings
    from traingrid.job.job import Job
    from traingrid.manifest.allowed import Rules
    from traingrid.manifest.line import Line


def check(line: Line, rules: Rules) -> Iterator[Problem]:
    """Yield the errors of a line whose image is a built-in algorithm with known rules; its fields are valid."""
    algorithm = algorithm_of_line(line, rules.grid)
    if algorithm is None:
        return
    yield from _check_offers(algorithm, line, rules.grid)
    job = job_of_line(line, 0, rules.deployment, NO_SUBMISSION)
    violations = (
        violation for region in job.regions for violation in violations_of(job_in_region(job, region), rules.grid, line)
    )
    yield from map(problem_of_violation, dict.fromkeys(violations))


def problem_of_violation(violation: BrokenRule) -> Problem:
    """Return a rule that a job breaks as a problem of its line."""
    return Problem(violation.field, violation.value, violation.reason, violation.next_step, violation.entry)


def _check_offers(algorithm: BuiltIn, line: Line, grid: GridSettings) -> Iterator[Problem]:
    """Yield the Regions of a line in which AWS has no image of its algorithm."""
    for region in line.places:
        if region not in algorithm.registries:
            offering = ", ".join(candidate for candidate in grid.regions if candidate in algorithm.registries) or "none"
            reason = f"AWS does not offer {algorithm.algorithm.name} {algorithm.version} in {region}"
            next_step = f"Use a Region that has it; of this grid's: {offering}."
            is_own = region == line.region
            field, value, entry = ("region", region, "") if is_own else ("replicas", "", region)
            yield Problem(field, value, reason, next_step, entry)


def violations_of(job: Job, grid: GridSettings, line: Line) -> list[BrokenRule]:
    """Return the rules that a job breaks of its built-in algorithm, checked with each instance type of the line."""
    built_in_algorithm = algorithm_of_line(line, grid)
    if built_in_algorithm is None:
        return []
    if job.streams == "rank":
        reason = "the program of an algorithm does not support one stream per rank"
        return [BrokenRule(field="streams", value="rank", reason=reason, next_step="Write streams host.")]
    rules = built_in_algorithm.algorithm
    types = dict.fromkeys((job.instance_type, *(line.settings.instance_types or ())))
    return [broken for instance_type in types for broken in rules.violations(use_of(job, instance_type))]


def algorithm_of_line(line: Line, grid: GridSettings) -> BuiltIn | None:
    """Return the built-in algorithm of a line; None if it has none, or one whose rules are not known."""
    image = image_of(line.settings, grid)
    if image is None or not image.algorithm:
        return None
    return built_in(image.algorithm, image.version or "")


def use_of(job: Job, instance_type: str) -> Use:
    """Return the part of a job that algorithms restrict."""
    channels = {
        name: ChannelUse(
            content_type=channel.content_type, input_mode=channel.input_mode, distribution=channel.distribution
        )
        for name, channel in job.inputs.items()
    }
    if job.init_from:
        channels[MODEL_CHANNEL] = ChannelUse(content_type=MODEL_CONTENT_TYPE)
    return Use(
        hyperparameters=job.hyperparameters,
        channels=channels,
        instance_type=instance_type,
        instance_count=job.instance_count,
    )
