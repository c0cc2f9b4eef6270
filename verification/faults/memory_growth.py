"""Memory growth of this process, from the kernel's peak counter."""

from pathlib import Path
from typing import Self

from bench.machine import peak_memory_mib

_RESET_PEAK = "5"
"""Value to write to clear_refs of proc(5), which resets VmHWM, the peak, to the current size."""


class MemoryGrowth:
    """Context manager that measures the growth of this process.

    Attributes:
        mib: Peak memory during the block minus the memory at its beginning, in MiB.
    """

    mib: float = 0.0

    def __enter__(self) -> Self:
        self._before = _reset()
        return self

    def __exit__(self, *_: object) -> None:
        self.mib = peak_memory_mib("self") - self._before


def _reset() -> float:
    """Reset the peak, and return the memory that the process holds now."""
    Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
    return peak_memory_mib("self")
