"""Diagnosis: explains an error in reading a channel, with the names of the channel, the file and the record."""

import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf
from google.protobuf.message import DecodeError

from training_container.recipe.config import Config
from training_container.trainer.data.augment import decode_image
from training_container.trainer.data.image_datasets import IMAGE, LABEL
from training_container.trainer.data.record_datasets import FileChannel, PipeChannel
from training_container.trainer.data.record_index import record_starts
from training_container.trainer.demux.framing import FOOTER, HEADER, masked_crc

SEARCH_DIVISOR = 3
"""A search for the invalid record may take stall_seconds divided by this, because the other ranks wait meanwhile."""
# TensorFlow's texts for a CRC that does not match, and for a record that exceeds its file (lib/io/record_reader.cc).
_CORRUPT_POSITION = re.compile(r"(?:corrupted|truncated) record at (\d+)")
# Our own errors, which TensorFlow returns inside its own.
_OUR_ERROR = re.compile(r"(Channel [\w.-]+: .*?)\s*(?:\[Op:|\[\[|$)", re.MULTILINE)
_CORRUPT_TEXT = (
    "is corrupt: a CRC does not match, or it is truncated there. Rewrite the object, or allow some corrupt records "
    "with the hyperparameter tolerate_corrupt_records."
)
# Details about the graph.
_GRAPH_DETAILS = re.compile(r"\{\{function_node .*?\}\}|\[\[\{\{.*|\[Op:.*", re.DOTALL)


class _SearchTimeoutError(Exception):
    """The search for the invalid record has taken too long."""


def explained(error: Exception, channel: FileChannel | PipeChannel, config: Config, epoch: int, records: range) -> str:
    """Return the explanation of an error in reading or decoding.

    Args:
        error: TensorFlow's error.
        channel: The channel that was read.
        config: The hyperparameters, which define valid labels.
        epoch: The epoch's number for the channel.
        records: The numbers of the failed batch's records in the epoch.

    Returns:
        A sentence that names the channel, and the file and the record if they can be found.
    """
    message = _message(error)
    description = _description(message, channel, epoch, records)
    if not isinstance(channel, FileChannel) or config.tolerate_corrupt_records:
        return description
    # All other ranks wait in a collective, and may end this one. So print the reason before the search.
    print(f"Rank {hvd.rank()}: {description} Searching for the record.", flush=True)
    seconds = config.stall_seconds / SEARCH_DIVISOR if config.stall_seconds else None  # 0: ranks may wait without limit
    try:
        place = _run_within(seconds, lambda: _find_problem(message, channel, config, epoch, records))
    except _SearchTimeoutError:
        return f"{description} The record was not found within {seconds:g} s, a part of stall_seconds."
    except OSError as read_error:  # for example, the channel's mount no longer answers
        return f"{description} The record was not found, because the data could not be read again: {read_error}."
    return f"Channel {channel.name}: {place}" if place else description


def problem(record: bytes, config: Config) -> str | None:
    """Return a sentence that explains why a record is invalid for training; None if it is valid."""
    try:
        example = tf.train.Example.FromString(record)
    except DecodeError:
        return "a record is not a tf.train.Example. The channel must contain TFRecords in the ImageNet schema."
    features = example.features.feature
    for name, kind in ((IMAGE, "bytes_list"), (LABEL, "int64_list")):
        if name not in features:
            return (
                f"a record has no feature {name!r}; it has: {', '.join(sorted(features)) or 'none'}. The channel must "
                f"contain TFRecords in the ImageNet schema ({IMAGE}, {LABEL})."
            )
        if len(getattr(features[name], kind).value) != 1:
            return f"feature {name!r} of a record must have one value in its {kind}, as in the ImageNet schema."
    label = features[LABEL].int64_list.value[0] - config.first_label
    if not 0 <= label < config.classes:
        return (
            f"a label must be from {config.first_label} to {config.first_label + config.classes - 1} (hyperparameters "
            f"first_label and classes); got {features[LABEL].int64_list.value[0]}."
        )
    return image_problem(features[IMAGE].bytes_list.value[0])


def image_problem(encoded: bytes) -> str | None:
    """Return a sentence that explains why an encoded image cannot be decoded; None if it can."""
    try:
        decode_image(tf.constant(encoded))
    except tf.errors.InvalidArgumentError as error:
        return f"an image of {len(encoded):,} bytes cannot be decoded: {_first_line(error)}."
    return None


def first_problem(origins: Iterable[tuple[bytes, str]], config: Config) -> str | None:
    """Return the place and error of the first invalid record; None if all are valid.

    Args:
        origins: The records, each with its place.
        config: The hyperparameters, which define valid labels.
    """
    for record, origin in origins:
        description = problem(record, config)
        if description:
            return f"{origin}: {description}"
    return None


