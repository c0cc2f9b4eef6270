"""RecordIO: translates a stream of RecordIO records into TFRecords in the ImageNet schema. Does not import TensorFlow.

    python -m training_container.trainer.demux.recordio CONTENT CHANNEL SOURCE TIMEOUT_SECONDS FIFO

A record consists of a magic number, a word with three bits of flags and 29 bits of length, the data, and zeros up to a
multiple of four bytes. Data that contain the magic number at such a multiple are split there into several parts: a
first one (flag 1), middle ones (2) and a last one (3), which the magic number joins again. Source: dmlc-core,
include/dmlc/recordio.h (https://github.com/dmlc/dmlc-core/blob/main/include/dmlc/recordio.h).

CONTENT is `pairs` or `images`. With `pairs`, records alternate: an encoded image, and the text of its label. SageMaker
streams an augmented manifest with two attributes and RecordWrapperType RecordIO in this form
(https://docs.aws.amazon.com/sagemaker/latest/dg/augmented-manifest-stream.html). With `images`, each record is one that
MXNet's im2rec has written: a header, its labels, and the encoded image. The header is `IRHeader(flag, label, id, id2)`:
with flag 0 its field `label` is the only label, and with a greater flag as many float32 follow the header
(https://github.com/apache/mxnet/blob/master/python/mxnet/recordio.py, `pack` and `unpack`;
https://github.com/apache/mxnet/blob/master/src/io/image_recordio.h, `Load`).

The process ends when its standard input is closed, like the demultiplexer, and reports an error in the same way.
"""

from __future__ import annotations

import os
import re
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from training_container.trainer.demux.framing import StreamError, masked_crc
from training_container.trainer.demux.record_reader import blocks, ending

MAGIC = 0xCED7230A
_MAGIC_BYTES = struct.pack("<I", MAGIC)
_FRAME = struct.Struct("<II")
_IMAGE_HEADER = struct.Struct("<IfQQ")  # the flag, a label, two ids
_FLOAT_LABEL = struct.Struct("<f")
_LENGTH_BITS = 29
_COMPLETE, _FIRST, _MIDDLE, _LAST = range(4)
_LABEL = re.compile(rb"-?[0-9]{1,18}")  # fits into 64 bits
_SHOWN = 64  # bytes of an invalid label


