"""The trainer's hyperparameters: text from SageMaker, checked and typed once. Imports no TensorFlow."""

import dataclasses
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self


class HyperparameterError(ValueError):
    """At least one hyperparameter is unknown or out of range; the text has a line for each."""


def _number(default: float, low: float, high: float, what: str) -> Any:
    return field(default=default, metadata={"low": low, "high": high, "what": what})


def _choice(default: str, options: tuple[str, ...], what: str) -> Any:
    return field(default=default, metadata={"options": options, "what": what})


@dataclass(frozen=True, kw_only=True)
class Config:
    """What a user may set. Defaults train ResNet-50 on ImageNet as Goyal et al. 2017 (arXiv:1706.02677) do.

    Batch size and learning rate are those of ONE rank; the rate is multiplied by the number of ranks.
    """

    model: str = _choice("resnet50", ("resnet50", "resnet8"), "the network: resnet8 suits 32 x 32 images and smaller")
    classes: int = _number(1000, 2, 1_000_000, "how many classes there are")
    first_label: int = _number(1, 0, 1_000_000, "the label of the first class; ImageNet's records count from 1")
    image_size: int = _number(224, 8, 1024, "height and width that images are brought to, in pixels")
    epochs: int = _number(90, 1, 100_000, "passes over the training images")
    steps_per_epoch: int = _number(0, 0, 10**9, "steps of an epoch; 0: as many as the images allow")
    batch_size: int = _number(32, 1, 65536, "images per rank and step")
    learning_rate: float = _number(0.0125, 1e-9, 100.0, "peak rate of one rank; 0.1 per 256 images")
    warmup_epochs: float = _number(5.0, 0.0, 100_000.0, "epochs of linear warm-up from one rank's rate to all ranks'")
    momentum: float = _number(0.9, 0.0, 0.9999, "Nesterov momentum of SGD")
    weight_decay: float = _number(5e-5, 0.0, 1.0, "L2 penalty on kernels")
    label_smoothing: float = _number(0.1, 0.0, 0.9, "share of a label given to all classes")
    batch_norm_momentum: float = _number(0.9, 0.0, 0.9999, "of the moving averages; Keras' 0.99 needs long training")
    augmentation: str = _choice(
        "crop_and_flip",
        ("crop_and_flip", "affine", "none"),
        "crop_and_flip: ImageNet's; affine: small shifts, turns and zooms, for images that must not be mirrored",
    )
    precision: str = _choice("float32", ("float32", "mixed_bfloat16"), "Keras' precision policy")
    cache: bool = field(default=False, metadata={"what": "keep decoded images in memory; for small data sets"})
    validation_every: int = _number(1, 1, 100_000, "epochs from one validation to the next")
    checkpoint_every: int = _number(1, 1, 100_000, "epochs from one checkpoint to the next")
    seed: int = _number(0, 0, 2**31 - 1, "of initial weights, shuffling and augmentation")

    @classmethod
    def from_hyperparameters(cls, texts: Mapping[str, str]) -> Self:
        """Return the typed configuration.

        Args:
            texts: each hyperparameter's name and value as text.

        Raises:
            HyperparameterError: names every hyperparameter that is unknown, malformed or out of range.
        """
        fields = {entry.name: entry for entry in dataclasses.fields(cls)}
        values: dict[str, object] = {}
        problems: list[str] = []
        for name, text in texts.items():
            try:
                values[name] = _value(fields[name], text.strip()) if name in fields else _unknown(name, list(fields))
            except ValueError as error:
                problems.append(str(error))
        if problems:
            raise HyperparameterError("\n".join(problems))
        config = cls(**values)  # type: ignore[arg-type]  # _value returns what each field's type says
        if config.warmup_epochs > config.epochs and "warmup_epochs" in texts:
            raise HyperparameterError(
                f"Hyperparameter warmup_epochs is {config.warmup_epochs:g}, but there are only {config.epochs} epochs."
            )
        return config


def _unknown(name: str, names: list[str]) -> object:
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"Did you mean {nearest[0]!r}?" if nearest else f"There are: {', '.join(names)}."
    raise ValueError(f"Hyperparameter {name!r} is unknown. {hint}")


def _value(entry: dataclasses.Field[Any], text: str) -> object:
    if entry.type is bool:
        return _boolean(entry.name, text)
    if entry.type is str:
        options = entry.metadata["options"]
        if text not in options:
            raise ValueError(f"Hyperparameter {entry.name!r} is {text!r}; it must be one of: {', '.join(options)}.")
        return text
    low, high = entry.metadata["low"], entry.metadata["high"]
    kind = "a whole number" if entry.type is int else "a number"
    try:
        number = int(text) if entry.type is int else float(text)
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        raise ValueError(f"Hyperparameter {entry.name!r} is {text!r}; it must be {kind} from {low:g} to {high:g}.")
    return number


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"Hyperparameter {name!r} is {text!r}; it must be true or false.")
    return text.lower() == "true"
