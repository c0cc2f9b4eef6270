"""Write small data sets in the formats of the three algorithms.

    python -m examples.algorithms.write_data FOLDER

The images are squares of one color, and the label is the color. RecordIO is MXNet's format; for real images, create it
with im2rec (https://mxnet.apache.org/versions/1.9.1/api/faq/recordio).
"""

import random
import struct
import sys
import zlib
from pathlib import Path

SIZE = 32
COLORS = ((200, 40, 40), (40, 200, 40), (40, 40, 200))
NUMBERS = {"train": 60, "validation": 15}


def main() -> None:
    folder, draw = Path(sys.argv[1]), random.Random(1)  # noqa: S311  # data of an example, not a secret
    for channel, number in NUMBERS.items():
        write(folder / "xgboost" / channel / "rows.csv", "".join(row(draw) for _ in range(number)).encode())
        labels = [draw.randrange(len(COLORS)) for _ in range(number)]
        squares = [record((label,), png(label)) for label in labels]
        write(folder / "image-classification" / channel / "squares.rec", b"".join(squares))
        boxes = [record(box(label, draw), png(label)) for label in labels]
        write(folder / "object-detection" / channel / "squares.rec", b"".join(boxes))


def row(draw: random.Random) -> str:
    """Return a row of CSV without a header; the first column is the label."""
    first, second = draw.random(), draw.random()
    return f"{3 * first - second + draw.gauss(0, 0.1):.4f},{first:.4f},{second:.4f}\n"


def png(label: int) -> bytes:
    """Return a PNG whose pixels have one color."""
    line = b"\0" + bytes(COLORS[label]) * SIZE
    header = struct.pack(">IIBBBBB", SIZE, SIZE, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(line * SIZE)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in parts)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def box(label: int, draw: random.Random) -> tuple[float, ...]:
    """Return the labels of one object: the lengths of header and object, the class, and two corners from 0 to 1."""
    left, top = draw.uniform(0, 0.4), draw.uniform(0, 0.4)
    return (2, 5, label, left, top, left + 0.5, top + 0.5)


def record(labels: tuple[float, ...], image: bytes) -> bytes:
    """Return a record: magic number, length, header with the labels, image, padding to four bytes."""
    one = len(labels) == 1
    header = struct.pack("<IfQQ", 0 if one else len(labels), labels[0] if one else 0, 0, 0)
    data = header + (b"" if one else struct.pack(f"<{len(labels)}f", *labels)) + image
    return struct.pack("<II", 0xCED7230A, len(data)) + data + b"\0" * (-len(data) % 4)


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    print(f"{path}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
