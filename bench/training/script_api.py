"""Prints the processor time that a script needs to import the modules of `trainer` that use no framework.

    .venv-training/bin/python -m bench.training.script_api

Each round starts Python twice, with and without the import, and the result is the median of the differences.
"""

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

_IMPORT = "from trainer import checkpoint_folders, initial_model, metrics, profiles, ranks, records"
_ROOT = Path(__file__).resolve().parents[2]
_ROUNDS = 20


def main() -> None:
    """Measure all rounds, after one that fills the caches of files and bytecode."""
    started(_IMPORT)
    seconds = [started(_IMPORT) - started("pass") for _ in range(_ROUNDS)]
    print(f"{_IMPORT}\nmedian of {_ROUNDS} rounds: {statistics.median(seconds):.3f} s, highest {max(seconds):.3f} s")


def started(program: str) -> float:
    """Return the processor seconds of Python with a program, from its start to its end."""
    path = os.pathsep.join([str(_ROOT), str(_ROOT / "training_container" / "script_path")])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
