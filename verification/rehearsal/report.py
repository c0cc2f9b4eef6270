"""Report of a rehearsal: the resources that a manifest requests, the faults, and how its lines ended."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from traingrid.audit.snapshot import World
from traingrid.job.accelerators import accelerators
from traingrid.job.failures import FAILURES
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.text import printable
from verification.rehearsal.fault_plan import Struck

_SHOWN_LINES = 20


def asked_table(jobs: Sequence[Job]) -> Table:
    """Return the resources that jobs request if all train at once: instances by Region, type and spot."""
    table = _table("Region", "instance type", "jobs", "instances", "accelerators", "ranks")
    sums_by_type: dict[tuple[str, str], Counter[str]] = {}
    for job in jobs:
        sums = sums_by_type.setdefault((job.region, f"{job.instance_type}{' spot' * job.spot}"), Counter())
        accelerators_of_host = accelerators(job.instance_type, job.processes_per_host)
        sums.update(
            jobs=1,
            instances=job.instance_count,
            accelerators=job.instance_count * accelerators_of_host,
            ranks=job.ranks,
        )
    for place, sums in sorted(sums_by_type.items()):
        table.add_row(*place, *(f"{sums[name]:,}" for name in ("jobs", "instances", "accelerators", "ranks")))
    return table


def faults_table(struck: Sequence[Struck]) -> Table:
    """Return the faults that struck, and how often."""
    table = _table("fault", "times", "where")
    for kind in struck:
        table.add_row(kind.what, f"{kind.times:,}", kind.where)
    return table


def ends_table(world: World) -> Table:
    """Return the number of lines by final state and attempt."""
    table = _table("lines ended", "at attempt", "lines")
    ends = Counter((item.state, item.attempt) for item in world.lines.values())
    for (state, attempt), lines in sorted(ends.items()):
        table.add_row(state, str(attempt), f"{lines:,}")
    return table


def unfinished(world: World) -> Iterator[str]:
    """Yield each reason why lines did not complete, with its explanation, the next step, and the first lines."""
    lines_by_reason: dict[str, list[str]] = {}
    for _, item in sorted(world.lines.items()):
        if item.state != JobState.COMPLETED:
            failure = FAILURES.get(item.failure)
            why = f"{failure.sentence} {failure.next_step}".strip() if failure else item.reason or "no reason"
            regions = ", ".join([*(previous.region for previous in item.tried), item.region])
            lines_by_reason.setdefault(f"{item.state}: {why}", []).append(f"line {item.line} ({item.name}): {regions}")
    for why, lines in lines_by_reason.items():
        yield printable(f"{len(lines):,} {why}")
        yield from (printable(f"  {line}") for line in lines[:_SHOWN_LINES])
        if len(lines) > _SHOWN_LINES:
            yield f"  ... and {len(lines) - _SHOWN_LINES:,} more"


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        justify = "right" if heading in ("jobs", "instances", "accelerators", "ranks", "times", "lines") else "left"
        table.add_column(Text(heading), justify=justify, overflow="fold")  # type: ignore[arg-type]  # a literal in every row of the table
    return table
