"""Plots: overlaid curves of one metric as SVG, which prints, and which a mail without scripts shows."""

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from traingrid.report.elements import Markup, el, text
from traingrid.report.numbers import number

SERIES = 8
"""The number of colours, which are those of the page of `traingrid ui`."""
MAX_POINTS = 300
"""The most points of a curve that are drawn."""
_COLOURS = ("#2563eb", "#c2410c", "#15803d", "#9333ea", "#0e7490", "#be123c", "#854d0e", "#4b5563")
_DASHES = (None, "7 3", "2 3", "9 3 2 3")
"""Dashes, and the number at its end, distinguish a curve for a reader who does not see its colour."""
_WIDTH, _HEIGHT = 520.0, 280.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, 26.0, 10.0, 40.0
_LABEL_HEIGHT = 11.0
_TICKS = 5
_MIN_RANGE = 1e-290
"""The smallest range of an axis: the distance of its ticks is a normal number."""
Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A curve of a plot.

    Attributes:
        label: The name of its job.
        place: Its number in the legend, from 0; None for a thin line without number.
        points: Its points, ordered by x.
    """

    label: str
    place: int | None
    points: Sequence[Point]


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """The range of an axis, and its position in the picture."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, *, natural: bool = False) -> list[float]:
        """Return about five round values in the range; with `natural`, only natural numbers."""
        rough = (self.high - self.low) / _TICKS
        if rough < sys.float_info.min:
            return [self.low]
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * (1 - 1e-9))
        step = max(step, 1.0) if natural else step
        first_tick = math.ceil(self.low / step - 1e-9)
        return [count * step for count in range(first_tick, math.floor(self.high / step + 1e-9) + 1)]


def sampled(points: Sequence[Point], most: int = MAX_POINTS) -> list[Point]:
    """Return at most so many points: the lowest and the highest of each stretch of a long curve, and its last point.

    Args:
        points: The points, ordered by x.
        most: The number of points.
    """
    if len(points) <= most:
        return list(points)
    stretches = (most - 1) // 2
    sample: list[Point] = []
    for place in range(stretches):
        part = points[place * len(points) // stretches : (place + 1) * len(points) // stretches]
        ends = {min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])}
        sample += sorted(ends, key=part.index)
    return sample if sample[-1] == points[-1] else [*sample, points[-1]]


def plot(title: str, curves: Sequence[Curve], *, x_label: str, natural: bool) -> Markup:
    """Return a plot.

    Args:
        title: The name of the metric.
        curves: The curves, each with one point at least. Those without a number are drawn first.
        x_label: The name or unit of x.
        natural: True if x is a natural number.
    """
    across = _range([x for curve in curves for x, _ in curve.points], _LEFT, _WIDTH - _RIGHT, pad=0.0)
    up = _range([y for curve in curves for _, y in curve.points], _HEIGHT - _BOTTOM, _TOP, pad=0.05)
    ordered = sorted(curves, key=lambda curve: curve.place is not None)
    ends = ", ".join(f"{curve.label} {number(curve.points[-1][1])}" for curve in curves if curve.place is not None)
    return el(
        "svg",
        *_grid(across, up, x_label=x_label, natural=natural),
        *(_line(curve, across, up) for curve in ordered),
        *_labels(curves, across, up),
        role="img",
        aria_label=f"{title}: {ends}",
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        class_="plot",
    )


def swatch(place: int) -> Markup:
    """Return a short piece of the line of a curve, for the legend and the table."""
    stroke = {"stroke": _COLOURS[place], "stroke-dasharray": _DASHES[place % len(_DASHES)], "stroke-width": 2.5}
    line = el("line", x1=0, y1=5, x2=26, y2=5, class_=f"line s{place}", **stroke)
    return el("svg", line, width=26, height=10, viewBox="0 0 26 10", aria_hidden="true", class_="swatch")


def _range(values: Sequence[float], start: float, end: float, *, pad: float) -> _Axis:
    low, high = min(values), max(values)
    if high - low < _MIN_RANGE:
        size = max(abs(low), abs(high))
        margin = size / 2 if size > _MIN_RANGE else 0.5
        low = low - margin
        high = high + margin
    extra = (high - low) * pad
    return _Axis(low=low - extra, high=high + extra, start=start, end=end)


def _grid(across: _Axis, up: _Axis, *, x_label: str, natural: bool) -> Iterator[Markup]:
    ink = {"class_": "tick", "font-size": 11, "fill": "#56616f"}
    for value in up.ticks():
        y = up.at(value)
        yield el("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="rule", stroke="#e1e5ea")
        yield el("text", text(number(value)), x=_LEFT - 6, y=y + 4, text_anchor="end", **ink)
    for value in across.ticks(natural=natural):
        yield el("text", text(number(value)), x=across.at(value), y=_HEIGHT - _BOTTOM + 16, text_anchor="middle", **ink)
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    yield el("text", text(x_label), x=middle, y=_HEIGHT - 6, text_anchor="middle", **ink)


def _line(curve: Curve, across: _Axis, up: _Axis) -> Markup:
    points = [(across.at(x), up.at(y)) for x, y in sampled(curve.points)]
    if curve.place is None:
        look: dict[str, object] = {"class_": "other", "stroke": "#9dabba", "stroke-width": 0.8}
    else:
        dash = _DASHES[curve.place % len(_DASHES)]
        look = {"class_": f"line s{curve.place}", "stroke": _COLOURS[curve.place], "stroke-width": 2}
        look["stroke-dasharray"] = dash
    name = el("title", text(curve.label))
    if len(points) == 1:
        ((x, y),) = points
        dot = {"fill": look["stroke"], "class_": "other" if curve.place is None else f"dot s{curve.place}"}
        return el("g", name, el("circle", cx=x, cy=y, r=3.5, **dot))
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    return el("g", name, el("polyline", points=path, fill="none", stroke_linejoin="round", **look))


def _labels(curves: Sequence[Curve], across: _Axis, up: _Axis) -> Iterator[Markup]:
    """Yield the numbers of the curves behind their ends, moved apart where they would overlap."""
    curves_at_end = sorted(
        (up.at(curve.points[-1][1]), curve.place, across.at(curve.points[-1][0]))
        for curve in curves
        if curve.place is not None
    )
    for y, (_, place, x) in zip(_spread_heights([y for y, _, _ in curves_at_end]), curves_at_end, strict=True):
        label = {"x": x + 5, "y": round(y + 4, 1), "font-size": 11, "class_": f"end s{place}"}
        yield el("text", text(place + 1), fill=_COLOURS[place], **label)


def _spread_heights(heights: Sequence[float]) -> list[float]:
    """Return heights, in ascending order, so far apart that labels do not overlap, and above the lower axis."""
    placed_heights: list[float] = []
    for y in heights:
        placed_heights.append(max(y, placed_heights[-1] + _LABEL_HEIGHT) if placed_heights else y)
    lowest = _HEIGHT - _BOTTOM
    for place in reversed(range(len(placed_heights))):
        placed_heights[place] = min(placed_heights[place], lowest)
        lowest = placed_heights[place] - _LABEL_HEIGHT
    return placed_heights
