#!/usr/bin/env python3
"""Set-up step: runs a command unless its stamp file is newer than its inputs, and shows how long it takes.

Usage: step.py STAMP NAME [INPUT ...] -- COMMAND ...

make compares the stamp with the inputs, too. It is compared here again because two `make` of one checkout may run at
once: the second one waits for the lock, and then has nothing left to do. The stamp is written last, so the next `make`
repeats a step that was killed.
"""

import fcntl
import subprocess
import sys
import time
from pathlib import Path

LOCKS = Path("build/locks")


def main(stamp: Path, name: str, inputs: list[Path], command: list[str]) -> int:
    """Run the step, and return the exit status of its command, or 0 if there was nothing to do."""
    LOCKS.mkdir(parents=True, exist_ok=True)
    with (LOCKS / str(stamp).strip(".").replace("/", "-")).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{name}: waiting for the other `make` in this folder ...", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_current(stamp, inputs):
            return 0
        return _run(stamp, name, command)


def _is_current(stamp: Path, inputs: list[Path]) -> bool:
    if not stamp.exists():
        return False
    stamp_time = stamp.stat().st_mtime_ns
    return all(path.stat().st_mtime_ns <= stamp_time for path in inputs if path.exists())


def _run(stamp: Path, name: str, command: list[str]) -> int:
    print(f"{name} ...", flush=True)
    start = time.monotonic()
    stamp.unlink(missing_ok=True)
    status = subprocess.run(command, check=False).returncode
    if status:
        print(f"{name}: failed with exit status {status}. Run the same `make` again after a repair.", file=sys.stderr)
        return status
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.touch()
    print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    separator = sys.argv.index("--")
    try:
        sys.exit(
            main(
                Path(sys.argv[1]),
                sys.argv[2],
                [Path(path) for path in sys.argv[3:separator]],
                sys.argv[separator + 1 :],
            )
        )
    except OSError as error:
        sys.exit(
            f"{sys.argv[2]}: {error.filename or sys.argv[1]}: {error.strerror}. Repair this, and run `make` again."
        )
    except KeyboardInterrupt:
        sys.exit(130)
