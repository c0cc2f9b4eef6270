"""Planning: shows the jobs that a manifest would create, validated as by the intake; writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.job.backend_traits import DEFAULT_BACKEND, TRAITS
from traingrid.job.candidates import candidates_of, place
from traingrid.job.initial_model import needs_model_copy
from traingrid.manifest.hardware_warnings import line_warnings
from traingrid.manifest.line import NO_SUBMISSION, iter_jobs, order_by_priority
from traingrid.manifest.resource_checks import ResourceCheck, Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.manifest.line import Line


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The job that one line would create.

    Attributes:
        job: The job with the grid's defaults.
        resources: The result of checking its data and images.
        warnings: How its image does not use its instances, each a sentence.
    """

    job: Job
    resources: ResourceCheck
    warnings: tuple[str, ...] = ()

    @property
    def would_fail(self) -> bool:
        """True if a problem is known."""
        return bool(self.resources.trouble)

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that its folder has, as a sentence; none if the line names them one by one."""
        return (f"{self.resources.layout}.",) if self.resources.layout else ()

    @property
    def is_unchecked(self) -> bool:
        """True if no problem is known, but some resources could not be checked."""
        return bool(self.resources.unchecked) and not self.would_fail

    @property
    def verdict(self) -> str:
        """The expected outcome in two words."""
        if self.would_fail:
            return "would fail"
        if self.is_unchecked:
            return "not checked"
        return "would wait" if self.job.launch == "queued" else "would train"

    @property
    def outcome(self) -> str:
        """The expected outcome as text, which begins with the verdict."""
        if self.would_fail:
            return f"{self.verdict}: {self.resources.trouble}"
        if self.is_unchecked:
            return f"{self.verdict}: {', '.join(self.resources.unchecked)}"
        if self.job.launch == "queued":
            share = f" of {self.job.share}" if self.job.share else ""
            return f"{self.verdict} in the queue of {self.job.region}{share}, with priority {self.job.priority}"
        model = self.job.init_from
        copy_text = f" after a copy of the model from {model.region}" if model and needs_model_copy(self.job) else ""
        first, *alternatives = candidates_of(self.job)
        service = "" if first.backend == DEFAULT_BACKEND else f" on {TRAITS[first.backend].title}"
        next_places = ", ".join(place(*candidate) for candidate in alternatives)
        otherwise = f"; without capacity there: {next_places}" if next_places else ""
        return f"{self.verdict}{service}{copy_text}{otherwise}"


def planned(
    lines: Sequence[Line], deployment: Deployment, look: Callable[[Job], ResourceCheck] | None = None
) -> Iterator[Planned]:
    """Yield the jobs that the lines of a manifest would create, by index.

    Args:
        lines: The manifest's validated lines.
        look: Checks a job's data and images; by default `Resources.check`.
    """
    look = look or Resources(deployment).check
    for line, job in zip(order_by_priority(lines), iter_jobs(lines, deployment, NO_SUBMISSION), strict=True):
        resources = look(job)
        inputs = resources.layout.inputs(job.inputs) if resources.layout else job.inputs
        planned_job = job.model_copy(update={"inputs": inputs})
        yield Planned(job=planned_job, resources=resources, warnings=line_warnings(line, deployment.grid))
