"""Dealer: the demultiplexer in Python, for systems on which native/deal cannot be built. It is slower.

    python -m training_container.trainer.demux.python_demultiplexer CHANNEL SOURCE TIMEOUT_SECONDS FIFO...

native/deal.cc documents its interface.
"""

import os
import signal
import sys
import threading
import time
from collections import deque
from pathlib import Path

from training_container.trainer.demux.byte_blocks import blocks, ending
from training_container.trainer.demux.framing import Splitter, StreamError

MOST_KEPT = 1 << 28
"""Maximum bytes kept in memory for slow ranks while another rank waits for its record."""
_KEPT = 1 << 22
"""Maximum bytes kept in memory while no rank waits."""


class RankFifo(threading.Thread):
    """Writes records to one rank's FIFO in a thread. `shared` is notified of each change of its state."""

    def __init__(self, path: str, shared: threading.Condition, timeout_seconds: float) -> None:
        super().__init__(daemon=True)
        self.path, self.failure = path, ""
        self.gone = False
        self.kept = 0  # bytes that are not written yet
        self._shared, self._timeout = shared, timeout_seconds
        self._records: deque[bytes] = deque()
        self._complete, self._ending = False, ""

    def give(self, record: bytes) -> None:
        """Queue a record to be written. The caller must hold `shared`."""
        if not self.gone:
            self._records.append(record)
            self.kept += len(record)
            self._shared.notify_all()

    def finish(self, failure: str = "") -> None:
        """End the FIFO after all records, or immediately on failure. The caller must hold `shared`."""
        self._complete, self._ending = True, failure
        if failure:
            self._records.clear()
        self._shared.notify_all()

    def run(self) -> None:
        """Write records until the rank closes the FIFO, or all are written; end the FIFO then, as others may wait."""
        try:
            with open(self._opened(), "wb", buffering=0) as file:  # noqa: PTH123  # a descriptor
                while record := self._next():
                    left = memoryview(record)
                    while left:
                        left = left[file.write(left) :]
                    self._written(len(record))
                set_ending(self.path, self._ending)
        except BrokenPipeError:
            pass
        except TimeoutError as error:
            self.failure = str(error)
        with self._shared:
            self.gone, self.kept = True, 0
            self._records.clear()
            self._shared.notify_all()

    def _opened(self) -> int:
        """Return a descriptor as soon as the rank has opened the FIFO for reading."""
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            try:
                file = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # ENXIO: no reader yet
                time.sleep(0.02)
            else:
                os.set_blocking(file, True)
                return file
        raise TimeoutError(f"{self.path}: its rank did not begin to read within {self._timeout:g} s.")

    def _next(self) -> bytes:
        with self._shared:
            self._shared.wait_for(lambda: self._records or self._complete)
            return self._records.popleft() if self._records else b""

    def _written(self, size: int) -> None:
        with self._shared:
            self.kept -= size
            self._shared.notify_all()


def deal(channel: str, source: str, timeout_seconds: float, ranks: list[RankFifo], shared: threading.Condition) -> str:
    """Distribute a stream's records to the ranks. Return an error message, or "" on success."""
    for rank in ranks:
        rank.start()
    splitter = Splitter(channel, source, whole=True)
    try:
        number = 0
        for block in blocks(source, channel, timeout_seconds):
            for record in splitter.feed(block):
                with shared:
                    shared.wait_for(lambda: _may_go_on(ranks))
                    ranks[number % len(ranks)].give(record)
                number += 1
            if all(rank.gone for rank in ranks):
                break
        else:
            splitter.finish()
            if number < len(ranks):
                return (
                    f"Channel {channel}: {source} has {number} record(s), fewer than this host's {len(ranks)} ranks. "
                    "Add data to the channel, or start fewer processes."
                )
    except StreamError as error:
        return str(error)
    with shared:
        for rank in ranks:
            rank.finish()
        shared.wait_for(lambda: all(rank.gone for rank in ranks))
    return next((f"Channel {channel}: {rank.failure}" for rank in ranks if rank.failure), "")


def set_ending(path: str, sentence: str) -> None:
    """Write the result of a FIFO to the file beside it."""
    written = Path(f"{path}.part")
    written.write_text(sentence)
    written.replace(ending(path))


def _may_go_on(ranks: list[RankFifo]) -> bool:
    kept = sum(rank.kept for rank in ranks)
    starving = any(rank.kept == 0 and not rank.gone for rank in ranks)
    return kept < (MOST_KEPT if starving else _KEPT) or all(rank.gone for rank in ranks)


def _end_with_the_lifeline() -> None:
    sys.stdin.buffer.read(1)
    os._exit(0)


def main() -> None:
    """Distribute the stream, and report an error to every rank that is still reading."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_lifeline, daemon=True).start()
    channel, source, timeout_seconds, *paths = sys.argv[1:]
    shared = threading.Condition()
    ranks = [RankFifo(path, shared, float(timeout_seconds)) for path in paths]
    failure = deal(channel, source, float(timeout_seconds), ranks, shared)
    if failure:
        print(failure, file=sys.stderr, flush=True)
        with shared:  # ranks that have not opened their FIFO yet must receive the error, too
            for rank in ranks:
                rank.finish(failure)
            shared.wait_for(lambda: all(rank.gone for rank in ranks))
    os._exit(1 if failure else 0)  # without waiting for its threads, which still have the FIFOs open


if __name__ == "__main__":
    main()