@dataclass(frozen=True)
class Stream:
    """A stream of RecordIO records.

    Attributes:
        channel: The channel's name, for messages.
        path: The path that the bytes come from, for messages.
    """

    channel: str
    path: str
    blocks: Iterator[bytes]

    def error(self, text: str) -> StreamError:
        """Return an error of the stream."""
        return StreamError(f"Channel {self.channel}: {text}")

    def records(self) -> Iterator[bytes]:
        """Yield the data of the records.

        Raises:
            StreamError: The stream is empty, is truncated, or has another format.
        """
        number, parts = 0, list[bytes]()
        for start, flag, data in self._frames():
            begins_record = flag in (_COMPLETE, _FIRST)
            if begins_record == bool(parts):  # it begins inside another record, or continues none
                raise self.error(
                    f"record {number} of {self.path} is damaged at byte {start}: a part of it is missing. Rewrite the "
                    "object."
                )
            parts.append(data)
            if flag in (_COMPLETE, _LAST):
                yield _MAGIC_BYTES.join(parts)  # the writer splits a record at each magic number in it
                number, parts = number + 1, []
        if parts or number == 0:
            reason = f"inside record {number}" if parts else "without any data"
            raise self.error(f"{self.path} ended {reason}. Check the channel's objects.")

    def _frames(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the start, the flag and the data of each part."""
        buffered, start = bytearray(), 0
        for block in self.blocks:
            buffered += block
            position, view = 0, memoryview(buffered)
            while len(buffered) - position >= _FRAME.size:
                flag, length = self._header(buffered, position, start + position)
                end = position + _FRAME.size + length
                if end + (-length % 4) > len(buffered):
                    break
                yield start + position, flag, bytes(view[position + _FRAME.size : end])
                position = end + (-length % 4)
            view.release()
            del buffered[:position]
            start += position
        if buffered:
            raise self.error(f"{self.path} was truncated at byte {start + len(buffered)}. An object is incomplete.")

    def _header(self, buffered: bytearray, position: int, start: int) -> tuple[int, int]:
        magic, word = _FRAME.unpack_from(buffered, position)
        if magic != MAGIC:
            raise self.error(
                f"byte {start} of {self.path} does not begin a record of RecordIO. Remove record_wrapper and "
                "content_type from a channel of TFRecord files; otherwise the object is damaged."
            )
        return word >> _LENGTH_BITS, word & ((1 << _LENGTH_BITS) - 1)


def pairs(stream: Stream) -> Iterator[tuple[bytes, int]]:
    """Yield each image with its label, from records that alternate.

    Raises:
        StreamError: A label is not a whole number, or is missing.
    """
    image: bytes | None = None
    for number, record in enumerate(stream.records()):
        if image is None:
            image = record
            continue
        yield image, _label(stream, number, record)
        image = None
    if image is not None:
        raise stream.error(f"{stream.path} ended after an image without its label. {_PAIRS}")


_PAIRS = (
    "Streamed with record_wrapper RecordIO, the channel must be an augmented manifest with two attributes in this "
    "order: an image, whose name ends with -ref, and its label, a whole number."
)


def _label(stream: Stream, number: int, record: bytes) -> int:
    if _LABEL.fullmatch(record):
        return int(record)
    content = repr(record.decode(errors="replace")) if len(record) <= _SHOWN else f"{len(record):,} bytes"
    raise stream.error(f"record {number} of {stream.path} must be a label, but is {content}. {_PAIRS}")


def images(stream: Stream) -> Iterator[tuple[bytes, int]]:
    """Yield each image with its label, from records of im2rec.

    Raises:
        StreamError: A record has no header, several labels, or a label that is not a whole number.
    """
    for number, record in enumerate(stream.records()):
        if len(record) < _IMAGE_HEADER.size:
            raise stream.error(f"record {number} of {stream.path} has {len(record)} bytes, and no header. {_IMAGES}")
        flag, label, _, _ = _IMAGE_HEADER.unpack_from(record)
        begin = _IMAGE_HEADER.size + flag * _FLOAT_LABEL.size
        if begin > len(record):
            raise stream.error(f"record {number} of {stream.path} ends within its labels. {_IMAGES}")
        if flag == 1:  # mxnet.recordio.pack writes an array with one label in this form
            (label,) = _FLOAT_LABEL.unpack_from(record, _IMAGE_HEADER.size)
        if flag > 1 or not label.is_integer():
            label_text = f"{flag} labels" if flag > 1 else f"the label {label:g}"
            raise stream.error(f"record {number} of {stream.path} has {label_text}. {_IMAGES}")
        yield record[begin:], int(label)


_IMAGES = "Streamed as application/x-recordio, records must be those of MXNet's im2rec, with one whole number as label."

CONTENTS: dict[str, Callable[[Stream], Iterator[tuple[bytes, int]]]] = {"pairs": pairs, "images": images}


def example(image: bytes, label: int) -> bytes:
    """Return a serialized tf.train.Example in the ImageNet schema (image_datasets.py).

    Source: TensorFlow, core/example/feature.proto; https://protobuf.dev/programming-guides/encoding/.
    """
    value = _field(3, _field(1, _varint(label % 2**64)))  # Feature.int64_list; a negative number has ten bytes
    after = _field(1, _field(1, b"image/class/label") + _field(2, value))
    # From the inside, so that the image is copied once: BytesList.value, Feature.bytes_list, the entry of the map, ...
    before = _field_head(1, len(image))
    before = _field_head(1, len(before) + len(image)) + before
    before = _field(1, b"image/encoded") + _field_head(2, len(before) + len(image)) + before
    before = _field_head(1, len(before) + len(image)) + before
    before = _field_head(1, len(before) + len(image) + len(after)) + before
    return b"".join((before, image, after))


def _field(number: int, content: bytes) -> bytes:
    return _field_head(number, len(content)) + content


def _field_head(number: int, length: int) -> bytes:
    """Return the bytes before a field with a length: bytes, a message, or packed numbers."""
    return _varint(number << 3 | 2) + _varint(length)


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def framed(record: bytes) -> bytes:
    """Return a record as a TFRecord."""
    length = struct.pack("<Q", len(record))
    return b"".join((length, struct.pack("<I", masked_crc(length)), record, struct.pack("<I", masked_crc(record))))


def translate(content: str, stream: Stream, fifo: str) -> str:
    """Write the records of a stream to a FIFO. Return the reason why the stream is invalid, or "".

    A reader may close the FIFO early.
    """
    failure = ""
    with open(fifo, "wb", buffering=0) as file:  # noqa: PTH123  # waits for the reader
        try:
            for image, label in CONTENTS[content](stream):
                unwritten_bytes = memoryview(framed(example(image, label)))
                while unwritten_bytes:
                    unwritten_bytes = unwritten_bytes[file.write(unwritten_bytes) :]
        except StreamError as error:
            failure = str(error)
        except BrokenPipeError:
            return ""
        # The reader looks for the result as soon as the FIFO ends.
        ending(f"{fifo}.part").write_text(failure)
        ending(f"{fifo}.part").replace(ending(fifo))
    return failure


def main() -> None:
    """Translate the stream of the arguments until standard input is closed."""
    content, channel, source, timeout, fifo = sys.argv[1:]
    # Ranks get the same signals, and may need data for one more step.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if failure := translate(content, Stream(channel, source, blocks(source, channel, float(timeout))), fifo):
        print(failure, file=sys.stderr)
        sys.exit(1)


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(0)


if __name__ == "__main__":
    main()
