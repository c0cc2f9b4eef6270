"""Examples: the image and the label of a record in ImageNet's schema, a tf.train.Example, without TensorFlow.

Sources: the messages in tensorflow/core/example/example.proto and feature.proto, and their encoding
(https://protobuf.dev/programming-guides/encoding/).
"""

from collections.abc import Iterator

IMAGE, LABEL = b"image/encoded", b"image/class/label"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# The numbers of fields: an Example has Features, which are a map from names to a Feature, which has one of three lists.
_FEATURES = _ENTRY = _KEY = _VALUES = 1
_VALUE = 2
_BYTES_LIST, _INT64_LIST = 1, 3


class ExampleError(ValueError):
    """A record is no tf.train.Example with an image and a label."""


def image_and_label(record: bytes) -> tuple[bytes, int]:
    """Return the encoded image and the label of a record.

    Raises:
        ExampleError: The record has another form, or lacks one of them.
    """
    try:
        features = dict(_features(memoryview(record)))
        images = list(_parts(features.get(IMAGE, memoryview(b"")), _BYTES_LIST, _VALUES))
        labels = [
            value for values in _parts(features.get(LABEL, memoryview(b"")), _INT64_LIST) for value in _int64s(values)
        ]
    except (IndexError, ValueError) as error:
        raise ExampleError(
            "is not a tf.train.Example. The channel must contain TFRecords in the ImageNet schema"
        ) from error
    if len(images) != 1 or len(labels) != 1 or not images[0]:
        names = ", ".join(sorted(name.decode(errors="replace") for name in features)) or "none"
        raise ExampleError(
            f"must have one image in the feature {IMAGE.decode()} and one label in {LABEL.decode()}, as in the "
            f"ImageNet schema; its features are: {names}"
        )
    return bytes(images[0]), labels[0]


def _features(record: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    for entry in _parts(record, _FEATURES, _ENTRY):
        parts = {number: value for number, value in _fields(entry) if isinstance(value, memoryview)}
        yield bytes(parts[_KEY]) if _KEY in parts else b"", parts.get(_VALUE, memoryview(b""))


def _parts(message: memoryview, *numbers: int) -> Iterator[memoryview]:
    """Yield the parts of a message that have these numbers of fields, one below the other."""
    for number, value in _fields(message):
        if number == numbers[0] and isinstance(value, memoryview):
            yield from _parts(value, *numbers[1:]) if numbers[1:] else (value,)


def _int64s(values: memoryview) -> Iterator[int]:
    """Yield the numbers of an Int64List, which are packed into one part, or each a field."""
    for _, value in _fields(values):
        position = 0
        while isinstance(value, memoryview) and position < len(value):
            number, position = _varint(value, position)
            yield _signed(number)
        if isinstance(value, int):
            yield _signed(value)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """Yield the number and the value of each field of a message.

    Raises:
        IndexError, ValueError: The message is truncated, or has another form.
    """
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        value: memoryview | int
        if tag & 7 == _VARINT:
            value, position = _varint(message, position)
        elif tag & 7 in (_FIXED64, _BYTES, _FIXED32):
            size = {_FIXED64: 8, _FIXED32: 4}.get(tag & 7)
            if size is None:
                size, position = _varint(message, position)
            value, position = message[position : position + size], position + size
            if position > len(message):
                raise ValueError("truncated")
        else:
            raise ValueError("unknown type")
        yield tag >> 3, value


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        value, shift, position = value | (byte & 127) << shift, shift + 7, position + 1
        if byte < 128:
            return value, position


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
