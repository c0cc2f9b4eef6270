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
    """The trainer's hyperparameters. Defaults train ResNet-50 v1.5 on ImageNet as in Goyal et al. 2017 (1706.02677).

    Batch size and learning rate are those of ONE rank. The rate is multiplied by the number of ranks.
    """

    # The network
    model: str = choice(
        "resnet50",
        ("resnet50", "resnet32", "resnet20", "resnet8"),
        "the network: resnet50 is v1.5; resnet20 and resnet32 suit 32 x 32 images, resnet8 still smaller ones",
    )
    classes: int = number(1000, 2, 1_000_000, "how many classes there are")
    batch_norm_momentum: float = number(0.9, 0.0, 0.9999, "of the moving averages; Keras' 0.99 needs long training")

    # The data
    first_label: int = number(1, 0, 1_000_000, "the label of the first class; ImageNet's records count from 1")
    image_size: int = number(224, 8, 1024, "height and width that images are brought to, in pixels")
    augmentation: str = choice(
        "crop_and_flip",
        ("crop_and_flip", "affine", "none"),
        "crop_and_flip: ImageNet's; affine: small shifts, turns and zooms, for images that must not be mirrored",
    )
    data_dir: str = text("", "a folder to read instead of the channel train's")
    cache: bool = switch(False, "keep decoded images in memory; for small data sets")
    shard_by: str = choice(
        "auto", ("auto", "file", "record"), "what is dealt to ranks: whole files, or every n-th record"
    )
    shuffle_files: bool = switch(True, "read a rank's files in another order every epoch")
    shuffle_records: int = number(2048, 0, 10_000_000, "records that are held in memory to be shuffled; 0: none")
    parallel_reads: int = number(1, 1, 256, "files that a rank reads at once")
    tolerate_corrupt_records: int = number(
        0, 0, 10**9, "records that are corrupt or hold no image which each rank may leave out of an epoch"
    )
    train_records: int = number(0, 0, 10**12, "how many records the channel train must have; 0: not checked")
    validation_records: int = number(0, 0, 10**12, "how many records the channel validation must have; 0: not checked")
    pipe_timeout_seconds: float = number(600.0, 1.0, 86_400.0, "how long to wait for a Pipe channel's next epoch")

    # The recipe
    epochs: int = number(90, 1, 100_000, "passes over the training images")
    steps_per_epoch: int = number(0, 0, 10**9, "batches per rank that make an epoch; 0: as many as the images allow")
    batch_size: int = number(256, 1, 65536, "images per rank and batch")
    accumulate_steps: int = number(1, 1, 1024, "batches whose gradients are added up for one update")
    learning_rate: float = number(0.1, 1e-9, 100.0, "peak rate of ONE rank's update; 0.1 per 256 images")
    lr_schedule: str = choice("polynomial", ("polynomial", "cosine"), "how the rate falls to zero after the warm-up")
    lr_power: float = number(2.0, 0.1, 10.0, "power of the polynomial decay; 1 is a straight line")
    warmup_epochs: float = number(10.0, 0.0, 100_000.0, "epochs of linear warm-up from one rank's rate to all ranks'")
    momentum: float = number(0.9, 0.0, 0.9999, "Nesterov momentum of SGD")
    weight_decay: float = number(1e-4, 0.0, 1.0, "L2 penalty on kernels; norms and biases have none")
    label_smoothing: float = number(0.1, 0.0, 0.9, "share of a label given to all classes")
    ema: float = number(0.0, 0.0, 0.999999, "decay of the weights' moving average, validated and exported; 0: off")
    early_stop_epochs: int = number(0, 0, 100_000, "end after so many epochs without a better top-1; 0: never")
    seed: int = number(0, 0, 2**31 - 1, "of initial weights, shuffling and augmentation")

    # Speed
    precision: str = choice(
        "auto",
        ("auto", "float32", "mixed_float16", "mixed_bfloat16"),
        "auto: float16 with loss scaling on GPUs, bfloat16 on processors that compute in it, else float32",
    )
    xla: bool = switch(False, "compile the step with XLA: for GPUs, slower on processors")
    gradient_compression: str = choice("none", ("none", "fp16"), "what gradients travel as between ranks")
    fusion_mb: int = number(0, 0, 4096, "Horovod's fusion buffer in MiB; 0: its own default")
    hierarchical_allreduce: bool = switch(False, "reduce within each host first; for several hosts of GPUs")
    stall_seconds: float = number(300.0, 0.0, 86_400.0, "how long ranks wait for one that is stalled before they fail")

    # Checkpoints and output
    validation_every: int = number(1, 1, 100_000, "epochs from one validation to the next")
    checkpoint_every: int = number(1, 1, 100_000, "epochs from one checkpoint to the next")
    checkpoint_every_steps: int = number(0, 0, 10**9, "steps from one checkpoint to the next; 0: only by epochs")
    keep_checkpoints: int = number(3, 1, 10_000, "how many checkpoints stay, beside the best")
    progress_seconds: float = number(30.0, 0.0, 86_400.0, "time from one line of progress to the next; 0: none")
    timeline: bool = switch(False, "write Horovod's timeline to output/data/timeline.json")
    tensorboard_s3: str = text("s3://", "where TensorBoard's events are copied; empty: where the grid says")
    clear_log: bool = switch(False, "remove TensorBoard's events of a former training, unless it continues")

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
        config = cls(**values)  # type: ignore[arg-type]  # parsed() returns what each field's type says
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
            f"Hyperparameter pipe_timeout_seconds is {config.pipe_timeout_seconds:g}, but stall_seconds is "
            f"{config.stall_seconds:g}: while one rank waits for its stream all others wait for it, and would end the "
            "job first. Give a longer stall_seconds, or leave it out."
        )
    return found
