"""`traingrid compare`: shows jobs side by side, the best first."""

from __future__ import annotations

import re
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.api.series import compared_submissions
from traingrid.cli.columns import Column, Schema
from traingrid.cli.console import console
from traingrid.cli.export import output_option, write_rows
from traingrid.cli.fitted_table import fitted_table
from traingrid.cli.parameter_types import SUBMISSION
from traingrid.cli.status_table import STYLES, metric_heading, metric_text
from traingrid.metrics.comparison import compare as compared
from traingrid.text import counted, duration, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from traingrid.cli.export import Output
    from traingrid.metrics.comparison import ComparedJob, Comparison

_BARS = "▁▂▃▄▅▆▇█"
_CURVE = 16
_LONG_FRACTION = re.compile(r"-?\d*\.\d{7,}", re.ASCII)
"""A number that a search has drawn, of which the table has six digits, and JSON all."""
_MAX_NAME_LENGTH, _MAX_VALUE_LENGTH = 24, 16
_MAX_EXCLUSIONS, _MAX_EXCLUDED_JOBS = 6, 8
_ROWS: Schema[Any] = Schema(
    "job, best first",
    Column("rank", "integer: The place, from 1."),
    Column("submission", "string: The submission's id."),
    Column("index", "integer: The array index."),
    Column("name", "string: The job's name in the manifest."),
    Column("region", "string: The training Region."),
    Column("state", "string: The state."),
    Column("seconds", "integer: Seconds of training, once it has ended."),
    Column("dollars", "number: The cost of the training so far; 0 for a submission without a budget."),
    Column("artifact", "string: The S3 URI of the model."),
    Column("exclusion", "string: Why it cannot be the best job; empty if it can."),
    Column("hyperparameters", "object of strings: The hyperparameters in which the jobs differ."),
    Column("metrics", "object of numbers: The last value of each metric."),
)


@click.command()
@click.argument("submissions", metavar="SUBMISSION...", nargs=-1, required=True, type=SUBMISSION)
@click.option("--metric", help="Order by this metric [default: an accuracy or a loss].")
@click.option("--lowest/--highest", default=None, help="Whether low values are best [default: by the metric's name].")
@output_option(_ROWS)
@click.pass_obj
def compare(
    grid_file: Path, submissions: tuple[str, ...], metric: str | None, *, lowest: bool | None, output: Output
) -> None:
    """Compare jobs, best first.

    Shows all jobs of one or several submissions with their metrics, the curve of one metric, and the hyperparameters in
    which they differ. SUBMISSION is also sweep:NAME, for all trials, or rounds:NAME, for all global models.
    """
    plane = ControlPlane.of(grid_file)
    ids = [submission for name in submissions for submission in compared_submissions(plane, name)]
    comparison = compared(plane, ids, metric, lowest=lowest)
    if output != "table":
        write_rows(_rows(comparison), _ROWS, output)
        return
    out = console()
    out.print(fitted_table("", list(_columns(comparison)), comparison.jobs, out.width, min_columns=2))
    if comparison.metric:
        order = "lowest" if comparison.lowest else "highest"
        click.echo(
            f"ordered by {comparison.metric}, {order} first; --metric NAME and --{_other_order(comparison)} change this"
        )
    for sentence in _exclusions(comparison):
        click.echo(printable(sentence))
    if best := comparison.best:
        tied = [
            job
            for job in comparison.jobs
            if not job.exclusion
            and job.status.metrics.get(comparison.metric) == best.status.metrics.get(comparison.metric)
        ]
        if len(tied) > 1:
            click.echo(f"{len(tied)} jobs have the best {comparison.metric}; the first of them is named")
        click.echo(f"the best model: traingrid download {best.submission} {best.status.index}")
    else:
        click.echo(f"no best model: {comparison.explanation}")


