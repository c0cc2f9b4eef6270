"""Lanes of the test commands: wall and processor time of each part of `make test` and `make test-all`.

    python -m bench.lanes run NAME -- COMMAND ...     runs a part, and records its times in build/lanes/
    python -m bench.lanes table                       prints the times of the last runs
    python -m bench.lanes results                     writes them into bench/results/lanes.json

`run NAME --until SECONDS` omits the part, with a message, if it would start later than at this Unix time.
The set-up is a part, too, so the first two commands use only the standard library.
"""

import argparse
import json
import math
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "build" / "lanes"


def run(name: str, command: list[str], until: float = math.inf) -> int:
    """Run a part unless it is later than `until`, record its times, and return its exit status."""
    if time.time() > until:
        print(f"{name}: left out, because no time is left: {shlex.join(command)}", flush=True)
        return _record(name, 0, 0, 0, None)
    start = time.monotonic()
    status = subprocess.run(command, check=False, close_fds=False).returncode  # keeps the jobserver of make
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    memory = used.ru_maxrss // (1024 if sys.platform == "linux" else 1024**2)
    return _record(name, time.monotonic() - start, used.ru_utime + used.ru_stime, memory, status)


def _record(name: str, wall: float, processor: float, memory: int, status: int | None) -> int:
    """Record a part, and return its exit status; a part that was left out has none."""
    record = {
        "name": name,
        "wall_s": round(wall, 1),
        "cpu_s": round(processor, 1),
        "largest_process_mib": memory,
        "status": status,
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name.replace(' ', '-')}.json").write_text(json.dumps(record) + "\n")
    return status or 0


def recorded() -> list[dict[str, Any]]:
    """Return the recorded parts in the order of their ends."""
    files = sorted(FOLDER.glob("*.json"), key=lambda file: file.stat().st_mtime)
    return [json.loads(file.read_text()) for file in files]


def table() -> str:
    """Return a table of the recorded parts."""
    return "\n".join([_row("part", "wall s", "CPU s", "largest MiB", "result"), *map(_line, recorded())])


def write_results() -> None:
    """Write the recorded parts into bench/results/, with the commit and the machine."""
    from bench import machine, results_file  # noqa: PLC0415  # they need packages that the set-up installs

    parts = [part for part in recorded() if part["status"] is not None]
    results_file.write("lanes", {"lanes": parts}, parts, machine.description(()))


def _line(part: dict[str, Any]) -> str:
    result = {0: "passed", None: "left out"}.get(part["status"], f"failed ({part['status']})")
    return _row(part["name"], f"{part['wall_s']:.0f}", f"{part['cpu_s']:.0f}", part["largest_process_mib"], result)


def _row(name: str, wall: str, cpu: str, memory: object, result: str) -> str:
    return f"{name:<44} {wall:>7} {cpu:>7} {memory!s:>12}  {result}"


def main(arguments: list[str]) -> int:
    """Run the command of the module's documentation, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.lanes")
    actions = parser.add_subparsers(dest="action", required=True)
    part = actions.add_parser("run")
    part.add_argument("name")
    part.add_argument("--until", type=float, default=math.inf)
    part.add_argument("command", nargs="+")
    actions.add_parser("table")
    actions.add_parser("results")
    options = parser.parse_args(arguments)
    if options.action == "run":
        return run(options.name, options.command, options.until)
    if options.action == "results":
        write_results()
    else:
        print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
