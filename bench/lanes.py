"""Lanes of the test commands: wall and processor time of each part of `make test` and `make test-all`.

    python -m bench.lanes run NAME -- COMMAND ...     runs a part, and records its times in build/lanes/
    python -m bench.lanes table                       prints the times of the last runs

Only the standard library: the set-up is a part, too.
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
    status = subprocess.run(command, check=False).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    record = {
        "name": name,
        "wall_s": round(time.monotonic() - start, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "largest_process_mib": used.ru_maxrss // (1024 if sys.platform == "linux" else 1024**2),
        "status": status,
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name.replace(' ', '-').replace('/', '-')}.json").write_text(json.dumps(record) + "\n")
    return status


def table() -> str:
    """Return a table of the recorded parts in the order of their ends."""
    files = sorted(FOLDER.glob("*.json"), key=lambda file: file.stat().st_mtime)
    return "\n".join([_row("part", "wall s", "CPU s", "largest MiB", "result"), *(_line(file) for file in files)])


def _line(file: Path) -> str:
    part: dict[str, Any] = json.loads(file.read_text())
    result = "passed" if part["status"] == 0 else f"failed ({part['status']})"
    return _row(part["name"], f"{part['wall_s']:.0f}", f"{part['cpu_s']:.0f}", part["largest_process_mib"], result)


def _row(name: str, wall: str, cpu: str, memory: object, result: str) -> str:
    return f"{name:<44} {wall:>7} {cpu:>7} {memory!s:>12}  {result}"


if __name__ == "__main__":
    if sys.argv[1] == "table":
        print(table())
    else:
        sys.exit(run(sys.argv[2], sys.argv[4:]))
