"""Silence: ends ranks that print nothing for a long time, with any launcher, and reports what each one was doing.

Horovod detects ranks that wait for another one only with MPI (horovod_stalls.py), and torch.distributed by its timeout;
neither sees a program without collectives. The only sign that all programs share is their output. A program may be
silent for good reasons, so there is no limit unless the job sets one.
"""

import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from training_container.launcher.rank_lines import RankLine
from training_container.launcher.rank_signals import signal_ranks

STACK_SIGNAL = signal.SIGUSR1
"""Ranks print their Python stack when they receive it (faulthandler), even if they are blocked in a library."""
_PRINTING_SECONDS = 2.0
# A frame that Python's faulthandler prints, innermost first.
_FRAME = re.compile(r'^\s*File "([^"]*)", line (\d+) in (\S+)')
_SHOWN_RANKS = 8


class SilenceWatch:
    """Watches the time since the last line of output.

    Args:
        seconds: The limit; 0 for none.
        code: The folder of the script, whose frames are the informative ones.
        start_seconds: The time after the start in which no rank is ended, because ranks may compile kernels.
    """

    def __init__(self, seconds: float, code: Path, start_seconds: float = 0.0) -> None:
        self._seconds, self._code = seconds, code.resolve()
        self._last_output_at = time.monotonic()
        self._begin = self._last_output_at + start_seconds
        self._places: dict[int, str] = {}
        self.stalled = False

    def heard(self) -> None:
        """Record that a rank has printed something."""
        self._last_output_at = time.monotonic()

    def read(self, line: RankLine) -> None:
        """Process a line of output."""
        if not self.stalled:
            self.heard()
        elif (match := _FRAME.match(line.text)) and not self._is_own(self._places.get(line.rank or 0, "")):
            path, number, function = match.groups()
            if self._is_own(path) or (line.rank or 0) not in self._places:
                self._places[line.rank or 0] = f"{path}:{number} in {function}"

    def watch(self, launcher: "subprocess.Popen[bytes]", end: Callable[[], None]) -> None:
        """Call `end` in a thread if the limit is exceeded, after the ranks of this host have printed their stacks."""
        self.heard()
        if self._seconds:
            threading.Thread(target=self._watch, args=(launcher, end), name="silence", daemon=True).start()

    def reason(self, host: str) -> str:
        """Return the text of output/failure: the limit, and the place in the script of each rank of this host."""
        ranks = sorted(self._places)
        places = [
            f"Rank {rank} on {host} was at {self._place_in_code(self._places[rank])}." for rank in ranks[:_SHOWN_RANKS]
        ]
        if len(ranks) > _SHOWN_RANKS:
            places.append(f"The log has the stacks of {len(ranks) - _SHOWN_RANKS} more.")
        return (
            f"No rank has printed a line for {self._seconds:g} s (sagemaker_stall_seconds). {' '.join(places)} If this "
            "is expected, print progress more often, or increase the limit.\n"
        )

    def _watch(self, launcher: "subprocess.Popen[bytes]", end: Callable[[], None]) -> None:
        while launcher.poll() is None:
            remaining_seconds = max(self._last_output_at + self._seconds, self._begin) - time.monotonic()
            if remaining_seconds <= 0:
                self.stalled = True
                signal_ranks(launcher.pid, STACK_SIGNAL)
                time.sleep(_PRINTING_SECONDS)
                end()
                return
            time.sleep(min(remaining_seconds, 1.0))

    def _is_own(self, place: str) -> bool:
        return place.startswith(f"{self._code}/")

    def _place_in_code(self, place: str) -> str:
        return place.removeprefix(f"{self._code}/")
