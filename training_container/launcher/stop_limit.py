"""Stop limit: asks ranks of scripts to stop, and ends ranks that continue, so that a stop costs no more than elsewhere.

A script gets SIGTERM, because that is what frameworks handle: Hugging Face's Trainer and Lightning write a checkpoint.
A script that asks `stop_requested` gets no signal.

SageMaker ends a container 120 seconds after it asked the container to stop
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StopTrainingJob.html). A pod of Kubernetes has more time,
because in the same time its results are uploaded.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from training_container.contract.stopping import polled_file
from training_container.launcher.rank_signals import signal_ranks

SECONDS = 120.0
VARIABLE = "TRAINGRID_STOP_SECONDS"
"""An environment variable with another limit."""
_STEP_SECONDS = 1.0
_ASKING_SECONDS = 3.0
"""The time in which a script may ask for the first time, for example if its training has just begun."""


class StopLimit:
    """Ends the ranks of this host when the time after a stop is over.

    Args:
        stop_file: The file that exists when the training was asked to stop.
        is_script: True if the ranks run a script, which is asked to stop by SIGTERM.

    Attributes:
        exceeded: True if the ranks were ended.
    """

    def __init__(self, stop_file: Path, *, is_script: bool = False) -> None:
        self._stop_file, self._is_script = stop_file, is_script
        self._seconds = float(os.environ.get(VARIABLE, SECONDS))
        self.exceeded = False

    def watch(self, launcher: "subprocess.Popen[bytes]", end: Callable[[], None]) -> None:
        """Call `end` in a thread if the launcher of the ranks runs longer than the limit after the stop."""
        threading.Thread(target=self._watch, args=(launcher, end), name="stop limit", daemon=True).start()

    def _watch(self, launcher: "subprocess.Popen[bytes]", end: Callable[[], None]) -> None:
        while not self._stop_file.exists():
            if _has_ended(launcher, _STEP_SECONDS):
                return
        if self._is_script:
            ask_ranks_to_stop(launcher.pid, self._stop_file)
        if not _has_ended(launcher, self._seconds):
            self.exceeded = True
            print(f"The ranks have not ended {self._seconds:g} s after the stop, and are ended now.", flush=True)
            end()


def ask_ranks_to_stop(top: int, stop_file: Path) -> None:
    """Send SIGTERM to the ranks of a script on this host, unless one of them asks for the stop, now or in a moment.

    Args:
        top: A process from which the ranks descend.
    """
    deadline = time.monotonic() + _ASKING_SECONDS
    while not polled_file(stop_file).exists():
        if time.monotonic() > deadline:
            signal_ranks(top, signal.SIGTERM)
            return
        time.sleep(0.1)


def _has_ended(launcher: "subprocess.Popen[bytes]", seconds: float) -> bool:
    try:
        launcher.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
