"""Config: the trainer's hyperparameters, validated and converted from SageMaker's text.

traingrid/algorithms/trainer_config.py is a copy, with which a manifest is checked before anything is paid; a test
compares both.
"""

import dataclasses
import difflib
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

# The flag names of AWS's train_imagenet_resnet_hvd.py (deep-learning-models), whose users know them (docs/training.md).
ALIASES = {"num_epochs": "epochs", "b": "batch_size", "lr_decay_mode": "lr_schedule"}
"""The trainer's name of each other name that it accepts."""
_ALIAS_VALUES = {("lr_schedule", "poly"): "polynomial"}


TENSORFLOW, TORCH = "TensorFlow", "PyTorch"
"""The frameworks of the images' trainers. A field names one of them as `only` if the other trainer does not have it."""

_WHOLE = re.compile(r"([-+]?[0-9]+)(\.0*)?")


@dataclass(frozen=True, kw_only=True)
class HyperparameterProblem:
    """One invalid hyperparameter.

    Attributes:
        given: Its value as text; empty if the value alone is not the problem.
        reason: Why it is invalid, as the end of a sentence about it.
        next_step: A sentence that tells the user how to correct it; empty if the reason does.
    """

    name: str
    given: str = ""
    reason: str
    next_step: str = ""

    def __str__(self) -> str:
        value = f" is {self.given!r}; it" if self.given else ""
        return f"Hyperparameter {self.name!r}{value} {self.reason}.{self.next_step and ' '}{self.next_step}"


