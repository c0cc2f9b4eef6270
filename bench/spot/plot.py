"""`python -m bench.spot.plot`: draws the cost against the deadline, from bench/results/spot.json into docs/spot.svg."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench import results_file
from bench.machine import CHECKOUT
from bench.spot.cases import MAIN, RATIOS

FILE = CHECKOUT / "docs" / "spot.svg"
_PANELS = {
    "zone": "one zone",
    "Region": "one Region",
    "three Regions": "three Regions",
}
_LINES = {  # colours that differ for readers with any colour vision (https://jfly.uni-koeln.de/color/)
    "on_demand": ("on demand", "#999999"),
    "before": ("former rule", "#cc79a7"),
    "greedy": ("greedy", "#e69f00"),
    "uniform_progress": ("Uniform Progress", "#56b4e9"),
    "traingrid": ("traingrid", "#d55e00"),
    "bound": ("lower bound", "#000000"),
}
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 230, 220, 56, 34, 40


def write_plot() -> None:
    """Write the plot of the committed results."""
    FILE.write_text(svg(results_file.read("spot")["rows"]))
    print(f"written to {FILE.relative_to(CHECKOUT)}")


def svg(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a drawing with a panel for each kind of places."""
    width = _LEFT + len(_PANELS) * (_WIDTH + _GAP)
    parts = [_panel(rows, places, _LEFT + number * (_WIDTH + _GAP)) for number, places in enumerate(_PANELS)]
    for number, (title, colour) in enumerate(_LINES.values()):
        x, y = _LEFT + number * 133, _TOP + _HEIGHT + 62
        parts.append(f'<path d="M{x} {y - 4}h18" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<text x="{x + 23}" y="{y}">{title}</text>')
    middle = _TOP + _HEIGHT / 2
    parts.append(
        f'<text transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">cost, share of on demand</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_TOP + _HEIGHT + 78}" '
        'font-family="sans-serif" font-size="12">\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _panel(rows: Sequence[Mapping[str, Any]], places: str, left: float) -> str:
    chosen = [row for row in rows if row["places"] == places and (row["hours"], row["restart_minutes"]) == MAIN]
    bottom = _TOP + _HEIGHT
    parts = [f'<text x="{left}" y="{_TOP - 12}" font-weight="bold">{_PANELS[places]}</text>']
    for share in (0.2, 0.4, 0.6, 0.8, 1.0):
        y = _y(share)
        parts.append(f'<path d="M{left} {y:.1f}h{_WIDTH}" stroke="#dddddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{share:.1f}</text>')
    parts += [
        f'<text x="{_x(ratio, left):.1f}" y="{bottom + 16}" text-anchor="middle">{ratio:g}</text>'
        for ratio in (1, 1.5, 2, 2.5, 3)
    ]
    parts.append(f'<text x="{left + _WIDTH / 2}" y="{bottom + 34}" text-anchor="middle">deadline / duration</text>')
    for name, (_, colour) in _LINES.items():
        costs = [row["bound"] if name == "bound" else row["rules"][name]["cost"] for row in chosen]
        points = " ".join(f"{_x(ratio, left):.1f},{_y(cost):.1f}" for ratio, cost in zip(RATIOS, costs, strict=True))
        dashes = ' stroke-dasharray="4 3"' if name == "bound" else ""
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
    return "\n".join(parts)


def _x(ratio: float, left: float) -> float:
    return left + (ratio - 1) / 2 * _WIDTH


def _y(share: float) -> float:
    return _TOP + _HEIGHT * (1 - min(share, 1.05) / 1.1)


if __name__ == "__main__":
    write_plot()
