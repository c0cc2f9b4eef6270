"""Benchmarks at a tiny size: each target is among them, none writes a result, and a failure is reported."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import tiny
from bench.machine import CHECKOUT
from bench.size import TINY, VARIABLE
from bench.tiny import BENCHMARKS, Benchmark, run


def test_every_target_of_a_benchmark_runs_at_the_tiny_size() -> None:
    makefile = (CHECKOUT / "bench/bench.mk").read_text()
    rules = re.findall(r"^(bench-(?!guard|tiny)[a-z-]+|[a-z]+-cost):.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    modules = {(name, module) for name, lines in rules for module in re.findall(r"-m (bench[.\w]*)", lines)}
    assert len(modules) > 10
    assert modules == {(benchmark.name, benchmark.arguments[1]) for benchmark in BENCHMARKS}
    tests = {benchmark.tested_by: benchmark.arguments[1] for benchmark in BENCHMARKS if benchmark.tested_by}
    assert all(module in (CHECKOUT / test).read_text() for test, module in tests.items())


def test_the_tiny_size_does_not_replace_results(tmp_path: Path) -> None:
    program = "from bench import results_file, plan; print(results_file.SUMMARIES); print(plan.DATASETS)"
    command, environment = [sys.executable, "-c", program], {**os.environ, VARIABLE: TINY}
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, check=True, capture_output=True, text=True)
    folder, datasets = done.stdout.splitlines()
    assert Path(folder) == CHECKOUT / "build/bench/tiny"
    assert int(datasets) < 1000


def test_a_benchmark_that_fails_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = Benchmark(name="good", arguments=("-c", "print(1)"))
    bad = Benchmark(name="bad", arguments=("-c", "raise SystemExit('no such table')"))
    lacking = Benchmark(name="lacking", arguments=("-c", "raise SystemExit(1)"), needs=("a machine",))
    assert run(good) == ""
    monkeypatch.setattr(tiny, "BENCHMARKS", (good, lacking, bad))
    monkeypatch.setattr(tiny, "NEEDS", {"a machine": lambda: False})
    monkeypatch.setattr(sys, "argv", ["bench.tiny"])
    assert tiny.main() == 1
    output = capsys.readouterr().out
    assert re.search("lacking +skipped: without a machine", output)
    assert "no such table" in output
    assert output.endswith("1 failed bad\n")
    monkeypatch.setattr(tiny, "BENCHMARKS", (good, lacking))
    assert tiny.main() == 0


def test_a_benchmark_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny, "_PATIENCE_SECONDS", 0.01)
    hangs = Benchmark(name="hangs", arguments=("-c", "import time; time.sleep(600)"))
    assert run(hangs).startswith("It did not end within 0.01 s:")
