"""Host use: how much of the processors, the memory and the GPUs of this host is in use. Does not import TensorFlow.

In a container with limits, as Kubernetes sets them, the share is that of the limits (cgroup v2:
https://docs.kernel.org/admin-guide/cgroup-v2.html); otherwise it is that of the whole host (proc(5)).
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

try:
    import pynvml
except ImportError:  # an image of the user's own, without nvidia-ml-py
    pynvml = None

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")


class HostUse:
    """Measures the use of the processors since the last sample, and that of memory and GPUs now.

    Args:
        clock: A function that returns monotonic seconds.
    """

    def __init__(self, proc: Path = PROC, cgroup: Path = CGROUP, clock: Callable[[], float] = time.monotonic) -> None:
        self._proc, self._cgroup, self._clock = proc, cgroup, clock
        self._busy = self._busy_seconds()
        self._measured_at = clock()
        self._gpus = _gpus()

    def sample(self) -> dict[str, float]:
        """Return the percentages in use of the processors, the memory, the GPUs and their memory; empty if unknown."""
        values = {"host_cpu_percent": self._cpu_percent(), "host_memory_percent": self._memory_percent()}
        measured = {name: value for name, value in values.items() if value is not None} | _use_of(self._gpus)
        return {name: round(value, 1) for name, value in measured.items()}

    def _cpu_percent(self) -> float | None:
        busy, now = self._busy_seconds(), self._clock()
        if busy is None or self._busy is None or now <= self._measured_at:
            return None
        share = (busy - self._busy) / (now - self._measured_at) / self._processors()
        self._busy, self._measured_at = busy, now
        return min(100.0, 100 * max(0.0, share))

    def _processors(self) -> float:
        quota = self._quota()
        return quota if quota is not None else os.cpu_count() or 1

    def _quota(self) -> float | None:
        """Return the processors that the container may use; None without a limit."""
        quota, _, period = _text(self._cgroup / "cpu.max").partition(" ")
        return int(quota) / int(period) if quota.isdecimal() and int(period) else None

    def _busy_seconds(self) -> float | None:
        if self._quota() is not None:
            microseconds = _fields(self._cgroup / "cpu.stat").get("usage_usec")
            return None if microseconds is None else microseconds / 1e6
        ticks = [int(word) for word in _text(self._proc / "stat").partition("\n")[0].split()[1:]]
        if len(ticks) < _IO_WAIT + 1:
            return None
        # guest and guest_nice, after the first eight, are parts of user and nice.
        return (sum(ticks[:8]) - ticks[_IDLE] - ticks[_IO_WAIT]) / os.sysconf("SC_CLK_TCK")

    def _memory_percent(self) -> float | None:
        limit = _text(self._cgroup / "memory.max").strip()
        current = _text(self._cgroup / "memory.current").strip()
        if limit.isdecimal() and current.isdecimal():
            # The file cache that can be dropped is no use of memory, as in Kubernetes' working set.
            used_bytes = int(current) - _fields(self._cgroup / "memory.stat").get("inactive_file", 0)
            return 100 * used_bytes / int(limit)
        memory = _fields(self._proc / "meminfo")
        if not memory.get("MemTotal") or "MemAvailable" not in memory:
            return None
        return 100 - 100 * memory["MemAvailable"] / memory["MemTotal"]


_IDLE, _IO_WAIT = 3, 4
"""The places of two kinds of time in the first line of /proc/stat (proc_stat(5))."""


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _fields(path: Path) -> dict[str, int]:
    """Return the numbers of a file with a name and a number in each line, such as `MemTotal: 16384 kB`."""
    words = (line.split() for line in _text(path).splitlines())
    return {pair[0].rstrip(":"): int(pair[1]) for pair in words if len(pair) > 1 and pair[1].isdecimal()}


def _gpus() -> list[object]:
    """Return the GPUs of this host; none without a driver."""
    if pynvml is None:
        return []
    try:
        pynvml.nvmlInit()
        return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return []


def _use_of(gpus: list[object]) -> dict[str, float]:
    """Return the mean use of GPUs and of their memory; empty without GPUs, or if one does not answer."""
    if not gpus:
        return {}
    try:
        busy = [pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu for gpu in gpus]
        memories = [pynvml.nvmlDeviceGetMemoryInfo(gpu) for gpu in gpus]
    except pynvml.NVMLError:  # not supported for MIG instances
        return {}
    memory_percents = [100 * memory.used / memory.total for memory in memories]
    return {"host_gpu_percent": sum(busy) / len(gpus), "host_gpu_memory_percent": sum(memory_percents) / len(gpus)}
