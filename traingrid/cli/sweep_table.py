"""Sweep table: formats the trials of a sweep as a table that fits the terminal, and as rows for export."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.cli.columns import Column, Schema
from traingrid.cli.fitted_table import fitted_table
from traingrid.cli.status_table import STYLES, metric_heading, metric_text
from traingrid.job.state import JobState
from traingrid.sweep.trial_lines import name_of
from traingrid.text import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from traingrid.cli.fitted_table import FittedTable
    from traingrid.submission.status import JobStatus
    from traingrid.sweep.spec import SweepSpec, Value
    from traingrid.sweep.state import Trial

_MAX_VALUE_LENGTH = 16
TRIALS: Schema[TrialRow] = Schema(
    "trial",
    Column("trial", "integer: The number of the trial, from 0."),
    Column("best", "boolean: Whether it is the best trial."),
    Column("submission", "string: The submission's id."),
    Column("index", "integer: The array index of its job."),
    Column("name", "string: The name of its job."),
    Column("region", "string: The training Region."),
    Column("state", "string: The final state."),
    Column("stopped_at_epoch", "integer: The epoch at which it was stopped early."),
    Column("value", "number: The last value of the objective's metric."),
    Column("seconds", "integer: Seconds of training."),
    Column("dollars", "number: The cost of the training; 0 for a sweep without a budget."),
    Column("reason", "string: Why it failed, or cannot be the best trial."),
    Column("hyperparameters", "object of values: The searched hyperparameters."),
)
PLANNED: Schema[TrialRow] = Schema(
    "trial, with --plan",
    *(column for column in TRIALS.columns if column.name in ("trial", "name", "region", "hyperparameters")),
)


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """A trial, as tables and exports show it; the attributes are those of `TRIALS`."""

    trial: int
    name: str
    region: str
    hyperparameters: Mapping[str, Value]
    best: bool = False
    submission: str = ""
    index: int | None = None
    state: str = ""
    stopped_at_epoch: int | None = None
    value: float | None = None
    seconds: int = 0
    dollars: float = 0.0
    reason: str = ""


def trial_rows(
    spec: SweepSpec, trials: Sequence[Trial], jobs: Mapping[int, JobStatus], best: Trial | None = None
) -> list[TrialRow]:
    """Return the rows of trials.

    Args:
        jobs: The jobs of the trials that have not ended, by number.
    """
    return [_row(spec, trial, jobs.get(trial.number), is_best=trial == best) for trial in trials]


def sweep_table(spec: SweepSpec, rows: Sequence[TrialRow], width: int) -> FittedTable:
    """Return the table of trials, one row each, with the columns that fit.

    Args:
        rows: The trials, in their order.
        width: The width of the terminal in characters.
    """
    return fitted_table(f"sweep {spec.name}", list(_columns(spec)), rows, width, min_columns=3)


def _columns(spec: SweepSpec) -> Iterator[Column[TrialRow]]:
    metric = spec.objective.metric
    yield Column(heading="trial", render=lambda row: str(row.trial), rank=0, right=True)
    yield Column(heading=metric_heading(metric), render=lambda row: metric_text(metric, row.value), rank=1, right=True)
    for position, name in enumerate(spec.space):
        yield Column(heading=name, render=_parameter(name), rank=10 + position, right=True, max_width=_MAX_VALUE_LENGTH)
    yield Column(heading="Region", render=lambda row: row.region, rank=3)
    yield Column(heading="state", render=_state, rank=2, style=lambda row: STYLES.get(row.state, ""))
    yield Column(heading="time", render=lambda row: duration(row.seconds) if row.seconds else "", rank=4, right=True)
    yield Column(heading="$", render=lambda row: f"{row.dollars:,.2f}" if row.dollars else "", rank=5, right=True)
    yield Column(heading="submission", render=lambda row: row.submission, rank=6)
    yield Column(heading="reason", render=lambda row: row.reason, rank=1000)


def _parameter(name: str) -> Callable[[TrialRow], str]:
    def cell(row: TrialRow) -> str:
        value = row.hyperparameters[name]
        return f"{value:.6g}" if isinstance(value, float) else str(value)

    return cell


def _state(row: TrialRow) -> str:
    return f"{row.state}, epoch {row.stopped_at_epoch}" if row.stopped_at_epoch is not None else row.state


def _row(spec: SweepSpec, trial: Trial, job: JobStatus | None, *, is_best: bool) -> TrialRow:
    ended = trial.ended
    metric = spec.objective.metric
    return TrialRow(
        trial=trial.number,
        name=name_of(spec, trial.number),
        region=job.region if job else trial.region,
        hyperparameters=trial.parameters,
        best=is_best,
        submission=trial.submission,
        index=ended.index if ended else job.index if job else None,
        state=ended.state if ended else str(job.state) if job else "Pending",
        stopped_at_epoch=trial.stopped.epoch if trial.stopped else None,
        value=ended.value if ended else job.metrics.get(metric) if job else None,
        seconds=ended.seconds if ended else int(job.elapsed(time.time())) if job else 0,
        dollars=ended.dollars if ended else job.dollars if job else 0.0,
        reason=ended.reason or _exclusion(trial, metric) if ended else job.reason if job else "",
    )


def _exclusion(trial: Trial, metric: str) -> str:
    """Return why a completed trial cannot be the best; the state of the others is enough."""
    return trial.ranked(metric).exclusion if trial.ended and trial.ended.state == JobState.COMPLETED else ""
