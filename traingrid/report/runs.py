"""Runs: the table of a report's jobs, the best first, and the plots of their metrics."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.report.elements import el, joined, text
from traingrid.report.numbers import dollars, hours, number
from traingrid.report.plot import MAX_POINTS, SERIES, Curve, plot, swatch
from traingrid.report.tables import Heading, cell, counted_rest, section, table
from traingrid.text import counted, duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traingrid.metrics.points import MetricPoint
    from traingrid.report.content import Content, Run
    from traingrid.report.elements import Markup
    from traingrid.report.tables import Cell

MAX_ROWS = 1000
"""The most jobs in the report. A row has about 400 bytes."""
_MAX_ROWS_AT_TOP = 50
_MAX_PLOTS = 24
_MAX_METRICS, _MAX_PARAMETERS = 4, 4
_MAX_CHARACTERS = 200
# As in traingrid/ui/static/curves.js.
_KINDS = tuple(re.compile(kind, re.IGNORECASE) for kind in ("loss", "top1|acc", "per_second|throughput"))
_NOT_SHOWN = frozenset({"epoch", "step", "ranks"})
STATES = {"Completed": "good", "Failed": "bad", "Stopped": "off", "InProgress": "live", "Waiting": "wait"}
"""The class of each state."""


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """The columns of the table that depend on the jobs.

    Attributes:
        parameters: The names of the hyperparameters that differ.
        priced: True if some jobs have a price.
        excluding: True if some jobs cannot be the best.
        now: The time of the report in seconds since 1970.
    """

    metrics: Sequence[str]
    parameters: Sequence[str]
    priced: bool
    excluding: bool
    now: float

    def headings(self) -> list[Heading]:
        """Return the headings from left to right."""
        headings = [
            Heading("rank", "place"),
            Heading("job", "name"),
            Heading("Region", "region"),
            Heading("state", "state"),
            *(Heading(_title(name), "number") for name in self.metrics),
            *(Heading(name) for name in self.parameters),
            *(Heading(name, "number") for name in ("epochs", "time", "instance-hours")),
        ]
        if self.priced:
            headings.append(Heading("cost", "number"))
        if self.excluding:
            headings.append(Heading("why not best", "why"))
        return headings

    def cells(self, content: Content, run: Run, place: int) -> list[Cell]:
        """Return the cells of a job.

        Args:
            place: Its place, from 0.
        """
        status = run.status
        elapsed = status.elapsed(self.now)
        epoch = number(status.metrics.get("epoch"))
        state = f"{status.state}, cancelled" if status.cancelled and not status.ended else str(status.state)
        is_shown = place < SERIES and bool(run.curves)
        cells = [
            ("", joined(text(place + 1), swatch(place) if is_shown else None)),
            cell(status.name),
            cell(status.place),
            cell(state, STATES.get(status.state, "")),
            *(_metric(content, run, name) for name in self.metrics),
            *(cell(_shortened(run.differing.get(name, ""))) for name in self.parameters),
            cell(f"{epoch}/{status.epochs}" if epoch and status.epochs else epoch),
            cell(duration(elapsed) if elapsed else ""),
            cell(hours(run.instance_hours)),
        ]
        if self.priced:
            cells.append(cell(dollars(status.dollars)))
        if self.excluding:
            cells.append(cell(_shortened(run.exclusion)))
        return cells


def runs_section(content: Content) -> Markup:
    """Return the table of the best jobs, which are all jobs of a small submission."""
    best = "lowest" if content.lowest else "highest"
    order = f"Ordered by {_title(content.metric)}, {best} first. " if content.metric else ""
    left_out = len(_parameters(content)) - _MAX_PARAMETERS
    more = f" {counted(left_out, 'more hyperparameter')} that differ are listed below." if left_out > 0 else ""
    without_best = f" {content.explanation}" if content.explanation else ""
    note = f"{order}Metrics are the last values that the training has reported.{more}{without_best}"
    rest_note = f"The {_MAX_ROWS_AT_TOP} best of {len(content.runs):,} jobs. The others are at the end of this file."
    return section(
        "Runs",
        el("p", text(note), class_="quiet small"),
        _table("Runs", content, 0, _MAX_ROWS_AT_TOP),
        el("p", text(rest_note), class_="quiet small") if len(content.runs) > _MAX_ROWS_AT_TOP else None,
    )


def other_runs_section(content: Content) -> Markup | None:
    """Return the table of the other jobs of a large submission; None for a small one."""
    if len(content.runs) <= _MAX_ROWS_AT_TOP:
        return None
    rows = min(len(content.runs), MAX_ROWS)
    noun = "jobs; `traingrid compare --output csv` prints all"
    return section(
        "Other runs",
        _table("Other runs", content, _MAX_ROWS_AT_TOP, MAX_ROWS),
        counted_rest(rows, len(content.runs), noun),
    )


def _table(label: str, content: Content, start: int, end: int) -> Markup:
    columns = _Columns(
        metrics=_metrics(content),
        parameters=_parameters(content)[:_MAX_PARAMETERS],
        priced=any(run.status.dollars for run in content.runs),
        excluding=any(run.exclusion for run in content.runs),
        now=content.at.timestamp(),
    )
    rows = [columns.cells(content, run, place) for place, run in enumerate(content.runs[start:end], start=start)]
    return table(label, columns.headings(), rows)


def _parameters(content: Content) -> list[str]:
    """Return the names of the hyperparameters that differ."""
    return sorted({name for run in content.runs for name in run.differing})


def _metric(content: Content, run: Run, name: str) -> Cell:
    return cell(number(run.status.metrics.get(name)), "best" if name == content.metric else "")


def curves_section(content: Content) -> Markup | None:
    """Return the plots: a plot for each metric, in which the jobs are overlaid."""
    if content.curves_error:
        return section("Curves", el("p", text(f"The curves could not be read. {content.curves_error}"), class_="bad"))
    drawn_runs = [run for run in content.runs if run.curves]
    names = sorted({name for run in drawn_runs for name in run.curves} - _NOT_SHOWN, key=_sort_key)
    if not names:
        return None
    legend = el("ul", *_legend(content), class_="legend")
    plots = [_plot(content, drawn_runs, name) for name in names[:_MAX_PLOTS]]
    return section(
        "Curves", *_notes(content, drawn_runs), legend, el("div", *plots, class_="plots"),
        counted_rest(len(plots), len(names), "metrics"),
    )  # fmt: skip


def _notes(content: Content, drawn: Sequence[Run]) -> Iterator[Markup]:
    texts = []
    if len(drawn) > SERIES:
        undrawn = len(content.runs) - len(drawn)
        note = f" The curves of {undrawn:,} jobs are not in this file." if undrawn else ""
        texts.append(f"The {SERIES} best jobs have colours; {len(drawn) - SERIES} more are thin lines.{note}")
    if any(len(points) > MAX_POINTS for run in drawn for points in run.curves.values()):
        texts.append(f"Curves with more than {MAX_POINTS} values are reduced to the extremes of equal stretches.")
    if texts:
        yield el("p", text(" ".join(texts)), class_="quiet small")


def _legend(content: Content) -> Iterator[Markup]:
    for place, run in enumerate(content.runs[:SERIES]):
        if run.curves:
            yield el("li", swatch(place), text(f"{place + 1}  {run.status.name} ({run.status.place})"))


def _plot(content: Content, drawn: Sequence[Run], name: str) -> Markup:
    places = {run.key: place for place, run in enumerate(content.runs[:SERIES])}
    with_metric = [run for run in drawn if run.curves.get(name)]
    by_epoch = all(point.epoch is not None for run in with_metric for point in run.curves[name])
    curves = [
        Curve(
            label=run.status.name,
            place=places.get(run.key),
            points=_points(run.curves[name], by_epoch=by_epoch),
        )
        for run in with_metric
    ]
    title = _title(name)
    picture = plot(title, curves, x_label="epoch" if by_epoch else "minutes", natural=by_epoch)
    return el("figure", el("figcaption", text(title)), picture, class_="card")


def _points(points: Sequence[MetricPoint], *, by_epoch: bool) -> list[tuple[float, float]]:
    """Return the points of a curve by x: the last value of each epoch, or of each moment, as on the page."""
    start = points[0].time
    value_by_x = {
        float(point.epoch or 0) if by_epoch else (point.time - start).total_seconds() / 60: point.value
        for point in points
    }
    return sorted(value_by_x.items())


def _metrics(content: Content) -> list[str]:
    """Return the metrics of the table: the one by which the jobs are ordered, then loss, accuracy and throughput."""
    names = {name for run in content.runs for name in run.status.metrics} - _NOT_SHOWN - {content.metric}
    usual = [name for name in sorted(names, key=_sort_key) if _kind(name) < len(_KINDS)]
    other_metrics = [name for name in sorted(names) if name not in usual]
    metrics = [*usual, *other_metrics]
    if content.metric:
        metrics.insert(0, content.metric)
    return metrics[:_MAX_METRICS]


def _kind(name: str) -> int:
    return next((place for place, kind in enumerate(_KINDS) if kind.search(name)), len(_KINDS))


def _sort_key(name: str) -> tuple[int, str]:
    return _kind(name), name


def _title(name: str) -> str:
    return name.replace("_", " ")


def _shortened(value: str) -> str:
    return value if len(value) <= _MAX_CHARACTERS else value[: _MAX_CHARACTERS - 1] + "…"
