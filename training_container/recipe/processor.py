"""Processor: whether this host's CPU has instructions for bfloat16; others would emulate it slowly."""

from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
"""Linux's description of the CPU (proc(5))."""


def computes_in_bfloat16(description: Path = CPUINFO) -> bool:
    """Return True if the CPU has instructions for bfloat16."""
    flags = description.read_text(encoding="utf-8").split() if description.exists() else []
    return bool({"avx512_bf16", "amx_bf16"} & set(flags))
