"""Weights file: named tensors in the format safetensors, which libraries of all frameworks read. It has no code.

The file begins with the length of a header in 8 bytes, and the header: a JSON object with the type, the shape and the
place of each tensor, and texts in `__metadata__`
(https://github.com/huggingface/safetensors/blob/main/README.md#format). It is read here without that library, which
images need not have.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from training_container import outside_json

WEIGHTS, START = "weights.safetensors", "start.safetensors"
"""The files of a model of rounds: the weights, and in a first round those with which it began, for the outer step."""
RECORDS, BEGUN, AVERAGED = "records", "start", "averaged"
"""The metadata of the weights: the training records, the digest of the start, and the names that are only averaged."""
_METADATA = "__metadata__"
_LENGTH_BYTES, _ALIGNMENT = 8, 8
_MAX_HEADER = 100_000_000
"""The limit of the format."""
_BF16 = "BF16"
_NUMPY = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    _BF16: "<u2",
    "BOOL": "|b1",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
}
"""The type of an array for each type of the format. NumPy has no bfloat16: an array has its bits."""
_TYPES = {np.dtype(array): name for name, array in _NUMPY.items() if name != _BF16}
_ROUND, _SHIFT = np.uint32(0x7FFF), np.uint32(16)


class WeightsFileError(ValueError):
    """A file is not of the format, or an array has a type that the format does not have."""


@dataclass(frozen=True)
class Tensor:
    """A tensor.

    Attributes:
        type: Its type in the format, such as F32.
        array: Its values; of BF16, their bits.
    """

    type: str
    array: npt.NDArray[Any]

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> "Tensor":
        """Return a tensor with the values of an array.

        Raises:
            WeightsFileError: The format does not have the array's type.
        """
        little_endian = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        if little_endian.dtype not in _TYPES:
            raise WeightsFileError(f"the type {array.dtype} cannot be stored")
        return cls(_TYPES[little_endian.dtype], little_endian.reshape(array.shape))

    @property
    def is_real(self) -> bool:
        """True for floating-point numbers, which a training changes by gradients or averages."""
        return self.type in {"F64", "F32", "F16", _BF16}

    @property
    def is_finite(self) -> bool:
        """True if no value is infinite or no number."""
        return not self.is_real or bool(np.isfinite(self.values()).all())

    def values(self) -> npt.NDArray[np.float64]:
        """Return the values as numbers with double precision."""
        if self.type == _BF16:
            return (self.array.astype(np.uint32) << _SHIFT).view(np.float32).astype(np.float64)
        return self.array.astype(np.float64)

    def with_values(self, values: npt.NDArray[np.float64]) -> "Tensor":
        """Return a tensor of the same type with other values, rounded to the nearest of the type.

        Values beyond the type become infinite.
        """
        if self.type == _BF16:
            with np.errstate(over="ignore"):
                bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
            rounded = (bits + _ROUND + ((bits >> _SHIFT) & np.uint32(1))) >> _SHIFT
            return Tensor(_BF16, rounded.astype(np.uint16).reshape(self.array.shape))
        rounded_values = values if self.is_real else np.rint(values)
        with np.errstate(over="ignore"):  # callers check `is_finite`
            return Tensor(self.type, rounded_values.astype(self.array.dtype))


Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class WeightsFile:
    """The content of a file.

    Attributes:
        tensors: The tensors by name, in their order in the file.
        metadata: The texts of `__metadata__`, which programs may define.
    """

    tensors: Tensors
    metadata: Mapping[str, str] = field(default_factory=dict)


def write(path: Path, content: WeightsFile) -> None:
    """Write a file, which appears under its name when it is complete."""
    header: dict[str, Any] = {_METADATA: dict(content.metadata)} if content.metadata else {}
    end = 0
    for name, tensor in content.tensors.items():
        begin, end = end, end + tensor.array.nbytes
        header[name] = {"dtype": tensor.type, "shape": list(tensor.array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    writing = path.with_name(f"{path.name}.writing")
    with writing.open("wb") as file:
        file.write(len(text).to_bytes(_LENGTH_BYTES, "little"))
        file.write(text)
        for tensor in content.tensors.values():
            file.write(np.ascontiguousarray(tensor.array).data)
    writing.replace(path)


def read(path: Path) -> WeightsFile:
    """Return the content of a file.

    Raises:
        WeightsFileError: It is not of the format.
        OSError: It cannot be read.
    """
    header, start = _header(path)
    data = np.fromfile(path, np.uint8, offset=start)
    metadata = header.pop(_METADATA, {})
    tensors: dict[str, Tensor] = {}
    last = 0
    for name, entry in sorted(header.items(), key=lambda item: _place(path, item[1])):
        begin, end = _place(path, entry)
        if begin < last:  # the format forbids it; a small file could otherwise have tensors of any total size
            raise WeightsFileError(f"{path.name} is not a safetensors file: the tensor {name} overlaps another one.")
        last = end
        tensors[name] = _tensor(path, name, entry, data)
    return WeightsFile(tensors, {str(name): str(text) for name, text in metadata.items()})


def metadata_of(path: Path) -> dict[str, str]:
    """Return the texts of a file without reading its tensors.

    Raises:
        WeightsFileError: It is not of the format.
        OSError: It cannot be read.
    """
    header, _ = _header(path)
    return {str(name): str(text) for name, text in header.get(_METADATA, {}).items()}


def digest(tensors: Tensors) -> str:
    """Return a digest of names, types, shapes and values, which does not depend on the order of the names."""
    content = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        content.update(f"{name}\0{tensor.type}{list(tensor.array.shape)}\0".encode())
        content.update(np.ascontiguousarray(tensor.array).data)
    return content.hexdigest()


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header of a file, and the position after it."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if length > _MAX_HEADER:
            raise WeightsFileError(f"{path.name} is not a safetensors file: its header would have {length:,} bytes.")
        text = file.read(length)
    try:
        header = outside_json.loads(text.decode())
    except ValueError:  # UnicodeDecodeError is one
        header = None
    if len(text) != length or not isinstance(header, dict) or not isinstance(header.get(_METADATA, {}), dict):
        raise WeightsFileError(f"{path.name} is not a safetensors file: it does not begin with a header.")
    return header, _LENGTH_BYTES + length


def _place(path: Path, entry: object) -> tuple[int, int]:
    """Return the beginning and the end of a tensor in the data."""
    match entry:
        case {"data_offsets": [int(begin), int(end)]} if 0 <= begin <= end:
            return begin, end
    raise WeightsFileError(f"{path.name} is not a safetensors file: the place of a tensor is {str(entry)[:200]}.")


def _tensor(path: Path, name: str, entry: Mapping[str, Any], data: npt.NDArray[np.uint8]) -> Tensor:
    begin, end = _place(path, entry)
    kind, shape = entry.get("dtype"), entry.get("shape")
    if not isinstance(kind, str) or kind not in _NUMPY or not isinstance(shape, list):
        raise WeightsFileError(f"The tensor {name} of {path.name} has the type {kind!r}, which is not supported.")
    if end > len(data):
        raise WeightsFileError(f"{path.name} ends before the end of the tensor {name}.")
    try:
        return Tensor(kind, data[begin:end].view(_NUMPY[kind]).reshape(shape))
    except (ValueError, TypeError) as error:
        raise WeightsFileError(f"The tensor {name} of {path.name} has another size than its shape {shape}.") from error
