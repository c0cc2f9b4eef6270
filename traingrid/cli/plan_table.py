"""Plan table: shows the jobs that a manifest would create."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from traingrid.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traingrid.job.job import Job
    from traingrid.manifest.plan import Planned

_COLUMNS = ("line", "Region", "job", "instances", "ranks", "data", "image", "what would happen")


def plan_table(plan: Iterable[Planned]) -> Table:
    """Return a row for each job, in the order in which they would start."""
    table = Table(box=None, pad_edge=False)
    for heading in _COLUMNS:
        table.add_column(heading, overflow="fold")
    for line in plan:
        job = line.job
        reserved = f", plan {job.training_plan.rpartition('/')[2]}" if job.training_plan else ""
        instances = f"{job.instance_count} x {job.instance_type}{' spot' * job.spot}{reserved}"
        ranks = str(job.ranks) if job.launcher == "mpi" else f"{job.ranks} ({job.launcher})"
        cells = (str(job.line), job.region, job.name, instances, ranks, _data(job), job.image or job.algorithm)
        style = "red" if line.would_fail else "yellow" if line.is_unchecked else ""
        table.add_row(*(Text(printable(cell)) for cell in cells), Text(printable(line.outcome), style=style))
    return table


def _data(job: Job) -> str:
    """Return the URI of the data: the common folder of the channels, or all their URIs."""
    uris = [channel.location.rstrip("/") for channel in job.inputs.values()]
    folders = {uri.rpartition("/")[0] for uri in uris}
    return folders.pop() if len(uris) > 1 and len(folders) == 1 else ", ".join(uris)
