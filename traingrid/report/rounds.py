"""Rounds: the table of rounds with the training of each Region, and the validation curve of the global models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.report.elements import el, text
from traingrid.report.numbers import dollars, number
from traingrid.report.plot import SERIES, Curve, plot, swatch
from traingrid.report.tables import Heading, cell, section, table
from traingrid.rounds.timeline import TOP1, best_round, data_of, model_commands
from traingrid.text import byte_size, duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.report.content import Content
    from traingrid.report.elements import Markup
    from traingrid.report.tables import Cell
    from traingrid.rounds.timeline import RegionPart, RoundView

_NOTE = (
    "A Region's value is the validation top1 of its model on the data of the merge, if the merge evaluates it, "
    "with the time of its training. Bytes are the weights that crossed a border between Regions; dollars are those of "
    "instances on demand."
)


def rounds_section(content: Content) -> Markup | None:
    """Return the rounds; None for another subject."""
    views, series = content.subject.rounds, content.subject.series
    if not views or series is None:
        return None
    regions = list(dict.fromkeys(part.region for view in views for part in view.parts))
    headings = [
        Heading("round", "place"),
        Heading("state", "state"),
        Heading("global top1", "number"),
        *(Heading(region, "number") for region in regions),
        Heading("across borders", "number"),
        Heading("dollars", "number"),
    ]
    best = best_round(views)
    commands = model_commands(series.name, best) if best else []
    return section(
        "Rounds",
        el("p", text(f"Best: round {best.number}, {TOP1} {number(best.top1)}.")) if best else None,
        el("p", text(_NOTE), class_="quiet small"),
        table("Rounds", headings, [_row(view, regions, is_best=view is best) for view in views]),
        *_curves(views, regions),
        el("pre", text("\n".join(commands)), class_="card") if commands else None,
    )


def _row(view: RoundView, regions: Sequence[str], *, is_best: bool) -> list[Cell]:
    parts = {region: [part for part in view.parts if part.region == region] for region in regions}
    return [
        cell(view.number),
        cell(view.state, "good" if view.model else "live"),
        cell(number(view.top1), "best" if is_best else ""),
        *(cell("; ".join(map(_of, parts[region]))) for region in regions),
        cell(byte_size(view.bytes_across)),
        cell("unknown" if view.dollars is None else dollars(view.dollars)),
    ]


def _of(part: RegionPart) -> str:
    if part.left_out:
        return f"left out: {part.left_out}"
    return part.state if part.top1 is None else f"{number(part.top1)} in {duration(part.seconds)}"


def _curves(views: Sequence[RoundView], regions: Sequence[str]) -> list[Markup]:
    """Return the plot of validation_top1 by round with its legend; nothing before the first global model."""
    points = {"global model": [(float(view.number), view.top1) for view in views]}
    for region in regions[: SERIES - 1]:
        points[region] = [
            (float(view.number), next((part.top1 for part in view.parts if part.region == region), None))
            for view in views
        ]
    measured = {label: [(x, value) for x, value in values if value is not None] for label, values in points.items()}
    curves = [
        Curve(label=label, place=place, points=values)
        for place, (label, values) in enumerate(measured.items())
        if values
    ]
    if not curves:
        return []
    legend = (el("li", swatch(curve.place or 0), text(f"{(curve.place or 0) + 1}  {curve.label}")) for curve in curves)
    picture = plot(TOP1, curves, x_label="round", natural=True)
    title = f"{TOP1.replace('_', ' ')} by round, on {data_of(views)}"
    figure = el("figure", el("figcaption", text(title)), picture, class_="card")
    return [el("ul", *legend, class_="legend"), el("div", figure, class_="plots")]
