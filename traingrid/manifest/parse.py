"""Manifests: the file a user uploads, one training job per line, validated completely before anything is created.

A manifest has one of three forms: CSV without a header (`region,s3_uri[,name]`), CSV with a header, or JSON Lines.
`rows` reads it line by line. `check` checks each line against SageMaker's limits (`limits`)
and the grid's allow-lists (`allowed`), and returns a `Line` (`line`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.job.accelerators import accelerators
from traingrid.manifest.allowed import Rules
from traingrid.manifest.check import LineCheck
from traingrid.manifest.checks.budgets import different_budgets, unenforceable_budget
from traingrid.manifest.checks.queues import different_shares
from traingrid.manifest.errors import ErrorReport, LineError, ManifestError, file_error
from traingrid.manifest.line import Line
from traingrid.manifest.rows import MAX_BYTES, Row, Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traingrid.grid.deployment import Deployment
    from traingrid.grid.model import GridSettings

__all__ = ["MAX_BYTES", "Line", "parse"]

_PIECE = 1024 * 1024


def parse(content: bytes | Iterable[bytes], deployment: Deployment, *, to_plan: bool = False) -> list[Line]:
    """Parse a manifest in any of its three forms.

    A byte-order mark, CRLF line ends, blank lines and lines that start with `#` are accepted; they count as lines.
    A comment `# jobs: 4` declares the number of jobs and a complete last line, so that a truncated file is detected.
    Quotes work as in CSV, but a quoted cell may not span lines, because each line is one job.

    Args:
        content: The file's bytes, or chunks of them; memory holds at most one line and one chunk.
        deployment: Defines the allowed Regions, buckets, instance types and images, and the grid's limits.
        to_plan: True if the lines will be planned: a budget then needs no prices, which the plan adds.

    Returns:
        The lines that hold jobs, in the file's order.

    Raises:
        ManifestError: The manifest is invalid. The error lists every problem, not only the first.
    """
    rows = Rows(chunks=_pieces(content) if isinstance(content, bytes) else content)
    lines_check, limits = LineCheck(Rules(deployment)), deployment.grid.limits
    lines: list[Line] = []
    errors = ErrorReport()
    for number, row in enumerate(rows, start=1):
        if number > limits.jobs:
            reason = f"a submission may have at most {limits.jobs:,} jobs, and the file has more lines"
            errors.add_first(file_error(reason, "Split it into several files.").errors)
            break
        checked = lines_check.checked(row) if isinstance(row, Row) else row
        if isinstance(checked, Line):
            lines.append(checked)
        else:
            errors.add(checked)
    errors.add_first(rows.header_errors)
    if not errors.total:
        errors.add(_check_whole_file(rows, lines, deployment.grid, to_plan=to_plan))
    if errors.total:
        raise ManifestError(errors.kept, errors.total)
    return lines


def _pieces(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), _PIECE):
        yield content[start : start + _PIECE]


def _check_whole_file(rows: Rows, lines: list[Line], grid: GridSettings, *, to_plan: bool) -> list[LineError]:
    """Return the errors of a file as a whole; each of its lines is valid."""
    if not lines:
        return file_error("the file has no jobs", "Write region,s3_uri or region,s3_uri,name, one line per job.").errors
    if rows.declared is not None and (rows.declared != len(lines) or not rows.ended):
        incomplete = "" if rows.ended else ", and its last line is incomplete"
        reason = f"the file declares {rows.declared} jobs and has {len(lines)}{incomplete}"
        return file_error(reason, "Upload the complete file, or correct the number.").errors
    errors = different_shares(lines, grid) or different_budgets(lines)
    if not errors and not to_plan:
        errors = unenforceable_budget(lines, grid)
    if errors:
        return errors
    jobs = [line.settings.applied_to(grid.job) for line in lines]
    totals = {
        "instances": sum(job.instance_count for job in jobs),
        "accelerators": sum(
            job.instance_count * accelerators(job.instance_type, job.processes_per_host) for job in jobs
        ),
    }
    errors = []
    for name, number in totals.items():
        limit = getattr(grid.limits, name)
        if limit is not None and number > limit:
            reason = f"its jobs use {number:,} {name} in total, and a submission may use at most {limit:,}"
            errors += file_error(reason, f"Split it, or raise limits.{name} in grid.yaml and deploy.").errors
    return errors
