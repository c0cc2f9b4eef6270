"""How much memory this process takes for something, from the kernel's own peak."""

from pathlib import Path
from typing import Self

from bench.machine import peak_memory_mib

_RESET_PEAK = "5"
"""What is written to clear_refs of proc(5) so that VmHWM, the peak, is what the process holds now."""


class MemoryGrowth:
    """A context in which the growth of this process is measured.

    Attributes:
        mib: By how much the most memory that it held was more than what it held at the beginning, in MiB.
    """

    mib: float = 0.0

    def __enter__(self) -> Self:
        self._before = _reset()
        return self

    def __exit__(self, *_: object) -> None:
        self.mib = peak_memory_mib("self") - self._before


def _reset() -> float:
    """Forget the peak, and return what the process holds now."""
    Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
    return peak_memory_mib("self")
