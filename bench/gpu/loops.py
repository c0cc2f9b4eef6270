"""The loops that a rank of the measurement runs, in one process, so that all of them share a GPU and its clock."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from bench.gpu.settings import BARE, HOROVOD, SYNTHETIC, TRAINER, Settings
from bench.size import size
from bench.training.ingest import jpegs
from training_container.recipe.config import Config
from training_container.trainer.data.input import training_data
from training_container.trainer.models import build_model
from training_container.trainer.precision import policy
from training_container.trainer.step import Batch, Outcome, TrainStep

Block = Callable[[int], None]
"""Runs a number of steps, and returns when the device has finished them."""

BATCHES_PER_EPOCH = size(8, 2)
NETWORK = size(tf.keras.applications.ResNet50, tf.keras.applications.MobileNet)
RATE = 0.01


def configuration(settings: Settings, data: Path) -> Config:
    """Return the trainer's configuration for the measurement."""
    return Config(
        model=settings.model,
        image_size=settings.image_size,
        batch_size=settings.batch,
        precision=settings.precision,
        xla=settings.xla,
        data_dir=str(data),
        shuffle_records=settings.batch,
    )


def write_data(folder: Path, settings: Settings, ranks: int) -> None:
    """Write JPEGs of about 110 KB as TFRecords in ImageNet's schema to a new folder: a file for each rank."""
    folder.mkdir()
    contents = jpegs(8)
    for rank in range(ranks):
        with tf.io.TFRecordWriter(str(folder / f"train-{rank:05}")) as file:
            for number in range(BATCHES_PER_EPOCH * settings.batch):
                features = {
                    "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[contents[number % 8]])),
                    "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[1 + number % 1000])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=features))
                file.write(example.SerializeToString())


def endless(config: Config) -> Iterator[Batch]:
    """Yield the batches of all epochs, as the trainer reads them. All ranks must call this together."""
    data = training_data(config)
    return itertools.chain.from_iterable(data.epoch(epoch) for epoch in itertools.count())


def random_batch(settings: Settings) -> Batch:
    """Return random images [batch, size, size, 3] uint8 in the device's memory, and labels [batch] int64."""
    shape = [settings.batch, settings.image_size, settings.image_size, 3]
    images = tf.cast(tf.random.uniform(shape, 0, 256, tf.int32), tf.uint8)
    return tf.identity(images), tf.random.uniform([settings.batch], maxval=1000, dtype=tf.int64)


def loops(config: Config, settings: Settings, step: TrainStep) -> dict[str, Block]:
    """Return the loops of settings.LOOPS. `step` is that of both loops of the trainer."""
    fixed = random_batch(settings)
    return {
        TRAINER: trained(step, endless(config)),
        SYNTHETIC: trained(step, itertools.repeat(fixed)),
        BARE: block_of(bare_step(config, fixed)),
        HOROVOD: block_of(horovod_step(settings)),
    }


def trained(step: TrainStep, batches: Iterator[Batch]) -> Block:
    """Return the trainer's loop, which reads the outcome of a step while the next one runs (trainer/loop.py)."""

    def block(steps: int) -> None:
        previous: Outcome | None = None
        for batch in itertools.islice(batches, steps):
            outcome = step([batch], RATE)
            if previous:
                _ = previous.loss
            previous = outcome
        tf.test.experimental.sync_devices()

    return block


def block_of(step: Callable[[], object]) -> Block:
    """Return a loop of a step that reads nothing from the device."""

    def block(steps: int) -> None:
        for _ in range(steps):
            step()
        tf.test.experimental.sync_devices()

    return block


def bare_step(config: Config, batch: Batch) -> Callable[[], object]:
    """Return a step of the same network without Horovod: the upper limit for one GPU with this framework."""
    tf.keras.mixed_precision.set_global_policy(policy(config))
    model = build_model(config)
    # Loss scaling is left out: it changes no shapes, and the result is not used.
    optimizer = tf.keras.optimizers.SGD(RATE, momentum=0.9, nesterov=True)
    optimizer.build(model.trainable_variables)
    images, labels = batch

    def step() -> None:
        with tf.GradientTape() as tape:
            logits = model(tf.cast(images, tf.float32), training=True)
            losses = tf.keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    compiled: Callable[[], object] = tf.function(step, autograph=False, jit_compile=config.xla or None)
    return compiled


def horovod_step(settings: Settings) -> Callable[[], object]:
    """Return the step of Horovod's tensorflow2_synthetic_benchmark, from its description.

    Keras' ResNet-50, SGD at 0.01, one random batch, DistributedGradientTape
    (https://github.com/horovod/horovod/blob/v0.28.1/examples/tensorflow2/tensorflow2_synthetic_benchmark.py).
    """
    tf.keras.mixed_precision.set_global_policy("float32")
    shape = (settings.image_size, settings.image_size, 3)
    model = NETWORK(weights=None, input_shape=shape)
    optimizer, loss_of = tf.optimizers.SGD(0.01), tf.losses.SparseCategoricalCrossentropy()
    optimizer.build(model.trainable_variables)
    images = tf.random.uniform([settings.batch, *shape])
    labels = tf.random.uniform([settings.batch, 1], maxval=999, dtype=tf.int64)
    hvd.broadcast_variables(model.variables, root_rank=0)

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    compiled: Callable[[], object] = tf.function(step)
    return compiled
