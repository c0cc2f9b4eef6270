"""Rounds table: formats rounds as a table with a column for each Region, as rows for export, and the best round."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from traingrid.cli.columns import Column, Schema
from traingrid.cli.compare import curve
from traingrid.cli.console import console
from traingrid.cli.export import write_rows
from traingrid.cli.fitted_table import fitted_table
from traingrid.cli.status_table import STYLES
from traingrid.rounds.timeline import TOP1, best_round, model_commands
from traingrid.text import byte_size, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traingrid.cli.export import Output
    from traingrid.rounds.timeline import RegionPart, RoundView

_MAX_LEFT_OUT = 24


def _regions(view: RoundView) -> list[str]:
    return [part.region for part in view.parts if part.top1 is not None or (view.model and not part.left_out)]


def _left_out(view: RoundView) -> list[str]:
    return [f"{part.region} ({part.left_out})" for part in view.parts if part.left_out]


def _jobs(view: RoundView) -> dict[str, dict[str, object]]:
    """Return the trainings by Region; a Region with several lines has one entry for each, with its index."""
    counts = Counter(part.region for part in view.parts)
    return {
        part.region if counts[part.region] == 1 else f"{part.region} {index}": vars(part)
        for index, part in enumerate(view.parts)
    }


ROUNDS: Schema[RoundView] = Schema(
    "round",
    Column("round", "integer: The number of the round, from 1.", value=lambda view: view.number),
    Column("state", "string: Training, Merging or Completed."),
    Column("value", "number: validation_top1 of the global model.", value=lambda view: view.top1),
    Column("loss", "number: validation_loss of the global model."),
    Column(
        "best_region_value",
        "number: validation_top1 of the best Region's model, on the same data.",
        value=lambda view: view.best_region_top1,
    ),
    Column("regions", "array of strings: The Regions whose models were merged.", value=_regions),
    Column("left_out", "array of strings: The Regions without a contribution, with the reason.", value=_left_out),
    Column("bytes_across", "integer: The bytes of weights that crossed a border between Regions."),
    Column("transfer_dollars", "number: Their price; null if the snapshot does not have it."),
    Column("dollars", "number: The price of the instances so far, on demand; null if it is not known."),
    Column("submission", "string: The submission of the lines."),
    Column("merge", "string: The submission of the merge."),
    Column("model", "string: The job of the global model, SUBMISSION/INDEX."),
    Column(
        "jobs",
        "object of objects: The training of each Region: job, state, seconds, top1 (of its model on the data of the "
        "merge), own_top1 (on that of its Region), global_top1, bytes_across, dollars and left_out.",
        value=_jobs,
    ),
)


def print_rounds(name: str, views: Sequence[RoundView], output: Output) -> None:
    """Print rounds as a table or as rows."""
    if output != "table":
        write_rows(views, ROUNDS, output)
        return
    out = console()
    out.print(fitted_table(f"rounds {name}", list(_columns(views)), views, out.width, min_columns=3))
    values = [view.top1 for view in views if view.top1 is not None]
    if len(values) > 1 and (sys.stdout.encoding or "").lower().startswith("utf"):
        out.print(f"{TOP1} of the global models: {curve(values)}", markup=False, soft_wrap=True)


def best_sentences(name: str, views: Sequence[RoundView]) -> Iterator[str]:
    """Yield the best round, and the commands for its model; nothing before the first global model."""
    view = best_round(views)
    if view is None:
        return
    yield f"The best global model is that of round {view.number}, with {TOP1} {view.top1:.4f}:"
    yield from (f"  {command}" for command in model_commands(name, view))


def model_phrase(view: RoundView) -> str:
    """Return the global model of a round in a phrase."""
    value = f"{TOP1} {view.top1:.4g}, " if view.top1 is not None else ""
    without = f", without {'; '.join(_left_out(view))}" if _left_out(view) else ""
    return f"{value}models of {', '.join(_regions(view))}{without}"


def _columns(views: Sequence[RoundView]) -> Iterator[Column[RoundView]]:
    """Yield the columns of the table: the global model, and then each Region's model."""
    yield Column(heading="round", render=lambda view: str(view.number), rank=0, right=True)
    yield Column(heading="state", render=lambda view: view.state, rank=1, style=lambda view: STYLES.get(view.state, ""))
    yield Column(heading="top1", render=lambda view: _top1(view.top1), rank=2, right=True)
    regions = dict.fromkeys(part.region for view in views for part in view.parts)
    for position, region in enumerate(regions):
        yield Column(heading=region, render=_cell(region), rank=10 + position, right=True)
    yield Column(heading="left out", render=lambda view: "; ".join(_left_out(view)), rank=1002, max_width=_MAX_LEFT_OUT)
    yield Column(heading="merge", render=lambda view: _of(view.merging), rank=1003, right=True)
    yield Column(heading="across", render=lambda view: byte_size(view.bytes_across), rank=1000, right=True)
    yield Column(heading="$", render=lambda view: f"{view.dollars:,.2f}" if view.dollars else "", rank=1001, right=True)
    yield Column(heading="submission", render=lambda view: view.submission, rank=1004)
    yield Column(heading="of the merge", render=lambda view: view.merge, rank=1005)


def _cell(region: str) -> Callable[[RoundView], str]:
    def text(view: RoundView) -> str:
        return "; ".join(_of(part) for part in view.parts if part.region == region)

    return text


def _of(part: RegionPart | None) -> str:
    """Return the validation_top1 of a model on the data of the merge and the time of its training, or its state."""
    if part is None:
        return ""
    if part.left_out:
        return "left out"
    return part.state if part.top1 is None else f"{_top1(part.top1)} {duration(part.seconds)}"


def _top1(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
