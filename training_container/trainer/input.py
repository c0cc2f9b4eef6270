"""Images from TFRecord files in the ImageNet schema, as tf.data pipelines of one rank."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.trainer.augment import moved, random_part, shifted_and_flipped
from training_container.trainer.config import Config
from training_container.trainer.shards import Shard, shard, tfrecord_files

Step = Callable[..., tuple[tf.Tensor, tf.Tensor]]

# Source: the ImageNet schema of TensorFlow's TFRecord builder, models/research/inception/build_imagenet_data.py.
FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """One rank's endless stream of training batches, and the number of steps that make an epoch on every rank."""

    batches: tf.data.Dataset
    steps_per_epoch: int
    images: int  # of all ranks


def training_data(folder: Path, config: Config) -> TrainingData:
    """Return this rank's training batches: images [batch, size, size, 3] float32 in 0..255 and labels [batch] int64.

    All ranks take part: they agree on the steps of an epoch, since a rank with fewer would leave the others waiting.
    """
    own = shard(tfrecord_files(folder), hvd.rank(), hvd.size())
    # Each rank's steps, minimised over ranks; the sum counts the images of all.
    steps = hvd.allreduce(tf.constant(max(own.records // config.batch_size, 1)), op=hvd.Min, name="steps_per_epoch")
    images = hvd.allreduce(tf.constant(own.records), op=hvd.Sum, name="training_images")
    if int(hvd.allreduce(tf.constant(own.records), op=hvd.Min, name="fewest_images")) == 0:
        raise ValueError(f"{int(images)} training images are too few for {hvd.size()} ranks: a rank would have none.")
    seed = config.seed + hvd.rank()
    batches = _cached_batches(own, config, seed) if config.cache else _streamed_batches(own, config, seed)
    return TrainingData(
        batches=batches.prefetch(2), steps_per_epoch=config.steps_per_epoch or int(steps), images=int(images)
    )


def validation_batches(folder: Path, config: Config) -> tf.data.Dataset:
    """Return this rank's part of the validation images, once, the last batch as short as it comes."""
    own = shard(tfrecord_files(folder), hvd.rank(), hvd.size())
    images = _records(own, config).map(_plain(config), num_parallel_calls=tf.data.AUTOTUNE)
    if config.cache:
        return images.batch(config.batch_size).cache()
    return images.batch(config.batch_size).prefetch(2)


def _cached_batches(own: Shard, config: Config, seed: int) -> tf.data.Dataset:
    """Decode every image once and keep it; shuffle all of them."""
    images = _records(own, config).map(_plain(config), num_parallel_calls=tf.data.AUTOTUNE)
    images = images.cache().shuffle(own.records, seed=seed).repeat()
    if config.augmentation == "crop_and_flip":
        images = images.map(_plain_function(lambda image, label: (shifted_and_flipped(image), label)))
    return _batches(images, config)


def _streamed_batches(own: Shard, config: Config, seed: int) -> tf.data.Dataset:
    """Read files in passing, shuffling encoded images (a decoded one takes ten times the memory)."""
    records = _records(own, config).shuffle(min(own.records, 2048), seed=seed).repeat()
    prepare = _cropped(config) if config.augmentation == "crop_and_flip" else _plain(config)
    return _batches(records.map(prepare, num_parallel_calls=tf.data.AUTOTUNE), config)


def _batches(images: tf.data.Dataset, config: Config) -> tf.data.Dataset:
    """Batch, and move whole batches at once where asked to, which is cheap."""
    batches = images.batch(config.batch_size, drop_remainder=True)
    if config.augmentation != "affine":
        return batches
    return batches.map(_plain_function(lambda images, labels: (moved(images), labels)))


def _records(own: Shard, config: Config) -> tf.data.Dataset:
    """Yield (encoded image, class counted from 0) of this rank's records."""
    explained = (
        f"A label is outside {config.first_label} to {config.first_label + config.classes - 1}, which is what "
        "the hyperparameters first_label and classes allow. The label is"
    )

    @_plain_function
    def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(record, FEATURES)
        label = example["image/class/label"] - config.first_label
        tf.debugging.Assert((label >= 0) & (label < config.classes), [explained, example["image/class/label"]])
        return example["image/encoded"], label

    records = tf.data.TFRecordDataset([str(path) for path in own.files])
    if own.every > 1:
        records = records.shard(own.every, own.offset)
    return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)


def _plain(config: Config) -> Step:
    """Return the step that decodes an image and brings it to size."""
    return _plain_function(lambda encoded, label: (_resized(_decoded(encoded), config), label))


def _cropped(config: Config) -> Step:
    """Return the step that decodes an image, crops a part of it, mirrors it or not, and brings it to size."""
    return _plain_function(lambda encoded, label: (_resized(random_part(_decoded(encoded)), config), label))


def _decoded(encoded: tf.Tensor) -> tf.Tensor:
    return tf.io.decode_image(encoded, channels=3, expand_animations=False)


def _resized(image: tf.Tensor, config: Config) -> tf.Tensor:
    image = tf.image.resize(image, [config.image_size, config.image_size])
    return tf.ensure_shape(image, [config.image_size, config.image_size, 3])


def _plain_function(step: Step) -> Step:
    """Keep AutoGraph from rewriting a function that has no Python control flow: that took most of the start-up."""
    converted: Step = tf.autograph.experimental.do_not_convert(step)
    return converted
