"""Examples: parses records in the ImageNet schema, and explains invalid ones."""

from collections.abc import Callable, Iterable

import tensorflow as tf
from google.protobuf.message import DecodeError

from training_container.trainer.config import Config
from training_container.trainer.data.augment import decoded

Step = Callable[..., tuple[tf.Tensor, ...]]

# Source: the ImageNet schema of TensorFlow's TFRecord builder, models/research/inception/build_imagenet_data.py.
IMAGE, LABEL = "image/encoded", "image/class/label"
_NO_LABEL = -(2**62)
_FEATURES = {
    IMAGE: tf.io.FixedLenFeature([], tf.string, default_value=""),
    LABEL: tf.io.FixedLenFeature([], tf.int64, default_value=_NO_LABEL),
}


class RecordError(ValueError):
    """A record is invalid for training. The text names the channel, the record if known, and the reason."""


def parsed(channel: str, config: Config) -> Step:
    """Return a function from a record, scalar tf.string, to (encoded image, class counted from 0).

    An invalid record fails with the text of `problem`.
    """

    def explained(record: bytes) -> int:
        raise RecordError(f"Channel {channel}: {problem(record, config)}")

    def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(record, _FEATURES)
        encoded, label = example[IMAGE], example[LABEL] - config.first_label
        sound = (label >= 0) & (label < config.classes) & (encoded != "")
        # Python is called only for an invalid record.
        label = tf.cond(sound, lambda: label, lambda: tf.numpy_function(explained, [record], tf.int64))
        with tf.control_dependencies([label]):  # an invalid label is reported before an invalid image
            return tf.identity(encoded), tf.ensure_shape(label, [])

    return parse


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
        decoded(tf.constant(encoded))
    except tf.errors.InvalidArgumentError as error:
        return f"an image of {len(encoded):,} bytes cannot be decoded: {_first_line(error)}."
    return None


def first_problem(origins: Iterable[tuple[bytes, str]], config: Config) -> str | None:
    """Return the place and error of the first invalid record; None if all are valid.

    Args:
        origins: The records, each with its place.
        config: The hyperparameters, which define valid labels.
    """
    return next((f"{where}: {what}" for record, where in origins if (what := problem(record, config))), None)


def _first_line(error: Exception) -> str:
    text = str(error).removeprefix("{{function_node").strip()
    return text.splitlines()[0].rpartition("}} ")[2].split(" [Op:")[0].rstrip(".")
