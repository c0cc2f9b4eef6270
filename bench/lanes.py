"""Lanes of the test commands: wall and processor time of each part of `make test` and `make test-all`.

    python -m bench.lanes run NAME -- COMMAND ...     runs a part, and records its times in build/lanes/
    python -m bench.lanes table                       prints the times of the last runs
    python -m bench.lanes results                     writes them into bench/results/lanes.json

The set-up is a part, too, so the first two commands use only the standard library.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "build" / "lanes"


def run(name: str, command: list[str]) -> int:
    """Run a part, record its times, and return its exit status."""
    start = time.monotonic()
    status = subprocess.run(command, check=False, close_fds=False).returncode  # keeps the jobserver of make
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    record = {
        "name": name,
        "wall_s": round(time.monotonic() - start, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "largest_process_mib": used.ru_maxrss // (1024 if sys.platform == "linux" else 1024**2),
        "status": status,
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name.replace(' ', '-')}.json").write_text(json.dumps(record) + "\n")
    return status


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

    results_file.write("lanes", {"lanes": recorded()}, recorded(), machine.description(()))


def _line(part: dict[str, Any]) -> str:
    result = "passed" if part["status"] == 0 else f"failed ({part['status']})"
    return _row(part["name"], f"{part['wall_s']:.0f}", f"{part['cpu_s']:.0f}", part["largest_process_mib"], result)


def _row(name: str, wall: str, cpu: str, memory: object, result: str) -> str:
    return f"{name:<44} {wall:>7} {cpu:>7} {memory!s:>12}  {result}"


if __name__ == "__main__":
    if sys.argv[1] == "table":
        print(table())
    elif sys.argv[1] == "results":
        write_results()
    else:
        sys.exit(run(sys.argv[2], sys.argv[4:]))
