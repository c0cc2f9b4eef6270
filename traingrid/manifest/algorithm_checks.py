"""Algorithm validation: checks a line that trains a built-in algorithm against the algorithm's published rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.algorithms.algorithm import ChannelUse, Use, Violation
from traingrid.algorithms.built_in import built_in
from traingrid.job.initial_model import MODEL_CHANNEL, MODEL_CONTENT_TYPE
from traingrid.job.job import in_region
from traingrid.manifest.line import job_of_line
from traingrid.manifest.values import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.algorithms.built_in import BuiltIn
    from traingrid.grid.deployment import Deployment
    from traingrid.grid.model import Grid
    from traingrid.job.job import Job
    from traingrid.manifest.line import Line

WrongEntry = tuple[str, str, str, RefusedError]
"""A field, the entry of it (empty for the whole field), the invalid value, and the reason."""

_NO_SUBMISSION = "0" * 8


def wrong_algorithm(line: Line, deployment: Deployment) -> Iterator[WrongEntry]:
    """Yield the errors of a line whose image is a built-in algorithm with known rules; its fields are valid."""
    known = algorithm_of_line(line, deployment.grid)
    if known is None:
        return
    yield from _not_offered(known, line, deployment.grid)
    seen: set[Violation] = set()
    job = job_of_line(line, 0, deployment, _NO_SUBMISSION)
    for region in job.regions:
        for violation in violations_of(in_region(job, region), deployment.grid, line):
            if violation not in seen:
                seen.add(violation)
                refused = RefusedError(violation.reason, violation.next_step)
                yield violation.field, violation.entry, violation.value, refused


def _not_offered(known: BuiltIn, line: Line, grid: Grid) -> Iterator[WrongEntry]:
    """Yield the Regions of a line in which AWS has no image of its algorithm."""
    for region in line.places:
        if region not in known.registries:
            offering = ", ".join(other for other in grid.regions if other in known.registries) or "none"
            reason = f"AWS does not offer {known.algorithm.name} {known.version} in {region}"
            refused = RefusedError(reason, f"Use a Region that has it; of this grid's: {offering}.")
            yield ("region", "", region, refused) if region == line.region else ("replicas", region, "", refused)


def violations_of(job: Job, grid: Grid, line: Line) -> list[Violation]:
    """Return the rules of its built-in algorithm that a job breaks, for each of the line's instance types."""
    known = algorithm_of_line(line, grid)
    if known is None:
        return []
    if job.streams == "rank":
        reason = "the program of an algorithm does not support one stream per rank"
        return [Violation(field="streams", value="rank", reason=reason, next_step="Write streams host.")]
    types = dict.fromkeys((job.instance_type, *line.settings.get("instance_types", ())))
    return [violation for name in types for violation in known.algorithm.violations(use_of(job, name))]


def algorithm_of_line(line: Line, grid: Grid) -> BuiltIn | None:
    """Return the built-in algorithm of a line; None if it has none, or one whose rules are not known."""
    image = grid.images.get(line.settings.get("image", grid.job.image))
    if "algorithm" in line.settings or image is None or not image.algorithm:
        return None
    return built_in(image.algorithm, image.version or "")


def use_of(job: Job, instance_type: str) -> Use:
    """Return the part of a job that algorithms restrict."""
    begins = {MODEL_CHANNEL: ChannelUse(content_type=MODEL_CONTENT_TYPE)} if job.init_from else {}
    return Use(
        hyperparameters=job.hyperparameters,
        channels={
            name: ChannelUse(
                content_type=channel.content_type, input_mode=channel.input_mode, distribution=channel.distribution
            )
            for name, channel in job.inputs.items()
        }
        | begins,
        instance_type=instance_type,
        instance_count=job.instance_count,
    )
