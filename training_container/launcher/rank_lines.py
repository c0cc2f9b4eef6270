"""Rank lines: tells which rank has printed each line.

mpirun marks the output of ranks with `[1,RANK]<stdout>:` (`--tag-output`; `--output tag` of Open MPI 5,
https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html). Open MPI 4 marks each piece that it reads, also
within a line, so that the lines of ranks that print at the same time can be put together again. gloo.py uses the same
form.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_TAG = re.compile(r"\[\d+,(\d+)\]<(stdout|stderr)>:")
BYTES = "latin-1"
"""The encoding of the launcher's output, which keeps each byte: a mark may stand between the bytes of a character."""
_MAX_LINE_LENGTH = 64 * 1024
"""The number of characters after which a line without an end is passed on, so that it does not fill the memory."""


class RankLine(NamedTuple):
    """A line of output.

    Attributes:
        rank: The rank that printed it; None for the launcher.
        stream: "stdout" or "stderr".
        text: The line, with a newline at its end.
    """

    rank: int | None
    stream: str
    text: str

    @property
    def shown(self) -> str:
        """The line as the log shows it: marked, unless it comes from rank 0 or the launcher.

        Metric expressions that start with `^` still match the lines of rank 0.
        """
        return f"{tag(self.rank, self.stream)}{self.text}" if self.rank else self.text


def tag(rank: int, stream: str) -> str:
    """Return the mark of a rank's output."""
    return f"[1,{rank}]<{stream}>:"


class RankLines:
    """Puts lines together from the pieces that the launcher of the ranks prints.

    Args:
        space: Whether the launcher prints a space after the mark, as Open MPI 5 does.
    """

    def __init__(self, *, space: bool = False) -> None:
        self._space = space
        self._unfinished_lines: dict[tuple[int, str], str] = {}
        self._last_key: tuple[int, str] | None = None  # whose line ended with a carriage return

    def read(self, output: Iterable[str]) -> Iterator[RankLine]:
        """Yield complete lines.

        Args:
            output: The launcher's output, decoded by `BYTES`, in pieces that end with a newline or a carriage return.
                The latter ends a line too, because progress bars print nothing else for a long time.
        """
        for piece in output:
            before, *tagged_parts = _TAG.split(piece)
            if before and not tagged_parts:
                yield self._untagged(before)
                continue
            for rank, stream, text in zip(tagged_parts[::3], tagged_parts[1::3], tagged_parts[2::3], strict=True):
                yield from self._append((int(rank), stream), before + self._without_space(text))
                before = ""
        for key, text in self._unfinished_lines.items():
            yield RankLine(*key, _as_line(text))

    def _untagged(self, text: str) -> RankLine:
        """Return a line without a mark: the next part of a progress bar, or a message of the launcher."""
        rank, stream = self._last_key or (None, "stderr")
        self._last_key = self._last_key if text.endswith("\r") else None
        return RankLine(rank, stream, _as_line(text))

    def _append(self, key: tuple[int, str], text: str) -> Iterator[RankLine]:
        """Add a piece to the line of a rank, and yield the line if it is complete."""
        line = self._unfinished_lines.pop(key, "") + text
        if line.endswith(("\n", "\r")) or len(line) > _MAX_LINE_LENGTH:
            yield RankLine(*key, _as_line(line))
        else:
            self._unfinished_lines[key] = line
        self._last_key = key if line.endswith("\r") else None

    def _without_space(self, text: str) -> str:
        return text.removeprefix(" ") if self._space else text


def _as_line(text: str) -> str:
    line = text.rstrip("\r\n")
    return (line if line.isascii() else line.encode(BYTES).decode("utf-8", errors="replace")) + "\n"