def _message(error: Exception) -> str:
    """Return an error's text. TensorFlow quotes records that it cannot parse, which may not be valid UTF-8."""
    return error.object.decode(errors="replace") if isinstance(error, UnicodeDecodeError) else str(error)


def _run_within(seconds: float | None, search: Callable[[], str | None]) -> str | None:
    """Return the result of a search.

    Raises:
        _SearchTimeoutError: The time is up. The search continues in a daemon thread, which ends with the process.
    """
    result: Future[str | None] = Future()

    def run() -> None:
        try:
            result.set_result(search())
        except Exception as error:  # noqa: BLE001  # raised in the thread that waits for it
            result.set_exception(error)

    threading.Thread(target=run, name="diagnosis", daemon=True).start()
    try:
        return result.result(seconds)
    except TimeoutError:
        if result.done():  # the search itself raised it: reading a file of a mount timed out
            raise
        raise _SearchTimeoutError from None


def _find_problem(message: str, channel: FileChannel, config: Config, epoch: int, records: range) -> str | None:
    """Find the invalid record by reading the data again. Return a description of the record and its error, or None."""
    if match := _CORRUPT_POSITION.search(message):
        files = list(dict.fromkeys(part.path for part in channel.segments(epoch)))
        return _corrupt_file(files, int(match[1]))
    return _problem_in(channel, config, epoch, records)


def _description(message: str, channel: FileChannel | PipeChannel, epoch: int, records: range) -> str:
    """Return a description of an error from its text alone, without reading the data again."""
    if our_error := _OUR_ERROR.search(message):
        # A stream that does not even begin with a record (demux/framing.py) probably contains raw images.
        hint = (
            " Raw images cannot be streamed without labels: set their channel's input mode to File or FastFile, or "
            "list them with their labels in an augmented manifest."
        )
        return our_error[1] + (hint if "header of record 0 at byte 0 " in our_error[1] else "")
    if isinstance(channel, PipeChannel) and (match := _CORRUPT_POSITION.search(message)):
        # The plugin has checked the headers, so TensorFlow's position is that of the data after the header.
        return (
            f"Channel {channel.name}: the record at byte {int(match[1]) - HEADER:,} of {channel.path} {_CORRUPT_TEXT}"
        )
    words = " ".join(_GRAPH_DETAILS.sub("", message).split())[:300]
    description = f"an image cannot be decoded: {words}" if "decode_" in message else words
    batch = records.start // len(records)  # all batches have the same size
    place = f"batch {batch} of epoch {epoch + 1} on this rank, counted from 0"
    return f"Channel {channel.name}: {description} ({place})."


def _problem_in(channel: FileChannel, config: Config, epoch: int, records: range) -> str | None:
    """Read the records of the failed batch again, one by one, and describe the first invalid one."""
    if channel.holds_images:
        files = channel.image_files(epoch)
        for index in records:
            path = files[index % len(files)]
            description = image_problem(path.read_bytes())
            if description:
                return f"{path.relative_to(channel.folder)}: {description}"
        return None
    repeated_origins = channel.origins(epoch).repeat().skip(records.start).take(len(records))
    try:
        origins = (
            (record, f"record {number} of {Path(path.decode()).name}")
            for record, path, number in repeated_origins.as_numpy_iterator()
        )
        return first_problem(origins, config)
    except tf.errors.OpError:
        return None  # the error is not in a record; the original error is more precise


def _corrupt_file(files: Sequence[Path], position: int) -> str:
    """Return a description of the file that has a corrupt record at this byte. TensorFlow reports only the byte.

    Args:
        files: The files of this rank.
        position: The start of the record's data, or of the record, if its length is corrupt.
    """
    for path in files:
        for start in (position - HEADER, position):
            if start in record_starts(path, start) and not _is_sound(path, start):
                return f"the record at byte {start:,} of {path.name} {_CORRUPT_TEXT}"
    return (
        f"corrupted record at byte {position:,} of one of: {', '.join(path.name for path in files)}. If the index "
        "_records.json beside the data, or records-train.json beside the checkpoints, is of other files, delete it."
    )


def _is_sound(path: Path, position: int) -> bool:
    with path.open("rb") as file:
        file.seek(position)
        header = file.read(HEADER)
        length = int.from_bytes(header[:8], "little")
        if masked_crc(header[:8]) != int.from_bytes(header[8:], "little") or length > os.fstat(file.fileno()).st_size:
            return False
        data = file.read(length)
        return masked_crc(data) == int.from_bytes(file.read(FOOTER), "little")


def _first_line(error: Exception) -> str:
    text = str(error).removeprefix("{{function_node").strip()
    return text.splitlines()[0].rpartition("}} ")[2].split(" [Op:")[0].rstrip(".")
