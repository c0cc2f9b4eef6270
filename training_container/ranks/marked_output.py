"""Marked output: marks each line of a rank with its number, as mpirun does (launcher/rank_lines.py).

torchrun and programs without a launcher write all output into one pipe. Each rank's output passes through its `watched`
process (ranks/leftovers.py), which also reports the rank's death in the form of launcher/failure.py.
"""

import os
import threading

from training_container.launcher.failure import died_line
from training_container.launcher.rank_lines import tag

# A write of at most PIPE_BUF (4,096) bytes is not mixed with those of other ranks (pipe(7)); the rest is for the mark.
_BYTES = 4000
_STREAMS = {"stdout": 1, "stderr": 2}


class MarkedOutput:
    """The pipes between a rank and its `watched` process.

    Args:
        host: SageMaker's name of its host.
    """

    def __init__(self, rank: int, host: str) -> None:
        self._rank, self._host = rank, host
        self._pipes: dict[str, tuple[int, int]] = {}
        self._forward_threads: list[threading.Thread] = []

    def open(self) -> None:
        """Create the pipes, before the fork."""
        self._pipes = {stream: os.pipe() for stream in _STREAMS}

    def use(self) -> None:
        """In the forked process: replace standard output and standard error."""
        for stream, (source, target) in self._pipes.items():
            os.dup2(target, _STREAMS[stream])
            os.close(source)
            os.close(target)

    def forward(self) -> None:
        """In `watched`: start to forward the output in threads, until all processes that write it have ended."""
        for stream, (source, target) in self._pipes.items():
            os.close(target)
            thread = threading.Thread(target=self._forward, args=(source, stream), daemon=True)
            thread.start()
            self._forward_threads.append(thread)

    def close(self, status: int) -> None:
        """In `watched`: wait for the end of the output, and report a rank that has failed.

        Args:
            status: The rank's exit status, negative for a signal.
        """
        for thread in self._forward_threads:
            thread.join()
        if status:
            os.write(1, died_line(self._rank, self._host, status).encode() + b"\n")

    def _forward(self, source: int, stream: str) -> None:
        mark = tag(self._rank, stream).encode()
        while data := os.read(source, _BYTES):
            for piece in data.splitlines(keepends=True):
                os.write(1, mark + piece)
