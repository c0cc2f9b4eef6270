"""Stop limit: ends ranks that continue after a stop, so that a stopped job costs no more than on SageMaker.

SageMaker ends a container 120 seconds after it asked the container to stop
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StopTrainingJob.html). A pod of Kubernetes has more time,
because in the same time its results are uploaded.
"""

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

SECONDS = 120.0
VARIABLE = "TRAINGRID_STOP_SECONDS"
"""An environment variable with another limit."""
_STEP_SECONDS = 1.0


class StopLimit:
    """Ends the ranks of this host when the time after a stop is over.

    Args:
        stop_file: The file that exists when the training was asked to stop.

    Attributes:
        exceeded: True if the ranks were ended.
    """

    def __init__(self, stop_file: Path) -> None:
        self._stop_file = stop_file
        self._seconds = float(os.environ.get(VARIABLE, SECONDS))
        self.exceeded = False

    def watch(self, launcher: "subprocess.Popen[bytes]", end: Callable[[], None]) -> None:
        """Call `end` in a thread if the launcher of the ranks runs longer than the limit after the stop."""
        threading.Thread(target=self._watch, args=(launcher, end), name="stop limit", daemon=True).start()

    def _watch(self, launcher: "subprocess.Popen[bytes]", end: Callable[[], None]) -> None:
        while not self._stop_file.exists():
            if _has_ended(launcher, _STEP_SECONDS):
                return
        if not _has_ended(launcher, self._seconds):
            self.exceeded = True
            print(f"The ranks have not ended {self._seconds:g} s after the stop, and are ended now.", flush=True)
            end()


def _has_ended(launcher: "subprocess.Popen[bytes]", seconds: float) -> bool:
    try:
        launcher.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
