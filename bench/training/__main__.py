"""`make bench-training`: measures the training image, prints its figures, and writes results/training.json.

    .venv-training/bin/python -m bench.training [--only PART]... [--rounds N]

The parts are ingest, demultiplexer, steps and checkpoints.

A part that is not measured keeps its figures in the file, with the time of their measurement. With --rounds, which is
for trials, nothing is written.
"""

import argparse
import dataclasses
import signal
from collections.abc import Callable, Iterator
from typing import Any, Literal

from bench import results_file
from bench.size import IS_TINY
from bench.training import steps
from bench.training.checkpoints import checkpoints
from bench.training.ingest import demultiplexer, ingest
from bench.training.machine import description
from bench.training.verdict import interval, verdict

PARTS: dict[str, Callable[..., dict[str, Any]]] = {  # each has a parameter `rounds`
    "ingest": ingest,
    "demultiplexer": demultiplexer,
    "steps": steps.measure,
    "checkpoints": checkpoints,
}
Sense = Literal[">=", "<="]
# (id, what, part, path in its figures, sense and target)
AIMS: tuple[tuple[str, str, str, tuple[str, ...], Sense, float], ...] = (
    ("P3", "reader CPU, FIFO to file, 1 KB records", "ingest", ("raw_1_kb", "cpu"), "<=", 1.05),
    ("P3", "demultiplexer, 8 ranks, 1 KB records: CPU s/GB", "demultiplexer", ("alone_1_kb", "cpu"), "<=", 0.3),
    ("P3", "FIFO to file, 110 KB records", "ingest", ("raw_110_kb", "wall"), ">=", 0.9),
    ("P3", "FIFO to file, 1 KB records", "ingest", ("raw_1_kb", "wall"), ">=", 0.9),
    ("P3", "FIFO to file, 110 KB JPEGs decoded", "ingest", ("jpeg_110_kb", "wall"), ">=", 0.98),
    ("P3", "demultiplexer to a FIFO per rank, JPEGs decoded", "demultiplexer", ("jpeg_110_kb", "wall"), ">=", 0.95),
    ("P3", "demultiplexer to a FIFO per rank, 110 KB records", "demultiplexer", ("raw_110_kb", "wall"), ">=", 0.95),
    ("P3", "demultiplexer to a FIFO per rank, 1 KB records", "demultiplexer", ("raw_1_kb", "wall"), ">=", 0.95),
    ("P4", "bfloat16 to the benchmark as it comes", "steps", ("P4", "bfloat16_to_synthetic_as_it_comes"), ">=", 2.3),
    ("P4", "bfloat16 to the benchmark with yield", "steps", ("P4", "bfloat16_to_synthetic_with_yield"), ">=", 1.6),
    ("P4", "float32 to the benchmark with yield", "steps", ("P4", "float32_to_synthetic_with_yield"), ">=", 1.0),
    ("P5", "two ranks to two processes", "steps", ("P5", "bfloat16_to_two_independent_processes"), ">=", 0.95),
    ("checkpoint", "205 MB written by a thread: seconds of a save", "checkpoints", ("save_thread",), "<=", 0.1),
    ("checkpoint", "the same to a save that writes them", "checkpoints", ("save_thread_to_caller",), "<=", 0.2),
)


def main() -> None:
    """Run the selected measurements, one at a time."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also ends the child processes
    parser = argparse.ArgumentParser(prog="python -m bench.training")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part; may be repeated")
    parser.add_argument("--rounds", type=int, help="rounds of each comparison; print the figures, and write no file")
    arguments = parser.parse_args()
    wanted = arguments.only or list(PARTS)
    if arguments.rounds:
        print(table([row for part in wanted for row in results(part, PARTS[part](rounds=arguments.rounds))]))
    else:
        print(table(measured(wanted)))


def measured(wanted: list[str]) -> list[dict[str, Any]]:
    """Measure some parts, and write their figures. Return them, with the figures of the other parts from the file."""
    earlier = results_file.read("training")
    runs: dict[str, Any] = earlier.get("runs", {})
    rows: list[dict[str, Any]] = [row for row in earlier.get("results", []) if "confidence" in row]  # by this method
    details: dict[str, Any] = {}
    for part in wanted:
        machine = description()
        details[part] = PARTS[part]()
        runs[part] = results_file.origin("training", machine)
        rows = in_order([*(row for row in rows if row["part"] != part), *results(part, details[part])])
        results_file.write("training", {"runs": runs, "results": rows}, details, machine)
    return rows


def results(part: str, figures: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the figures of one part that have a target: the median of all rounds, its interval, and the verdict."""
    for name, what, _, place, sense, aim in (one for one in AIMS if one[2] == part):
        figure, around = figures, figures
        if IS_TINY and place[-1] not in figures[place[0]]:
            continue
        for step in place:
            figure, around = figure[step], figure
        rounds = figure.get("rounds") or [ours / theirs for ours, theirs in figure["images_per_second"]]
        found = interval(rounds)
        numbers = {key: round(value, 3) for key, value in dataclasses.asdict(found).items()}
        cost: dict[str, Any] = {key: around[key] for key in ("base_cpu_s_per_gb", "cpu_s_per_gb") if key in around}
        met = verdict(found, sense, aim)
        yield {"id": name, "part": part, "what": what, **numbers, **cost, "aim": f"{sense} {aim}", "met": met}


def table(rows: list[dict[str, Any]]) -> str:
    """Return results as a table, in which CPU is that of the reader in seconds per GB: of the base, and of ours."""
    lines = [f"{'what':49} {'aim':7} {'median':7} {'interval':15} {'CPU s/GB':14} met"]
    for row in rows:
        cost = f"{row['base_cpu_s_per_gb']:.2f} -> {row['cpu_s_per_gb']:.2f}" if "cpu_s_per_gb" in row else "-"
        ends = f"{row['low']:.3f} to {row['high']:.3f}"
        lines.append(f"{row['what']:49} {row['aim']:7} {row['median']:<7.3f} {ends:15} {cost:14} {row['met']}")
    return "\n".join(lines)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return results in the order of the targets."""
    order = [(name, what) for name, what, *_ in AIMS]
    return sorted(rows, key=lambda row: order.index((row["id"], row["what"])))


if __name__ == "__main__":
    main()
