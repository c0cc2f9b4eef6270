"""Split classes: the handwritten digits of all campaigns, of which each Region has other shares of each digit."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LABEL = b"image/class/label\x12\x05\x1a\x03\x0a\x01"
"""The beginning of the label in a record of TensorFlow's Example, whose next byte is the digit."""
SKEW = 0.3
"""The parameter of the Dirichlet distribution of a digit's shares: the lower, the more of it is in one Region."""
_FRAME_BYTES = 16
"""The length of a record with its checksum before the data, and the checksum behind it."""


def records(path: Path) -> Iterator[bytes]:
    """Yield the records of a TFRecord file with their frames."""
    content, start = path.read_bytes(), 0
    while start < len(content):
        end = start + _FRAME_BYTES + int.from_bytes(content[start : start + 8], "little")
        yield content[start:end]
        start = end


def digit_of(record: bytes) -> int:
    """Return the digit of a record."""
    return record.split(LABEL)[1][0]


def write_split(campaigns: Sequence[Path], folders: Sequence[Path], seed: int = 0) -> list[int]:
    """Write a folder for each Region, with all validation data and its share of each digit to train on.

    Returns:
        The number of training records of each folder.
    """
    generator = random.Random(seed)  # noqa: S311  # a split, not a secret
    by_digit: dict[int, list[bytes]] = defaultdict(list)
    for campaign in campaigns:
        for path in sorted((campaign / "train").iterdir()):
            for record in records(path):
                by_digit[digit_of(record)].append(record)
    parts: list[list[bytes]] = [[] for _ in folders]
    for _, of_digit in sorted(by_digit.items()):
        shares = [generator.gammavariate(SKEW, 1) for _ in folders]
        for record in of_digit:
            generator.choices(parts, shares)[0].append(record)
    for folder, part in zip(folders, parts, strict=True):
        _write(folder / "train" / "train-0", part)
        validation = (path for campaign in campaigns for path in sorted((campaign / "validation").iterdir()))
        _write(folder / "validation" / "validation-0", [record for path in validation for record in records(path)])
    return [len(part) for part in parts]


def _write(path: Path, content: Sequence[bytes]) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(content))
