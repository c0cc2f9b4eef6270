"""Synthetic capacity: spells with and without capacity, whose durations are fitted to the public traces.

Each duration is a mixture of short and long spells. Regions are independent of each other here; in the traces their
correlation is 0.03 to 0.27.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from bench.size import size

GAP = 195.0
"""The interval of the samples in seconds, as in the traces of one node."""
_DAYS = size(1000, 60)
Mixture = tuple[float, float, float]
"""The share of short spells, and the mean hours of the short and the long ones."""


@dataclass(frozen=True, kw_only=True)
class Spells:
    """The durations of the spells of a zone or Region."""

    with_capacity: Mixture
    without: Mixture


# Printed by `python -m bench.spot.fit` from https://github.com/skypilot-org/spot-traces (Wu et al., NSDI 2024).
ZONES: Mapping[str, Spells] = {
    "us-east-1a": Spells(with_capacity=(0.86, 0.47, 2.31), without=(0.67, 0.5, 9.73)),
    "us-east-1c": Spells(with_capacity=(0.79, 0.55, 4.97), without=(0.6, 0.51, 3.45)),
    "us-east-1d": Spells(with_capacity=(0.77, 0.57, 5.28), without=(0.73, 0.76, 5.53)),
    "us-east-1f": Spells(with_capacity=(0.69, 0.51, 6.12), without=(0.7, 0.44, 4.13)),
    "us-east-2a": Spells(with_capacity=(0.66, 0.84, 15.11), without=(0.64, 0.42, 4.22)),
    "us-east-2b": Spells(with_capacity=(0.58, 0.76, 9.06), without=(0.47, 0.42, 3.35)),
    "us-west-2a": Spells(with_capacity=(0.69, 0.98, 17.51), without=(0.86, 0.55, 2.47)),
    "us-west-2b": Spells(with_capacity=(0.66, 0.98, 28.32), without=(0.63, 0.48, 2.19)),
    "us-west-2c": Spells(with_capacity=(0.75, 1.14, 23.74), without=(0.8, 0.46, 2.36)),
}
"""A zone with one V100."""
REGIONS: Mapping[str, Spells] = {
    "us-east-1": Spells(with_capacity=(0.76, 0.61, 8.48), without=(0.7, 0.37, 2.48)),
    "us-east-2": Spells(with_capacity=(0.58, 1.29, 17.3), without=(0.51, 0.37, 3.55)),
    "us-west-2": Spells(with_capacity=(0.68, 1.39, 54.37), without=(0.79, 0.5, 1.74)),
}
"""Any zone of a Region with one V100."""
SIXTEEN_NODES: Mapping[str, Spells] = {
    "us-east-2b": Spells(with_capacity=(0.79, 0.48, 6.27), without=(0.93, 0.56, 19.45)),
    "us-west-2a": Spells(with_capacity=(0.91, 0.56, 14.59), without=(0.84, 0.84, 11.47)),
    "us-west-2c": Spells(with_capacity=(0.97, 0.76, 41.38), without=(0.87, 1.04, 15.23)),
}
"""A zone with 16 V100s."""


def capacity(name: str, spells: Spells) -> bytes:
    """Return whether there is capacity, for each sample; always the same for a name."""
    rng = random.Random(name)  # noqa: S311  # not used for cryptography
    samples, value = bytearray(), True
    while len(samples) < _DAYS * 86_400 / GAP:
        short_share, short, long = spells.with_capacity if value else spells.without
        hours = rng.expovariate(1 / (short if rng.random() < short_share else long))
        samples += bytes([value]) * max(round(hours * 3600 / GAP), 1)
        value = not value
    return bytes(samples)
