"""Pass order: decides the order in which passes check lines, because one pass may not have time for all lines.

No state records where the last pass stopped. Instead, the number of the pass decides where it starts. The lines form
a circle, and each pass starts a golden section of the circle after the previous one. Such starting points are evenly
spread: if each pass covers a fraction `f` of the circle, every line is checked within 3 / `f` passes
(https://en.wikipedia.org/wiki/Three-gap_theorem).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Element = TypeVar("Element")

_GOLDEN = (math.sqrt(5) - 1) / 2


def rotated(elements: Iterable[Element], key: Callable[[Element], Any], pass_number: int) -> list[Element]:
    """Return elements in the order in which a pass checks them.

    Args:
        key: Returns the sort key of an element, so that the circle is always the same.
    """
    ordered = sorted(elements, key=key)
    start = int(pass_number * _GOLDEN % 1 * len(ordered))
    return ordered[start:] + ordered[:start]
