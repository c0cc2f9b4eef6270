"""The machine that a measurement was made on."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
MEASURED = ("boto3", "botocore", "pydantic", "moto")
"""Distributions whose versions decide what is measured."""


def description(measured: Sequence[str] = MEASURED) -> dict[str, Any]:
    """Return what a reader needs to judge the numbers: cores, memory in GiB, versions, and how busy it was before.

    Args:
        measured: Distributions whose versions are named.
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
    """Return the most memory that a process has held so far, in MiB; 0 for one that has ended.

    VmHWM, "peak resident set size", of proc(5). Not getrusage's figure, which a child inherits from its parent.

    Args:
        process: A process id, or "self".
    """
    try:
        return int(_field(Path(f"/proc/{process}/status"), "VmHWM").split()[0]) / 1024
    except (FileNotFoundError, ProcessLookupError, LookupError):  # a zombie has no memory to tell of
        return 0.0


def _field(file: Path, name: str) -> str:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    raise LookupError(f"{file} has no field {name!r}: these measurements need Linux")


def _locked(name: str) -> str:
    """Return the version of a distribution in bench/requirements.txt, whose environment is not ours."""
    lines = (CHECKOUT / "bench/requirements.txt").read_text().splitlines()
    return next(line.split()[0].partition("==")[2] for line in lines if line.startswith(f"{name}=="))
