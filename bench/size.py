"""Size of a measurement: full, or tiny, which measures nothing and only shows that a benchmark runs (`bench.tiny`).

It is a variable of the environment, because many benchmarks start other processes of themselves.
"""

import os
from typing import TypeVar

Size = TypeVar("Size")
VARIABLE, TINY = "TRAINGRID_BENCH_SIZE", "tiny"
IS_TINY = os.environ.get(VARIABLE) == TINY


def size(full: Size, tiny: Size) -> Size:
    """Return the value for the size of this process."""
    return tiny if IS_TINY else full
