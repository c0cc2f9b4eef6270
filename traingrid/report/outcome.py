"""Outcome: the numbers of a report, its Regions with their cost, and its failures."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from traingrid.job.state import JobState
from traingrid.report.elements import el, text
from traingrid.report.numbers import dollars, hours
from traingrid.report.runs import STATES
from traingrid.report.tables import Heading, cell, counted_rest, section, table
from traingrid.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.report.content import Content, Failed, Run
    from traingrid.report.elements import Markup
    from traingrid.report.tables import Cell

_MAX_FAILED_JOBS = 200
"""The most jobs that are listed for a failure class."""
_MAX_CHARACTERS = 2000
_NO_PRICES = (
    "The ledger has prices only of submissions with a budget, so there are no dollars here; "
    "`traingrid cost` reads them from the catalog."
)
_PRICES = "Dollars are those of training, without transfer, storage and orchestration."


def tiles(content: Content) -> Markup:
    """Return the numbers of the submission."""
    states = Counter(run.status.state for run in content.runs)
    spent = sum(run.status.dollars for run in content.runs)
    billed = sum(run.instance_hours for run in content.runs)
    figures = [(f"{count:,}", str(state), STATES.get(state, "")) for state, count in states.most_common()]
    if billed:
        figures.append((hours(billed), "instance-hours billed", ""))
    if spent:
        figures.append((dollars(spent), "training cost", ""))
    return el(
        "ul",
        *(
            el("li", el("b", text(figure), class_=kind or None), el("span", text(label)), class_="tile")
            for figure, label, kind in figures
        ),
        class_="tiles",
    )


def regions_section(content: Content) -> Markup:
    """Return the table of the Regions with their jobs and cost."""
    by_region: dict[str, list[Run]] = defaultdict(list)
    for run in content.runs:
        by_region[run.status.place or "unknown"].append(run)
    headings = [
        Heading(text="Region", kind="region"),
        *(Heading(text=name, kind="number") for name in ("jobs", "completed", "failed", "other")),
        Heading(text="instance-hours", kind="number"),
        Heading(text="cost", kind="number"),
        Heading(text="most frequent instance type"),
    ]
    rows = [_region(name, by_region[name]) for name in sorted(by_region)]
    priced = any(run.status.dollars for run in content.runs)
    return section(
        "Regions and cost",
        table("Regions and cost", headings, rows, _region("all", content.runs) if len(rows) > 1 else ()),
        el("p", text(_PRICES if priced else _NO_PRICES), class_="quiet small"),
    )


def _region(name: str, runs: Sequence[Run]) -> list[Cell]:
    states = Counter(run.status.state for run in runs)
    completed, failed = states[JobState.COMPLETED], states[JobState.FAILED]
    types = Counter(_instances(run) for run in runs if run.job)
    return [
        cell(name),
        *(cell(f"{count:,}") for count in (len(runs), completed, failed, len(runs) - completed - failed)),
        cell(hours(sum(run.instance_hours for run in runs))),
        cell(dollars(sum(run.status.dollars for run in runs))),
        cell(types.most_common(1)[0][0] if types else ""),
    ]


def _instances(run: Run) -> str:
    if run.job is None:
        return ""
    return f"{run.job.instance_count} x {run.job.instance_type}{' spot' if run.job.spot else ''}"


def failures_section(content: Content) -> Markup | None:
    """Return the failure classes with their recommended actions and jobs; None without failures."""
    if not content.failures:
        return None
    return section("Failures", *(_failure(failed) for failed in content.failures))


def _failure(failed: Failed) -> Markup:
    shown_runs = failed.runs[:_MAX_FAILED_JOBS]
    rows = [
        [
            cell(run.status.name),
            cell(run.status.index),
            cell(run.status.place),
            cell(run.status.attempt),
            cell(run.status.reason[:_MAX_CHARACTERS]),
        ]
        for run in shown_runs
    ]
    headings = [
        Heading(text="job", kind="name"),
        Heading(text="index", kind="number"),
        Heading(text="Region", kind="region"),
        Heading(text="attempts", kind="number"),
        Heading(text="reason", kind="value"),
    ]
    title = f"{failed.name or 'unknown'}: {counted(len(failed.runs), 'job')}"
    step = el("p", el("b", text("Next: ")), text(failed.next_step)) if failed.next_step else None
    return el(
        "div",
        el("h3", text(title)),
        el("p", text(failed.sentence)),
        step,
        table(f"Jobs that failed: {failed.name or 'unknown'}", headings, rows),
        counted_rest(len(shown_runs), len(failed.runs), "jobs"),
        class_="card failure",
    )
