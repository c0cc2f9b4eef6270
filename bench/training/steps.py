"""P4: speed of two ranks training ResNet-50 on this machine. P5: that speed relative to two independent processes.

Every loop runs in its own processes, which SIGSTOP pauses while another loop is timed. The loops alternate in short
blocks, so that other load on the machine affects all of them. A figure is the median over rounds of the ratio within
a round.
"""

import contextlib
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.machine import CHECKOUT
from bench.size import size
from bench.training.step_loop_settings import BATCH_SIZE, STEPS_PER_BLOCK

PYTHON = CHECKOUT / ".venv-training/bin/python"
RANKS = 2
ROUNDS = size(6, 1)  # the fewest with an interval of 95 %, see verdict.interval
PATIENCE_SECONDS = 600.0
LOOK_SECONDS = 0.02
# Variables that `train` sets for its ranks if there is no GPU (training_container/launcher/rank_environment.py).
YIELD = {"OMPI_MCA_mpi_yield_when_idle": "1"}
OURS = YIELD | {"OMP_NUM_THREADS": "1"}


@dataclass(kw_only=True)
class Loop:
    """Two processes that run one of step_loop.py's loops.

    Args:
        kind: Name of the loop.
        precision: Name of a Keras policy.
        environment: Additional environment variables of the processes.
    """

    kind: str
    precision: str
    environment: Mapping[str, str]
    folder: Path = field(init=False)
    started: "list[subprocess.Popen[bytes]]" = field(init=False, default_factory=list)
    blocks: int = field(init=False, default=0)

    def start(self, folder: Path) -> None:
        """Start both processes, wait until they have trained a few steps, and pause them."""
        self.folder = folder
        folder.mkdir()
        program = [str(PYTHON), "-m", "bench.training.step_loop", self.kind, self.precision, str(folder)]
        mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(RANKS), "--bind-to", "none"]
        commands = [[*program, str(rank)] for rank in range(RANKS)] if self.kind == "alone" else [[*mpirun, *program]]
        environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(CHECKOUT), **self.environment}
        with (folder / "log").open("wb") as log:
            self.started = [
                subprocess.Popen(command, env=environment, cwd=CHECKOUT, stdout=log, stderr=log, start_new_session=True)
                for command in commands
            ]
        self._await("ready-*")
        self._signal(signal.SIGSTOP)

    def images_per_second(self) -> float:
        """Run one block of steps, and return the images per second of both processes together."""
        self._signal(signal.SIGCONT)
        (self.folder / f"go-{self.blocks}").touch()
        seconds = [float(path.read_text()) for path in self._await(f"done-{self.blocks}-*")]
        self._signal(signal.SIGSTOP)
        self.blocks += 1
        return sum(STEPS_PER_BLOCK * BATCH_SIZE / each for each in seconds)

    def end(self) -> None:
        """End both processes."""
        self._signal(signal.SIGCONT)
        (self.folder / "end").touch()
        for process in self.started:
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()  # the ranks end with mpirun

    def _await(self, pattern: str) -> Sequence[Path]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(found := list(self.folder.glob(pattern))) < RANKS:
            if time.monotonic() > deadline or any(process.poll() is not None for process in self.started):
                log = (self.folder / "log").read_text(errors="replace")[-3000:]
                raise RuntimeError(f"The loop {self.kind} has ended or hangs before {pattern}. End of its log:\n{log}")
            time.sleep(LOOK_SECONDS)
        return found

    def _signal(self, number: signal.Signals) -> None:
        for path in self.folder.glob("ready-*"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.read_text()), number)


@contextlib.contextmanager
def running(loops: Sequence[Loop]) -> Iterator[None]:
    """Start the loops one at a time, and end all of them afterwards."""
    with tempfile.TemporaryDirectory(prefix="traingrid-steps-") as work:
        try:
            for number, loop in enumerate(loops):
                loop.start(Path(work) / str(number))
            yield
        finally:
            for loop in loops:
                if loop.started:
                    loop.end()


def compared(loop: Loop, other: Loop, rounds: int) -> dict[str, Any]:
    """Return the images per second of two alternating loops, and the median of their ratio."""
    loops = (loop, other)
    with running(loops):
        pairs = []
        for number in range(rounds):
            turns = loops if number % 2 == 0 else loops[::-1]  # alternate the order
            speeds = {id(turn): turn.images_per_second() for turn in turns}
            pairs.append([round(speeds[id(one)], 2) for one in loops])
    return {"ratio": round(statistics.median(one / two for one, two in pairs), 3), "images_per_second": pairs}


def measure(rounds: int = ROUNDS) -> dict[str, Any]:
    """Return the ratios of P4 and P5, and the images per second behind them.

    Only two loops run at a time, because each of their processes takes one to three gigabytes.
    """

    def ours(precision: str) -> Loop:
        return Loop(kind="traingrid", precision=precision, environment=OURS)

    def synthetic(environment: Mapping[str, str]) -> Loop:
        return Loop(kind="synthetic", precision="float32", environment=environment)

    alone = Loop(kind="alone", precision="mixed_bfloat16", environment=OURS)
    pairs = {
        "bfloat16_to_synthetic_as_it_comes": (ours("mixed_bfloat16"), synthetic({})),
        "bfloat16_to_synthetic_with_yield": (ours("mixed_bfloat16"), synthetic(YIELD)),
        "float32_to_synthetic_with_yield": (ours("float32"), synthetic(YIELD)),
    }
    return {
        "P4": {name: compared(*pairs[name], rounds) for name in list(pairs)[size(0, -1) :]},
        "P5": {"bfloat16_to_two_independent_processes": compared(ours("mixed_bfloat16"), alone, rounds)},
        "model": "tf.keras.applications.ResNet50, 224 x 224, random images",
        "batch_size_per_rank": BATCH_SIZE,
        "ranks": RANKS,
        "steps_per_block": STEPS_PER_BLOCK,
        "synthetic": "Horovod's tensorflow2_synthetic_benchmark, written afresh; yield: Open MPI's mpi_yield_when_idle",
    }
