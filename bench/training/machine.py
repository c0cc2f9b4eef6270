"""Description of the machine on which a measurement of the training image ran. Does not import TensorFlow."""

import importlib.metadata
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_VERSIONS = ("tensorflow-cpu", "tensorflow", "horovod")


def description(distributions: Sequence[str] = _VERSIONS) -> dict[str, Any]:
    """Return the context of a measurement, as in bench/machine.py, for the packages of this environment."""
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cores": os.cpu_count(),
        "cpu": cpu[0].partition(":")[2].strip() if cpu else platform.processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: version for name in distributions if (version := _version(name))},
        "real_time": os.sched_getscheduler(0) != os.SCHED_OTHER,  # a real-time priority (chrt) shields from other work
        "load_before": round(os.getloadavg()[0], 2),
    }


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