class HyperparameterError(ValueError):
    """Hyperparameters are unknown or out of range. The text has a line for each."""

    def __init__(self, problems: Collection[HyperparameterProblem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


def _number(default: float, low: float, high: float, meaning: str, only: str = "") -> Any:
    """Declare an int or float between `low` and `high`."""
    return field(default=default, metadata={"low": low, "high": high, "meaning": meaning, "only": only})


def _choice(
    default: str, options: tuple[str, ...], meaning: str, only: str = "", only_options: Mapping[str, str] | None = None
) -> Any:
    """Declare a word that must be one of `options`; `only_options` names those of one framework."""
    rules = {"options": options, "only_options": only_options or {}}
    return field(default=default, metadata={**rules, "meaning": meaning, "only": only})


def _switch(default: bool, meaning: str, only: str = "") -> Any:
    """Declare a boolean."""
    return field(default=default, metadata={"meaning": meaning, "only": only})


def _text(prefix: str, meaning: str, only: str = "") -> Any:
    """Declare a text that must be empty or begin with `prefix`."""
    return field(default="", metadata={"prefix": prefix, "meaning": meaning, "only": only})


@dataclass(frozen=True, kw_only=True)
class Config:
    """The trainer's hyperparameters. By default it trains ResNet-50 v1.5 on ImageNet.

    The default recipe is that of Goyal et al. 2017 (arXiv:1706.02677). The batch size is that of ONE rank. The learning
    rate follows the global batch.
    """

    # The network
    model: str = _choice(
        "resnet50",
        ("resnet50", "resnet32", "resnet20", "resnet8", "vit_b_16"),
        "the network: resnet50 is v1.5; resnet20 and resnet32 are for images of 32 x 32, resnet8 for smaller ones; "
        "vit_b_16 is a vision transformer, for PyTorch",
        only_options={"vit_b_16": TORCH},
    )
    classes: int = _number(1000, 2, 1_000_000, "number of classes")
    new_head: bool = _switch(
        False, "begin with a new last layer, and the other weights of the initial model; for other classes"
    )
    batch_norm_momentum: float = _number(
        0.9, 0.0, 0.9999, "momentum of the moving averages; Keras' 0.99 needs long training"
    )

    # The data
    first_label: int = _number(1, 0, 1_000_000, "label of the first class; ImageNet's records count from 1")
    image_size: int = _number(224, 8, 1024, "height and width to which images are resized, in pixels")
    augmentation: str = _choice(
        "crop_and_flip",
        ("crop_and_flip", "affine", "none"),
        "crop_and_flip: ImageNet's; affine: small shifts, rotations and zooms, for images that must not be mirrored",
    )
    data_dir: str = _text("", "folder to read in place of the channel train", TENSORFLOW)
    cache: bool = _switch(False, "keep decoded images in memory; for small data sets", TENSORFLOW)
    shard_by: str = _choice(
        "auto",
        ("auto", "file", "record"),
        "share of a rank: auto is a range of records, file whole files, record every n-th record",
    )
    shuffle_files: bool = _switch(True, "read files in a different order, and ranges of other files, in every epoch")
    shuffle_records: int = _number(
        2048, 0, 10_000_000, "size of the shuffle buffer, in records; 0: no shuffling of records"
    )
    parallel_reads: int = _number(
        0, 0, 256, "number of files that a rank reads at once; 0: 8 in FastFile mode, otherwise 1", TENSORFLOW
    )
    workers: int = _number(
        0, 0, 64, "processes of a rank that read and decode images; 0: one per core of the rank, at most 16", TORCH
    )
    tolerate_corrupt_records: int = _number(
        0,
        0,
        10**9,
        "corrupt records, or records without a valid image, that each rank may leave out of an epoch",
        TENSORFLOW,
    )
    train_records: int = _number(0, 0, 10**12, "minimum number of records in the channel train; 0: not checked")
    validation_records: int = _number(
        0, 0, 10**12, "minimum number of records in the channel validation; 0: not checked"
    )
    pipe_timeout_seconds: float = _number(600.0, 1.0, 86_400.0, "time to wait for a Pipe channel's next epoch")

    # The recipe
    epochs: int = _number(90, 1, 100_000, "number of passes over the training images")
    steps_per_epoch: int = _number(0, 0, 10**9, "batches per rank in an epoch; 0: as many as the images allow")
    batch_size: int = _number(256, 1, 65536, "images per rank and batch")
    accumulate_steps: int = _number(1, 1, 1024, "batches whose gradients are accumulated for one update")
    base_learning_rate: float = _number(
        0.1,
        1e-9,
        100.0,
        "peak rate for 256 images of the global batch, which is batch_size * accumulate_steps * ranks",
    )
    learning_rate: float = _number(
        0.0,
        0.0,
        100.0,
        "peak rate of one rank, which is multiplied by the number of ranks; 0: derived from base_learning_rate",
    )
    lr_schedule: str = _choice("polynomial", ("polynomial", "cosine"), "decay of the rate to zero after the warm-up")
    lr_power: float = _number(2.0, 0.1, 10.0, "power of the polynomial decay; 1 is a straight line")
    warmup_epochs: float = _number(
        10.0,
        0.0,
        100_000.0,
        "epochs of linear warm-up from one rank's rate to all ranks'; by default at most half of epochs",
    )
    optimizer: str = _choice(
        "sgd",
        ("sgd", "adamw"),
        "sgd: with Nesterov momentum; adamw: with decoupled decay, for vision transformers",
        TORCH,
    )
    momentum: float = _number(0.9, 0.0, 0.9999, "Nesterov momentum of SGD")
    weight_decay: float = _number(1e-4, 0.0, 1.0, "L2 penalty on kernels, not on norms and biases")
    label_smoothing: float = _number(0.1, 0.0, 0.9, "share of a label that is distributed over all classes")
    ema: float = _number(0.0, 0.0, 0.999999, "decay of the weights' moving average, validated and exported; 0: off")
    early_stop_epochs: int = _number(0, 0, 100_000, "epochs without a better top-1 before training ends; 0: unlimited")
    seed: int = _number(0, 0, 2**31 - 1, "seed of initial weights, shuffling and augmentation")

    # Speed
    precision: str = _choice(
        "auto",
        ("auto", "float32", "mixed_float16", "mixed_bfloat16"),
        "auto: float16 with loss scaling on GPUs, with PyTorch bfloat16; bfloat16 on CPUs that support it; otherwise "
        "float32",
        only_options={"mixed_float16": TENSORFLOW},
    )
    xla: bool = _switch(False, "compile the step with XLA: for GPUs; slower on CPUs", TENSORFLOW)
    torch_compile: bool = _switch(False, "compile the network with torch.compile: for GPUs", TORCH)
    gradient_compression: str = _choice(
        "none", ("none", "fp16"), "fp16: ranks exchange gradients in half the bytes", TENSORFLOW
    )
    fusion_mb: int = _number(0, 0, 4096, "Horovod's fusion buffer in MiB; 0: Horovod's default", TENSORFLOW)
    hierarchical_allreduce: bool = _switch(
        False, "reduce within each host first; for several hosts with GPUs", TENSORFLOW
    )
    stall_seconds: float = _number(
        300.0, 0.0, 86_400.0, "time that ranks wait for a stalled rank before they fail; 0: unlimited"
    )

    # Checkpoints and output
    validation_every: int = _number(1, 1, 100_000, "epochs between validations")
    checkpoint_every: int = _number(1, 1, 100_000, "epochs between checkpoints")
    checkpoint_every_steps: int = _number(0, 0, 10**9, "steps between checkpoints; 0: only by epochs")
    keep_checkpoints: int = _number(3, 1, 10_000, "number of checkpoints to keep, in addition to the best")
    progress_seconds: float = _number(30.0, 0.0, 86_400.0, "time between progress lines; 0: no lines")
    timeline: bool = _switch(False, "write Horovod's timeline, which is then in output.tar.gz", TENSORFLOW)
    tensorboard_s3: str = _text(
        "s3://", "destination of TensorBoard's events; empty: tensorboard/ below the line's output", TENSORFLOW
    )
    clear_log: bool = _switch(
        False, "remove TensorBoard's events of an earlier training, unless this one continues it", TENSORFLOW
    )

    @property
    def rate_of_one_rank(self) -> float:
        """The peak learning rate of a training with one rank: learning_rate, or linear in the images of an update.

        Source of the linear rule: Goyal et al. 2017 (arXiv:1706.02677), section 2.1, a rate of 0.1 for 256 images.
        """
        return self.learning_rate or self.base_learning_rate * self.batch_size * self.accumulate_steps / 256

    @classmethod
    def from_hyperparameters(cls, texts: Mapping[str, str], framework: str = TENSORFLOW) -> Self:
        """Return the validated configuration.

        Args:
            texts: Each hyperparameter's value as text, by name or by a flag name of ALIASES.
            framework: The framework of the image's trainer, of which each lacks some hyperparameters.

        Raises:
            HyperparameterError: Hyperparameters are unknown, malformed or out of range; the text names all of them.
        """
        fields = {entry.name: entry for entry in dataclasses.fields(cls)}
        only_by_name = {name: entry.metadata["only"] for name, entry in fields.items()}
        values: dict[str, object] = {}
        problems: list[HyperparameterProblem] = []
        for name, text in _without_aliases(texts).items():
            if problem := _name_problem(name, only_by_name, framework):
                problems.append(problem)
                continue
            try:
                values[name] = _field_value(fields[name], text, framework)
            except ValueError as error:
                problems.append(HyperparameterProblem(name=name, given=text, reason=str(error)))
        if problems:
            raise HyperparameterError(problems)
        config = cls(**values)  # type: ignore[arg-type]  # _field_value() returns values of the fields' types
        if problems := _contradictions(config, values):
            raise HyperparameterError(problems)
        if "warmup_epochs" not in values:  # so that a short training reaches its peak rate, too
            config = dataclasses.replace(config, warmup_epochs=min(config.warmup_epochs, config.epochs / 2))
        return config


def framework_of(launcher: str) -> str:
    """Return the framework of the trainer whose ranks a launcher starts."""
    return TORCH if launcher == "torchrun" else TENSORFLOW


def _contradictions(config: Config, names: Collection[str]) -> list[HyperparameterProblem]:
    """Return each hyperparameter of the user that contradicts another one."""
    problems = []
    if config.warmup_epochs > config.epochs and "warmup_epochs" in names:
        reason = f"is {config.warmup_epochs:g}, but there are only {config.epochs} epochs"
        problems.append(HyperparameterProblem(name="warmup_epochs", reason=reason))
    if config.learning_rate and "base_learning_rate" in names:
        next_step = (
            "The first is the rate of one rank, the second that of 256 images of the global batch. Remove one of them."
        )
        reason = "is given, and 'base_learning_rate', too"
        problems.append(HyperparameterProblem(name="learning_rate", reason=reason, next_step=next_step))
    if config.optimizer == "adamw" and "momentum" in names:
        reason = "is given, but the optimizer is adamw, which has its own"
        problems.append(HyperparameterProblem(name="momentum", reason=reason, next_step="Remove momentum."))
    if config.gradient_compression == "fp16" and config.precision in ("float32", "mixed_bfloat16"):
        problems.append(unscaled_compression(config.precision))
    both = {"stall_seconds", "pipe_timeout_seconds"} <= {*names}
    if both and 0 < config.stall_seconds <= config.pipe_timeout_seconds:
        reason = (
            f"is {config.pipe_timeout_seconds:g}, but must be less than stall_seconds, {config.stall_seconds:g}: all "
            "ranks wait for a rank that waits for its stream, and would end the job first"
        )
        next_step = "Increase stall_seconds, or remove it."
        problems.append(HyperparameterProblem(name="pipe_timeout_seconds", reason=reason, next_step=next_step))
    return problems


def unscaled_compression(precision: str) -> HyperparameterProblem:
    """Return the error for gradients that are sent in float16 without loss scaling: an overflow reaches the weights."""
    reason = (
        f"is fp16, but with precision {precision} the loss is not scaled, so that small gradients become zero and "
        "large ones infinite"
    )
    next_step = "Remove gradient_compression, or set precision to mixed_float16."
    return HyperparameterProblem(name="gradient_compression", reason=reason, next_step=next_step)


def _without_aliases(texts: Mapping[str, str]) -> dict[str, str]:
    """Return hyperparameters with aliases replaced by the trainer's own names and values.

    Args:
        texts: Each hyperparameter's value as text, by name or alias.

    Raises:
        HyperparameterError: A hyperparameter is given under two names with different values.
    """
    values: dict[str, str] = {}
    given_as: dict[str, str] = {}
    for given_name, text in texts.items():
        name = ALIASES.get(given_name, given_name)
        value = _ALIAS_VALUES.get((name, text.strip()), text.strip())
        if values.get(name, value) != value:
            earlier = given_as[name]
            reason = f"is given twice: {earlier} is {texts[earlier]!r} and {given_name} is {text!r}"
            raise HyperparameterError(
                [HyperparameterProblem(name=name, reason=reason, next_step="Remove one of them.")]
            )
        values[name], given_as[name] = value, given_name
    return values


def _field_value(entry: dataclasses.Field[Any], text: str, framework: str) -> object:
    """Return the value of a field.

    Raises:
        ValueError: The text is invalid for the field. The message describes valid values.
    """
    if entry.type is bool:
        return _boolean(text)
    if entry.type is str:
        return _word(entry, text, framework)
    low, high = entry.metadata["low"], entry.metadata["high"]
    kind = "a whole number" if entry.type is int else "a number"
    try:
        value = _integer(text) if entry.type is int else float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise ValueError(f"must be {kind} from {low:g} to {high:g}")
    return value


def _integer(text: str) -> int:
    """Return a whole number, also of a float such as 90.0, in which form pandas writes a column with empty cells."""
    match = _WHOLE.fullmatch(text)
    return int(match[1] if match else text)


def _name_problem(name: str, only_by_name: Mapping[str, str], framework: str) -> HyperparameterProblem | None:
    """Return the error for a name that is unknown, with the most similar known name, or of the other framework."""
    if name in only_by_name:
        if only_by_name[name] in ("", framework):
            return None
        reason = f"is one of the trainer for {only_by_name[name]}, but this image has the trainer for {framework}"
        return HyperparameterProblem(name=name, reason=reason, next_step=f"Remove {name}.")
    known_names = [known_name for known_name, only in only_by_name.items() if only in ("", framework)]
    nearest = difflib.get_close_matches(name, known_names, n=1, cutoff=0.5)
    hint = f"Did you mean {nearest[0]!r}?" if nearest else f"There are: {', '.join(known_names)}."
    return HyperparameterProblem(name=name, reason="is unknown", next_step=hint)


def _word(entry: dataclasses.Field[Any], text: str, framework: str) -> str:
    only = entry.metadata.get("only_options", {})
    options = [option for option in entry.metadata.get("options", ()) if only.get(option, framework) == framework]
    prefix = entry.metadata.get("prefix", "")
    if options and text not in options:
        raise ValueError(f"must be one of: {', '.join(options)}")
    if text and not text.startswith(prefix):
        raise ValueError(f"must begin with {prefix!r} or be empty")
    return text


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"