def curve(values: Sequence[float], width: int = _CURVE) -> str:
    """Return a line of bars, from the lowest to the highest of the values; at most `width` of them.

    Args:
        values: The values, oldest first.
        width: The number of bars. If there are more values, they are sampled at equal distances, with the last one.
    """
    if not values:
        return ""
    bars = min(width, len(values))
    samples = [values[bar * len(values) // bars - 1] for bar in range(1, bars + 1)]
    lowest = min(samples)
    span = max(samples) - lowest or 1.0  # without it, equal values would be divided by 0
    return "".join(_BARS[round((value - lowest) / span * (len(_BARS) - 1))] for value in samples)


def _exclusions(comparison: Comparison) -> Iterator[str]:
    """Yield a line for each reason why jobs cannot be the best, with these jobs."""
    several_submissions = len({job.submission for job in comparison.jobs}) > 1
    names_by_exclusion: dict[str, list[str]] = defaultdict(list)
    for job in comparison.jobs:
        if job.exclusion:
            names_by_exclusion[job.exclusion].append(_source(job) if several_submissions else str(job.status.index))
    for exclusion, names in list(names_by_exclusion.items())[:_MAX_EXCLUSIONS]:
        more = f" and {len(names) - _MAX_EXCLUDED_JOBS:,} more" if len(names) > _MAX_EXCLUDED_JOBS else ""
        yield f"not ranked: job{'s' * (len(names) > 1)} {', '.join(names[:_MAX_EXCLUDED_JOBS])}{more} ({exclusion})"
    if len(names_by_exclusion) > _MAX_EXCLUSIONS:
        yield f"{counted(len(names_by_exclusion) - _MAX_EXCLUSIONS, 'more reason')}: --output json prints all"


def _columns(comparison: Comparison) -> Iterator[Column[ComparedJob]]:
    """Yield the columns from left to right."""
    several_submissions = len({job.submission for job in comparison.jobs}) > 1
    metrics = sorted(
        {name for job in comparison.jobs for name in job.status.metrics} - {comparison.metric, "epoch", "step"}
    )
    parameters = sorted({name for job in comparison.jobs for name in job.hyperparameters})
    yield Column(heading="job", render=lambda job: job.status.name, rank=0, max_width=_MAX_NAME_LENGTH)
    if several_submissions:
        yield Column(heading="submission", render=_source, rank=4)
    else:
        yield Column(heading="index", render=lambda job: str(job.status.index), rank=4, right=True)
    if comparison.metric:
        yield Column(heading=metric_heading(comparison.metric), render=_metric(comparison.metric), rank=1, right=True)
    if comparison.metric and (sys.stdout.encoding or "").lower().startswith("utf"):
        yield Column(heading="curve", render=lambda job: curve(job.values), rank=2)
    for position, name in enumerate(parameters):
        yield Column(heading=name, render=_parameter(name), rank=10 + position, right=True, max_width=_MAX_VALUE_LENGTH)
    yield Column(heading="Region", render=lambda job: job.status.place, rank=6)
    yield Column(heading="state", render=lambda job: job.status.state, rank=3, style=_state_style)
    yield Column(heading="time", render=lambda job: duration(job.status.elapsed(time.time())), rank=5, right=True)
    yield Column(
        heading="$", render=lambda job: f"{job.status.dollars:,.2f}" if job.status.dollars else "", rank=7, right=True
    )
    for position, name in enumerate(metrics):
        yield Column(heading=metric_heading(name), render=_metric(name), rank=100 + position, right=True)


def _source(job: ComparedJob) -> str:
    return f"{job.submission} {job.status.index}"


def _metric(name: str) -> Callable[[ComparedJob], str]:
    return lambda job: metric_text(name, job.status.metrics.get(name))


def _parameter(name: str) -> Callable[[ComparedJob], str]:
    def cell(job: ComparedJob) -> str:
        value = job.hyperparameters.get(name, "")
        return f"{float(value):.6g}" if _LONG_FRACTION.fullmatch(value) else value

    return cell


def _state_style(job: ComparedJob) -> str:
    return STYLES.get(job.status.state, "")


def _other_order(comparison: Comparison) -> str:
    return "highest" if comparison.lowest else "lowest"


def _rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """Yield the jobs for an export."""
    for rank, job in enumerate(comparison.jobs, start=1):
        yield {
            "rank": rank,
            "submission": job.submission,
            **vars(job.status),
            "exclusion": job.exclusion,
            "hyperparameters": dict(job.hyperparameters),
        }
