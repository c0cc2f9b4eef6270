"""`make bench-training`: measures the training image, prints its figures, and writes results/training.json.

    .venv-training/bin/python -m bench.training [--only ingest] [--only demultiplexer] [--only steps]

A part that is not measured keeps its figures in the file, with the time of their measurement.
"""

import argparse
import importlib.metadata
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import results_file
from bench.training import steps
from bench.training.ingest import demultiplexer, ingest

PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "ingest": ingest,
    "demultiplexer": demultiplexer,
    "steps": steps.measure,
}
# (id, what, part, path in its figures, target): all targets are lower limits of ratios.
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
    """Run the selected measurements, one at a time."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also ends the child processes
    parser = argparse.ArgumentParser(prog="python -m bench.training")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part; may be repeated")
    wanted = parser.parse_args().only or list(PARTS)
    earlier = results_file.read("training")
    runs: dict[str, Any] = earlier.get("runs", {})
    rows: list[dict[str, Any]] = earlier.get("results", [])
    details: dict[str, Any] = {}
    for part in wanted:
        runs[part] = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": description()}
        details[part] = PARTS[part]()
        rows = in_order([*(row for row in rows if row["part"] != part), *results(part, details[part])])
        results_file.write("training", {"runs": runs, "results": rows}, details)
    for row in rows:
        print(f"{row['id']}  {row['what']:55} >= {row['aim']:<5} {row['ratio']:<6} {'yes' if row['met'] else 'NO'}")


def results(part: str, figures: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the figures of one part that have a target: the median of all rounds, the lowest and the highest."""
    for name, what, _, place, aim in (one for one in AIMS if one[2] == part):
        figure = figures
        for step in place:
            figure = figure[step]
        rounds = figure.get("ratios") or [ours / theirs for ours, theirs in figure["images_per_second"]]
        spread = {"ratio": figure["ratio"], "lowest": round(min(rounds), 3), "highest": round(max(rounds), 3)}
        yield {"id": name, "part": part, "what": what, **spread, "aim": aim, "met": figure["ratio"] >= aim}


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return results in the order of the targets."""
    order = [(name, what) for name, what, *_ in AIMS]
    return sorted(rows, key=lambda row: order.index((row["id"], row["what"])))


def description() -> dict[str, Any]:
    """Return the context of a measurement, as in bench/machine.py, for the packages of this environment."""
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cores": os.cpu_count(),
        "cpu": cpu[0].partition(":")[2].strip() if cpu else platform.processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: version for name in _VERSIONS if (version := _version(name))},
        "real_time": os.sched_getscheduler(0) != os.SCHED_OTHER,  # a real-time priority (chrt) shields from other work
        "load_before": round(os.getloadavg()[0], 2),
    }


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
