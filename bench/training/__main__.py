"""`make bench-training`: measures the training image, prints its figures, writes results/training.json.

    .venv-training/bin/python -m bench.training [--only ingest] [--only demultiplexer] [--only steps]

A part that is left out keeps the figures that the file has, with the time they were measured at.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.training import steps
from bench.training.ingest import demultiplexer, ingest

RESULTS = Path(__file__).resolve().parents[1] / "results" / "training.json"
PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "ingest": ingest,
    "demultiplexer": demultiplexer,
    "steps": steps.measure,
}
# (id, what, part, where in its figures, aim): all aims are ratios that are to be reached.
AIMS: tuple[tuple[str, str, str, tuple[str, ...], float], ...] = (
    ("P3", "FIFO to file, 110 KB records", "ingest", ("raw_110_kb",), 0.9),
    ("P3", "FIFO to file, 1 KB records", "ingest", ("raw_1_kb",), 0.9),
    ("P3", "FIFO to file, 110 KB JPEGs decoded", "ingest", ("jpeg_110_kb",), 0.98),
    ("P3", "demultiplexer to a FIFO per rank, JPEGs decoded", "demultiplexer", ("jpeg_110_kb",), 0.95),
    ("P3", "demultiplexer to a FIFO per rank, 110 KB records", "demultiplexer", ("raw_110_kb",), 0.95),
    ("P3", "demultiplexer to a FIFO per rank, 1 KB records", "demultiplexer", ("raw_1_kb",), 0.95),
    ("P4", "bfloat16 to the benchmark as it comes", "steps", ("P4", "bfloat16_to_synthetic_as_it_comes"), 2.3),
    ("P4", "bfloat16 to the benchmark with yield", "steps", ("P4", "bfloat16_to_synthetic_with_yield"), 1.6),
    ("P4", "float32 to the benchmark with yield", "steps", ("P4", "float32_to_synthetic_with_yield"), 1.0),
    ("P5", "two ranks to two processes", "steps", ("P5", "bfloat16_to_two_independent_processes"), 0.95),
)
_VERSIONS = ("tensorflow-cpu", "tensorflow", "horovod")


def main() -> None:
    """Measure the parts that are asked for, one after the other."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started ends with this program
    parser = argparse.ArgumentParser(prog="python -m bench.training")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part; may be repeated")
    wanted = parser.parse_args().only or list(PARTS)
    document: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    details: dict[str, Any] = document.get("details", {})
    for part in wanted:
        machine = description()
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        details[part] = {"at": at, "machine": machine, "figures": PARTS[part]()}
        found = list(results(details))
        RESULTS.write_text(json.dumps({"results": found, "details": details}, indent=2) + "\n")
    for row in found:
        print(f"{row['id']}  {row['what']:55} >= {row['aim']:<5} {row['ratio']:<6} {'yes' if row['met'] else 'NO'}")


def results(details: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the figures that have an aim and were measured."""
    for name, what, part, place, aim in AIMS:
        if part not in details:
            continue
        figures = details[part]["figures"]
        for step in place:
            figures = figures[step]
        yield {"id": name, "what": what, "ratio": figures["ratio"], "aim": aim, "met": figures["ratio"] >= aim}


def description() -> dict[str, Any]:
    """Return what a reader needs to judge the numbers (bench/machine.py, of what this environment has)."""
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cores": os.cpu_count(),
        "cpu": cpu[0].partition(":")[2].strip() if cpu else platform.processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: version for name in _VERSIONS if (version := _version(name))},
        "real_time": os.sched_getscheduler(0) != os.SCHED_OTHER,  # set apart from other work on the machine (chrt)
        "load_before": round(os.getloadavg()[0], 2),
    }


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
