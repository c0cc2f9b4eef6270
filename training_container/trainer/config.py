"""Config: the trainer's hyperparameters, validated and converted from SageMaker's text. Does not import TensorFlow."""

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

from training_container.trainer import aliases
from training_container.trainer.config_fields import HyperparameterError, choice, number, parsed, switch, text, unknown

__all__ = ["Config", "HyperparameterError"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """The trainer's hyperparameters. By default it trains ResNet-50 v1.5 on ImageNet.

    The default recipe is that of Goyal et al. 2017 (arXiv:1706.02677). Batch size and learning rate are those of ONE
    rank. The rate is multiplied by the number of ranks.
    """

    # The network
    model: str = choice(
        "resnet50",
        ("resnet50", "resnet32", "resnet20", "resnet8"),
        "the network: resnet50 is v1.5; resnet20 and resnet32 are for images of 32 x 32, resnet8 for smaller ones",
    )
    classes: int = number(1000, 2, 1_000_000, "number of classes")
    batch_norm_momentum: float = number(0.9, 0.0, 0.9999, "momentum of statistics; Keras' 0.99 requires long training")

    # The data
    first_label: int = number(1, 0, 1_000_000, "label of the first class; ImageNet's records count from 1")
    image_size: int = number(224, 8, 1024, "height and width to which images are resized, in pixels")
    augmentation: str = choice(
        "crop_and_flip",
        ("crop_and_flip", "affine", "none"),
        "crop_and_flip: ImageNet's; affine: small shifts, rotations and zooms, for images that must not be mirrored",
    )
    data_dir: str = text("", "folder to read instead of the folder of the channel train")
    cache: bool = switch(False, "keep decoded images in memory; for small data sets")
    shard_by: str = choice("auto", ("auto", "file", "record"), "sharding unit: whole files, or every n-th record")
    shuffle_files: bool = switch(True, "read a rank's files in a different order in every epoch")
    shuffle_records: int = number(2048, 0, 10_000_000, "records in the shuffle buffer; 0: no shuffling")
    parallel_reads: int = number(1, 1, 256, "files that a rank reads concurrently")
    tolerate_corrupt_records: int = number(
        0, 0, 10**9, "corrupt records, or records without a valid image, that each rank may leave out of an epoch"
    )
    train_records: int = number(0, 0, 10**12, "minimum number of records in the channel train; 0: not checked")
    validation_records: int = number(
        0, 0, 10**12, "minimum number of records in the channel validation; 0: not checked"
    )
    pipe_timeout_seconds: float = number(600.0, 1.0, 86_400.0, "timeout of waiting for a Pipe channel's next epoch")

    # The recipe
    epochs: int = number(90, 1, 100_000, "number of passes over the training images")
    steps_per_epoch: int = number(0, 0, 10**9, "batches per rank in an epoch; 0: as many as the images allow")
    batch_size: int = number(256, 1, 65536, "images per batch and rank")
    accumulate_steps: int = number(1, 1, 1024, "batches whose gradients are accumulated for one update")
    learning_rate: float = number(0.1, 1e-9, 100.0, "peak learning rate of ONE rank; 0.1 per 256 images")
    lr_schedule: str = choice("polynomial", ("polynomial", "cosine"), "decay of the rate to zero after the warm-up")
    lr_power: float = number(2.0, 0.1, 10.0, "power of the polynomial decay; 1 is a straight line")
    warmup_epochs: float = number(10.0, 0.0, 100_000.0, "epochs of linear warm-up from one rank's rate to all ranks'")
    momentum: float = number(0.9, 0.0, 0.9999, "Nesterov momentum of SGD")
    weight_decay: float = number(1e-4, 0.0, 1.0, "L2 penalty on kernels, not on norms and biases")
    label_smoothing: float = number(0.1, 0.0, 0.9, "share of a label that is distributed over all classes")
    ema: float = number(0.0, 0.0, 0.999999, "decay of the weights' moving average, validated and exported; 0: off")
    early_stop_epochs: int = number(0, 0, 100_000, "epochs without a better top-1 before training ends; 0: unlimited")
    seed: int = number(0, 0, 2**31 - 1, "seed of initial weights, shuffling and augmentation")

    # Speed
    precision: str = choice(
        "auto",
        ("auto", "float32", "mixed_float16", "mixed_bfloat16"),
        "auto: float16 with loss scaling on GPUs, bfloat16 on CPUs that support it, otherwise float32",
    )
    xla: bool = switch(False, "compile the step with XLA: for GPUs; slower on CPUs")
    gradient_compression: str = choice("none", ("none", "fp16"), "format of gradients that ranks exchange")
    fusion_mb: int = number(0, 0, 4096, "Horovod's fusion buffer in MiB; 0: Horovod's default")
    hierarchical_allreduce: bool = switch(False, "reduce within each host first; for several hosts with GPUs")
    stall_seconds: float = number(300.0, 0.0, 86_400.0, "time that ranks wait for a stalled rank before they fail")

    # Checkpoints and output
    validation_every: int = number(1, 1, 100_000, "epochs between validations")
    checkpoint_every: int = number(1, 1, 100_000, "epochs between checkpoints")
    checkpoint_every_steps: int = number(0, 0, 10**9, "steps between checkpoints; 0: only by epochs")
    keep_checkpoints: int = number(3, 1, 10_000, "checkpoints to keep, in addition to the best")
    progress_seconds: float = number(30.0, 0.0, 86_400.0, "time between progress lines; 0: no lines")
    timeline: bool = switch(False, "write Horovod's timeline to output/data/timeline.json")
    tensorboard_s3: str = text("s3://", "destination of TensorBoard's events; empty: the grid's destination")
    clear_log: bool = switch(False, "remove TensorBoard's events of an earlier training, unless it is continued")

    @classmethod
    def from_hyperparameters(cls, texts: Mapping[str, str]) -> Self:
        """Return the validated configuration.

        Args:
            texts: Each hyperparameter's value as text, by name or by an alias of aliases.py.

        Raises:
            HyperparameterError: Hyperparameters are unknown, malformed or out of range; the text names all of them.
        """
        fields = {entry.name: entry for entry in dataclasses.fields(cls)}
        values: dict[str, object] = {}
        problems: list[str] = []
        for name, given in aliases.resolved(texts).items():
            try:
                if name not in fields:
                    raise unknown(name, fields)
                values[name] = parsed(fields[name], given)
            except ValueError as error:
                problems.append(str(error))
        if problems:
            raise HyperparameterError("\n".join(problems))
        config = cls(**values)  # type: ignore[arg-type]  # parsed() returns values of the fields' types
        if problems := _contradictions(config, values):
            raise HyperparameterError("\n".join(problems))
        if "warmup_epochs" not in values:  # so that a short training reaches its peak rate, too
            config = dataclasses.replace(config, warmup_epochs=min(config.warmup_epochs, config.epochs / 2))
        return config


def _contradictions(config: Config, given: Collection[str]) -> list[str]:
    """Return a message for each hyperparameter of the user that contradicts another one."""
    found = []
    if config.warmup_epochs > config.epochs and "warmup_epochs" in given:
        found.append(
            f"Hyperparameter warmup_epochs is {config.warmup_epochs:g}, but there are only {config.epochs} epochs."
        )
    both = {"stall_seconds", "pipe_timeout_seconds"} <= {*given}
    if both and 0 < config.stall_seconds <= config.pipe_timeout_seconds:
        found.append(
            f"Hyperparameter pipe_timeout_seconds is {config.pipe_timeout_seconds:g}, but must be less than "
            f"stall_seconds, {config.stall_seconds:g}: all ranks wait for a rank that waits for its stream, and would "
            "end the job first. Increase stall_seconds, or remove it."
        )
    return found
