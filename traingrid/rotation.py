"""In which order a sweep looks at lines that it may not have the time to look at all of.

Nobody remembers where the last sweep has stopped: every sweep begins somewhere else, and the number of the sweep says
where. Lines stand on a circle, and one sweep after the other begins a golden section of the circle further on. Such
beginnings never crowd: when each sweep comes as far as a share `f` of the circle, every line has had its turn after
3 / `f` sweeps (https://en.wikipedia.org/wiki/Three-gap_theorem).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Thing = TypeVar("Thing")

_GOLDEN = (math.sqrt(5) - 1) / 2


def rotated(things: Iterable[Thing], key: Callable[[Thing], Any], sweep: int) -> list[Thing]:
    """Return things in the order in which a sweep looks at them.

    Args:
        things: The things, in any order.
        key: Returns by what to put them into an order that is always the same.
        sweep: The number of the sweep.
    """
    ordered = sorted(things, key=key)
    start = int(sweep * _GOLDEN % 1 * len(ordered))
    return ordered[start:] + ordered[:start]
