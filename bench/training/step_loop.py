"""One rank of a training loop on random images; times blocks of steps on request. Started by steps.py.

    python -m bench.training.step_loop LOOP PRECISION FOLDER NAME

LOOP is `traingrid` (the trainer's own step), `alone` (the same step without Horovod) or `synthetic`. PRECISION is the
name of a Keras policy. Through FOLDER this process communicates with steps.py: a file `go-3` starts block 3, whose
seconds this process then writes to `done-3-NAME`; a file `end` ends it. Runs in the training environment.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from bench.size import size
from bench.training.step_loop_settings import BATCH_SIZE, STEPS_PER_BLOCK
from training_container.recipe.config import Config
from training_container.trainer.cluster import use_own_device
from training_container.trainer.step import TrainStep

WARM_UP_STEPS = size(2, 1)
NETWORK = size(tf.keras.applications.ResNet50, tf.keras.applications.MobileNet)
CLASSES = 1000
LOOK_SECONDS = 0.02

Step = Callable[[], object]


def main(loop: str, precision: str, folder: Path, name: str) -> None:
    """Prepare the loop, and time a block of steps whenever steps.py requests one."""
    step = LOOPS[loop](precision)
    for _ in range(WARM_UP_STEPS):
        step()
    write(folder / f"ready-{name}", str(os.getpid()))
    block = 0
    while True:
        while not (folder / f"go-{block}").exists():
            if (folder / "end").exists():
                return
            time.sleep(LOOK_SECONDS)
        started = time.perf_counter()
        for _ in range(STEPS_PER_BLOCK):
            step()
        write(folder / f"done-{block}-{name}", str(time.perf_counter() - started))
        block += 1


def write(path: Path, text: str) -> None:
    """Write a file atomically."""
    part = path.with_name(f"part-of-{path.name}")
    part.write_text(text)
    part.rename(path)


def traingrid(precision: str) -> Step:
    """Return the trainer's step on every rank, as loop.py runs it."""
    hvd.init()
    use_own_device()
    return _own_step(TrainStep, precision)


def alone(precision: str) -> Step:
    """Return the same step without other ranks, on as many threads as a rank would use."""
    hvd.init()  # a single rank: the step asks for its number
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return _own_step(WithoutHorovod, precision)


class WithoutHorovod(TrainStep):
    """The trainer's step without the average over ranks."""

    def _average_over_ranks(
        self, loss: tf.Tensor, gradients: Sequence[tf.Tensor], _count: tf.Tensor, stop: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        return tf.stack([loss, stop]), list(gradients)


def _own_step(kind: type[TrainStep], precision: str) -> Step:
    tf.keras.mixed_precision.set_global_policy(precision)
    body = NETWORK(weights=None, classes=CLASSES, classifier_activation=None)
    logits = tf.keras.layers.Activation("linear", dtype="float32")(body.output)
    step = kind(tf.keras.Model(body.input, logits), Config(classes=CLASSES, batch_size=BATCH_SIZE))
    images, labels = random_batch()
    batch = tf.cast(255 * images, tf.uint8), labels  # the trainer's batches are bytes
    return lambda: step([batch], 0.01)


def synthetic(precision: str) -> Step:
    """Return a reimplementation of the step in Horovod's tensorflow2_synthetic_benchmark, from its description.

    Keras' ResNet-50, SGD at 0.01, one random batch for all steps, DistributedGradientTape, and TensorFlow's default
    threads; variables are broadcast after the first step.
    """
    hvd.init()
    assert precision == "float32"  # noqa: S101  # the benchmark supports only this precision
    model = NETWORK(weights=None, classes=CLASSES)
    optimizer = tf.optimizers.SGD(0.01)
    loss_of = tf.losses.SparseCategoricalCrossentropy()
    images, labels = random_batch()

    @tf.function
    def step(first: bool) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        if first:
            hvd.broadcast_variables(model.variables, root_rank=0)
            hvd.broadcast_variables(optimizer.variables, root_rank=0)

    step(True)
    return lambda: step(False)


def random_batch() -> tuple[tf.Tensor, tf.Tensor]:
    """Return random images [batch, 224, 224, 3] and labels [batch]."""
    labels = tf.random.uniform([BATCH_SIZE], minval=0, maxval=CLASSES, dtype=tf.int64)
    return tf.random.uniform([BATCH_SIZE, 224, 224, 3]), labels


LOOPS: dict[str, Callable[[str], Step]] = {"traingrid": traingrid, "alone": alone, "synthetic": synthetic}

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else str(os.getpid()))
