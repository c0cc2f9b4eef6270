"""Description of the machine on which a measurement ran."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
MEASURED = ("boto3", "botocore", "pydantic", "moto")
"""Distributions whose versions affect the measurements."""


def description(measured: Sequence[str] = MEASURED) -> dict[str, Any]:
    """Return the context of a measurement: cores, memory in GiB, versions, and the load before it.

    Args:
        measured: Distributions whose versions are listed.
    """
    return {
        "cores": os.cpu_count(),
        "cpu": _field(Path("/proc/cpuinfo"), "model name"),
        "memory_gib": round(int(_field(Path("/proc/meminfo"), "MemTotal").split()[0]) / 2**20, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in measured} | {"sagemaker": _locked("sagemaker")},
        "load_before": round(os.getloadavg()[0], 2),
    }


def peak_memory_mib(process: int | str) -> float:
    """Return the peak memory of a process in MiB; 0 if it has ended.

    Reads VmHWM, "peak resident set size", of proc(5). getrusage is not suitable, because a child inherits its value.

    Args:
        process: A process id, or "self".
    """
    try:
        return int(_field(Path(f"/proc/{process}/status"), "VmHWM").split()[0]) / 1024
    except (FileNotFoundError, ProcessLookupError, LookupError):  # a zombie has no memory figures
        return 0.0


def _field(file: Path, name: str) -> str:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    raise LookupError(f"{file} has no field {name!r}: these measurements need Linux")


def _locked(name: str) -> str:
    """Return the version of a distribution in setup/requirements/bench.txt, which has its own environment."""
    lines = (CHECKOUT / "setup/requirements/bench.txt").read_text().splitlines()
    return next(line.split()[0].partition("==")[2] for line in lines if line.startswith(f"{name}=="))
