"""The training loop, top to bottom. `train` starts it in every rank; by hand, with two ranks on this machine:

    SAGEMAKER_BASE_DIR=/tmp/ml mpirun -np 2 python -m training_container.rank

where /tmp/ml/input holds what SageMaker would put there (see contract.py). What makes it distributed are Horovod's
six changes; a comment marks each.
"""

import dataclasses
import itertools
import math
import os
import time
from collections.abc import Callable

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.contract import TrainingJob
from training_container.stopping import StoppedError
from training_container.trainer.artifacts import Artifacts, export
from training_container.trainer.config import Config
from training_container.trainer.input import ValidationData, training_data, validation_data
from training_container.trainer.models import build_model
from training_container.trainer.schedule import learning_rate

STEPS_BETWEEN_STOP_CHECKS = 10


def train(job: TrainingJob, config: Config, stop_requested: Callable[[], bool]) -> None:  # noqa: C901, PLR0915
    """Train on this rank, in step with all others.

    Args:
        job: the contract's view of this host.
        config: the checked hyperparameters.
        stop_requested: whether this rank was told to stop; if any rank was, all stop at the same step.

    Raises:
        StoppedError: on every rank, after a stop and its checkpoint.
        RuntimeError: the ranks are not as many as the job says, or the loss is no longer finite.
    """
    # Horovod 1: init. From here on this process is a rank.
    hvd.init()

    # Horovod 2: one device per local rank.
    use_own_device()
    count_ranks(job)
    tf.keras.utils.set_random_seed(config.seed + hvd.rank())
    tf.keras.mixed_precision.set_global_policy("float32" if config.precision == "auto" else config.precision)

    data, validation = training_data(config, job.folders), validation_data(config, job.folders)
    model = build_model(config)
    kernels = [variable for variable in model.trainable_variables if "kernel" in variable.name]

    # Horovod 3: the learning rate grows with the number of ranks (see schedule.py); it is set before every step.
    optimizer = tf.keras.optimizers.SGD(0.0, momentum=config.momentum, nesterov=True, jit_compile=False)
    optimizer.build(model.trainable_variables)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def train_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            targets = tf.one_hot(labels, config.classes)
            loss = tf.reduce_mean(
                tf.keras.losses.categorical_crossentropy(
                    targets, logits, from_logits=True, label_smoothing=config.label_smoothing
                )
            )
            penalty = config.weight_decay * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
            total = loss + penalty
        # Horovod 4: gradients are averaged over all ranks.
        gradients = hvd.DistributedGradientTape(tape).gradient(total, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function(autograph=False, reduce_retracing=True)  # type: ignore[untyped-decorator]
    def validation_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        logits = model(images, training=False)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        hits = tf.cast(tf.argmax(logits, axis=-1) == labels, tf.float32)
        return tf.stack([tf.reduce_sum(losses), tf.reduce_sum(hits), tf.cast(tf.size(labels), tf.float32)])

    # Horovod 6, first half: only rank 0 reads and writes checkpoints and TensorBoard's events.
    artifacts = None
    if hvd.rank() == 0:
        artifacts = Artifacts(job.folders.checkpoints, job.folders.tensorboard, model=model, optimizer=optimizer)
        if path := artifacts.restore():
            print(f"Continuing from {path}")

    # Horovod 5: all ranks start from rank 0's weights, optimizer state and step.
    hvd.broadcast_variables([*model.variables, *optimizer.variables], root_rank=0)

    first_step, last_step = int(optimizer.iterations), config.epochs * data.steps_per_epoch
    started = epoch_started = time.perf_counter()
    epochs = itertools.count(first_step // data.steps_per_epoch)
    batches = itertools.chain.from_iterable(data.epoch(epoch) for epoch in epochs)
    loss_sum, epoch_steps, metrics = tf.zeros([]), 0, {}
    for step in range(first_step, last_step):
        if step % STEPS_BETWEEN_STOP_CHECKS == 0 and any_rank(stop_requested()):
            if artifacts:
                artifacts.checkpoint(step)
            raise StoppedError(f"Stopped before step {step} of {last_step}; the checkpoint is written.")
        optimizer.learning_rate.assign(learning_rate(config, hvd.size(), step / data.steps_per_epoch))
        loss_sum += train_step(*next(batches))
        epoch_steps += 1
        if (step + 1) % data.steps_per_epoch:
            continue

        # The end of an epoch.
        epoch, seconds = (step + 1) // data.steps_per_epoch, time.perf_counter() - epoch_started
        loss = float(hvd.allreduce(loss_sum / epoch_steps, name="train_loss"))
        if not math.isfinite(loss):
            raise RuntimeError(f"The loss is {loss} in epoch {epoch}: training diverged. Lower learning_rate.")
        images = epoch_steps * config.batch_size * hvd.size()
        metrics = {"train_loss": loss, "images_per_second": images / seconds, "ranks": hvd.size()}
        metrics |= {"learning_rate": float(optimizer.learning_rate)}
        if validation is not None and (epoch % config.validation_every == 0 or epoch == config.epochs):
            average_batch_norm_statistics(model)
            metrics |= validate(validation_step, validation)
        if artifacts:
            print(f"epoch={epoch}", *(f"{name}={value:.6g}" for name, value in metrics.items()))
            artifacts.log(epoch, metrics)
            if epoch % config.checkpoint_every == 0 or epoch == config.epochs:
                artifacts.checkpoint(step + 1)
        loss_sum, epoch_steps, epoch_started = tf.zeros([]), 0, time.perf_counter()

    # Horovod 6, second half: only rank 0 exports the model.
    if hvd.rank() == 0:
        report = {
            "top1": metrics.get("validation_top1"),
            "validation_loss": metrics.get("validation_loss"),
            "ranks": hvd.size(),
            "images_per_second": metrics.get("images_per_second"),
            "training_images": data.images,
            "seconds": round(time.perf_counter() - started, 3),
            **dataclasses.asdict(config),
        }
        export(model, config, job.folders.model, report)


def count_ranks(job: TrainingJob) -> None:
    """Check that there is one rank for every process slot of the job, by asking every rank.

    Raises:
        RuntimeError: there are more or fewer.
    """
    counted = int(hvd.allreduce(tf.ones([], tf.int32), op=hvd.Sum, name="ranks"))
    if counted != job.world_size:
        raise RuntimeError(
            f"Counted {counted} rank(s) instead of {job.world_size}: {len(job.hosts)} host(s) x "
            f"{job.launch.processes_per_host} process(es) per host. Check that sagemaker_mpi_custom_mpi_options sets "
            "no number of processes and that all hosts started."
        )


def use_own_device() -> None:
    """Give this rank its own GPU, or, where there is none, its share of the host's cores.

    Raises:
        RuntimeError: the host has GPUs, but fewer than ranks.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus and hvd.local_rank() >= len(gpus):
        raise RuntimeError(
            f"Local rank {hvd.local_rank()} has no GPU: the host has {len(gpus)}. Start fewer processes."
        )
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
        tf.config.experimental.set_memory_growth(gpus[hvd.local_rank()], True)
        return
    cores = max(1, (os.cpu_count() or 1) // hvd.local_size())
    tf.config.threading.set_intra_op_parallelism_threads(cores)
    tf.config.threading.set_inter_op_parallelism_threads(1 if cores == 1 else 2)


def any_rank(flag: bool) -> bool:
    """Return whether the flag is set on at least one rank: all ranks get the same answer, and must ask together."""
    return bool(hvd.allreduce(tf.constant(int(flag)), op=hvd.Max, name="any_rank"))


def average_batch_norm_statistics(model: tf.keras.Model) -> None:
    """Average the moving means and variances over ranks, so that all ranks validate what rank 0 will export."""
    variables = model.non_trainable_variables
    if variables:
        averages = hvd.grouped_allreduce([variable.value() for variable in variables], name="batch_norm")
        for variable, average in zip(variables, averages, strict=True):
            variable.assign(average)


def validate(validation_step: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], data: ValidationData) -> dict[str, float]:
    """Return loss and top-1 over the validation images of all ranks, every image weighing the same."""
    sums = tf.zeros([3])
    for images, labels, _ in data.epoch(0):
        sums += validation_step(images, labels)
    # One collective for all: the ranks' numbers of batches may differ.
    loss, hits, count = hvd.allreduce(sums, op=hvd.Sum, name="validation").numpy()
    if count == 0:
        raise ValueError("The validation channel has no records.")
    return {"validation_loss": float(loss / count), "validation_top1": float(hits / count)}
