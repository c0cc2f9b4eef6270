"""The demultiplexer in Python, for where native/deal could not be built; it does the same, more slowly.

    python -m training_container.trainer.dealer CHANNEL SOURCE TIMEOUT_SECONDS FIFO...

See native/deal.cc for what it promises.
"""

import os
import signal
import sys
import threading
import time
from collections import deque
from pathlib import Path

from training_container.trainer.byte_blocks import blocks, ending
from training_container.trainer.framing import Splitter, StreamError

MOST_KEPT = 1 << 28
"""Bytes kept in memory, at most, for ranks that are behind while another one waits for its record."""
_KEPT = 1 << 22
"""Bytes kept where no rank waits."""


class RankFifo(threading.Thread):
    """Writes to one rank's FIFO what it is given; `shared` is notified whenever that changes."""

    def __init__(self, path: str, shared: threading.Condition, timeout_seconds: float) -> None:
        super().__init__(daemon=True)
        self.path, self.failure = path, ""
        self.gone = False
        self.kept = 0  # bytes not written yet
        self._shared, self._timeout = shared, timeout_seconds
        self._records: deque[bytes] = deque()
        self._complete, self._ending = False, ""

    def give(self, record: bytes) -> None:
        """Take a record to write; to be called with `shared` held."""
        if not self.gone:
            self._records.append(record)
            self.kept += len(record)
            self._shared.notify_all()

    def finish(self, failure: str = "") -> None:
        """End the FIFO when all is written, or soon where its ending is a failure; to be called with `shared` held."""
        self._complete, self._ending = True, failure
        if failure:
            self._records.clear()
        self._shared.notify_all()

    def run(self) -> None:
        """Write until the rank goes, or has got all there is: it is told then, since other ranks may wait for it."""
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
        """Return a descriptor as soon as the rank has opened its end."""
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
    """Deal a stream to the ranks and return what went wrong, "" where nothing did."""
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
                    "Give the channel more data or start fewer processes."
                )
    except StreamError as error:
        return str(error)
    with shared:
        for rank in ranks:
            rank.finish()
        shared.wait_for(lambda: all(rank.gone for rank in ranks))
    return next((f"Channel {channel}: {rank.failure}" for rank in ranks if rank.failure), "")


def set_ending(path: str, sentence: str) -> None:
    """Leave beside a FIFO how it has ended."""
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
    """Deal, and tell every rank that is left why its FIFO ends."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_lifeline, daemon=True).start()
    channel, source, timeout_seconds, *paths = sys.argv[1:]
    shared = threading.Condition()
    ranks = [RankFifo(path, shared, float(timeout_seconds)) for path in paths]
    failure = deal(channel, source, float(timeout_seconds), ranks, shared)
    if failure:
        print(failure, file=sys.stderr, flush=True)
        with shared:  # those that have not come are to hear it as well
            for rank in ranks:
                rank.finish(failure)
            shared.wait_for(lambda: all(rank.gone for rank in ranks))
    os._exit(1 if failure else 0)  # its threads still hold the FIFOs


if __name__ == "__main__":
    main()
