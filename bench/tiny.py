"""`python -m bench.tiny`: runs every benchmark at a tiny size, so that none stops working between two measurements.

It writes nothing into bench/results/. A benchmark whose requirements this machine lacks is skipped, and named.
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bench.launch import RECIPE_PYTHON
from bench.machine import CHECKOUT
from bench.postgres_server import is_installed
from bench.size import TINY, VARIABLE

PYTHON, TRAINING_PYTHON = sys.executable, str(CHECKOUT / ".venv-training/bin/python")
_PATIENCE_SECONDS = 900
_AT_ONCE = 2
NEEDS: dict[str, Callable[[], bool]] = {
    ".venv-bench": RECIPE_PYTHON.exists,
    ".venv-training": (CHECKOUT / ".venv-training/.installed").exists,
    "PostgreSQL": is_installed,
    "chromium": lambda: bool(shutil.which("chromium") or shutil.which("google-chrome")),
    "mpirun": lambda: shutil.which("mpirun") is not None,
}
"""The requirements that a machine may lack, by name."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A benchmark.

    Attributes:
        name: Its target of `make`, or its module if it has none.
        arguments: The arguments of Python.
        needs: The requirements without which it does not run.
        uses: The requirements without which a part of it does not run.
        tested_by: The test file that runs it at a tiny size instead, if one does.
    """

    name: str
    arguments: tuple[str, ...]
    python: str = PYTHON
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    tested_by: str = ""


def _training(name: str, *arguments: str, needs: tuple[str, ...] = ()) -> Benchmark:
    return Benchmark(name=name, arguments=arguments, python=TRAINING_PYTHON, needs=(".venv-training", *needs))


def _local(name: str, module: str, *, needs: tuple[str, ...] = (), uses: tuple[str, ...] = ()) -> Benchmark:
    return Benchmark(name=name, arguments=("-m", f"bench.{module}"), needs=needs, uses=uses)


BENCHMARKS = (
    _local("bench-control", "control", uses=(".venv-bench",)),
    _local("bench-control", "eks_child"),
    _local("bench-demo", "first_minutes", needs=(".venv-training",)),
    _local("idle-cost", "idle_cost"),
    _local("metric-cost", "metric_cost"),
    _local("page-cost", "page_cost"),
    _local("bench-rates", "rates"),
    _local("bench-synth", "synth"),
    _local("bench-catalog", "catalog", uses=("PostgreSQL",)),
    _local("bench-capacity", "capacity"),
    _local("bench-history", "history"),
    _local("bench-logs", "logs"),
    _local("bench-spot", "spot"),
    _local("bench-start", "command_start"),
    _local("bench-status", "status"),
    _local("bench-ui", "ui", needs=("chromium",)),
    _local("bench-plan", "plan"),
    _training("bench-training", "-m", "bench.training", "--only", "ingest", "--only", "demultiplexer"),
    _training("bench-training", "-m", "bench.training", "--only", "checkpoints"),
    _training("bench-training", "-m", "bench.training", "--only", "steps", needs=("mpirun",)),
    Benchmark(name="bench-gpu", arguments=("-m", "bench.gpu"), tested_by="tests/training/runs/test_bench_gpu.py"),
    Benchmark(
        name="bench-gpu-torch", arguments=("-m", "bench.gpu_torch"), tested_by="tests/torch/test_bench_gpu_torch.py"
    ),
)


def main() -> int:
    """Run all benchmarks, or those that the arguments name; print a line for each, and return the exit code."""
    chosen = [benchmark for benchmark in BENCHMARKS if not sys.argv[1:] or benchmark.name in sys.argv[1:]]
    failed, processor = [], _processor_seconds()
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        for benchmark, (text, error) in zip(chosen, pool.map(_attempted, chosen), strict=True):
            print(f"{benchmark.name:16}{text}", flush=True)
            if error:
                failed.append(benchmark.name)
                print(error, flush=True)
    print(
        f"{_processor_seconds() - processor:.0f} s of processor time; {len(failed)} failed {' '.join(failed)}".rstrip()
    )
    return 1 if failed else 0


def _attempted(benchmark: Benchmark) -> tuple[str, str]:
    """Run a benchmark if this machine can; return the words about it, and its error."""
    if benchmark.tested_by:
        return f"   in {benchmark.tested_by}", ""
    if missing := _missing(benchmark.needs):
        return f"   skipped: without {missing}", ""
    started = time.monotonic()
    error = run(benchmark)
    seconds, missing = time.monotonic() - started, _missing(benchmark.uses)
    verdict = "FAILED" if error else f"ok, but without {missing}" if missing else "ok"
    return f"{seconds:6.1f} s  {' '.join(benchmark.arguments)}: {verdict}", error


def run(benchmark: Benchmark) -> str:
    """Run a benchmark at the tiny size, and return the end of its output if it failed, else an empty text."""
    with subprocess.Popen(
        [benchmark.python, *benchmark.arguments],
        cwd=CHECKOUT,
        env={**os.environ, VARIABLE: TINY},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)  # also the processes that it has started
            output, _ = process.communicate()
            return f"It did not end within {_PATIENCE_SECONDS} s:\n{output[-3000:]}"
    return f"It exited with {process.returncode}:\n{output[-3000:]}" if process.returncode else ""


def _processor_seconds() -> float:
    """Return the processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _missing(requirements: tuple[str, ...]) -> str:
    return ", ".join(name for name in requirements if not NEEDS[name]())


if __name__ == "__main__":
    sys.exit(main())
