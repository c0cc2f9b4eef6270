"""`python -m bench.spot.fit FOLDER`: prints the numbers of bench/spot/synthetic.py, fitted to the public traces."""

import sys
from collections.abc import Sequence
from itertools import groupby
from math import exp
from pathlib import Path

from bench.spot import traces

_ROUNDS = 300


def main() -> None:
    """Print a row for each zone and Region."""
    folder = Path(sys.argv[1])
    one_node = traces.zones(folder, traces.ONE_NODE)
    for part, capacity in (
        (traces.ONE_NODE, one_node),
        (traces.ONE_NODE, traces.regions(one_node)),
        (traces.SIXTEEN_NODES, traces.zones(folder, traces.SIXTEEN_NODES)),
    ):
        for name, samples in capacity.items():
            with_capacity, without = (spells(samples, traces.gap(part), value) for value in (1, 0))
            print(f'    "{name}": Spells(with_capacity={mixture(with_capacity)}, without={mixture(without)}),')


def spells(samples: bytes, gap: float, value: int) -> list[float]:
    """Return the durations in hours of the spells with a value."""
    return [len(list(spell)) * gap / 3600 for sample, spell in groupby(samples) if sample == value]


def mixture(hours: Sequence[float]) -> tuple[float, float, float]:
    """Return the share of the short spells, and the means of short and of long ones, by expectation-maximisation."""
    mean = sum(hours) / len(hours)
    share, short, long = 0.5, mean / 3, mean * 2
    for _ in range(_ROUNDS):
        parts = []
        for spell in hours:
            is_short = share / short * exp(-spell / short)
            parts.append(is_short / (is_short + (1 - share) / long * exp(-spell / long)))
        total = sum(parts)
        share = total / len(hours)
        short = sum(part * spell for part, spell in zip(parts, hours, strict=True)) / total
        long = sum((1 - part) * spell for part, spell in zip(parts, hours, strict=True)) / (len(hours) - total)
    return round(share, 2), round(short, 2), round(long, 2)


if __name__ == "__main__":
    main()
