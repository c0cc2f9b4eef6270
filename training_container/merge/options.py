"""Merge options: the hyperparameters of a merge, validated on every host before the merge starts. Without TensorFlow.

`traingrid merge` writes them. The hyperparameters of the trainer, which grid.yaml may add to lines, have no effect:
each model has its own in its report.json.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from training_container.contract.training_job import ContractError, TrainingJob

Method = Literal["average", "ensemble", "parts", "weights"]
Layout = Literal["shared", "folders"]
Counting = Literal["models", "records"]
Statistics = Literal["recompute", "average"]
CHANNEL = "models"
"""The channel with the archives of the models."""
_PREFIX = "merge_"
_MAX_VALUE = 10**9


@dataclass(frozen=True, kw_only=True)
class MergeOptions:
    """The options of a merge. Each is the hyperparameter `merge_<name>`.

    Attributes:
        method: "average": the mean of the weights; "ensemble": a network that returns the mean of the probabilities;
            "parts": the files of all models in one folder; "weights": the mean of weights that scripts have saved.
        count: The number of models, so that a model that is missing in the channel is noticed.
        layout: With the method parts: "shared" keeps the paths of all files; "folders" gives each model a folder.
        statistics_images: With the method average: the number of training images from which the statistics of batch
            norm are computed. By default as many as in OpenMMLab's PreciseBNHook (mmcls), which implements Wu and
            Johnson 2021 (arXiv:2105.07576, section 3).
        statistics: With the method average: "recompute": from training images; "average": the mean of the models'.
        weight_by: With the methods average and weights: the weight of a model: "models": 1; "records": its training
            records.
        outer_round: The number of the round, from 1, of a series whose outer step has momentum.
        outer_learning_rate: The learning rate of the outer step, which merge/outer_step.py computes.
    """

    method: Method
    count: int
    layout: Layout = "shared"
    statistics_images: int = 8_192
    statistics: Statistics = "recompute"
    weight_by: Counting = "models"
    outer_round: int = 1
    outer_learning_rate: float = 1.0
    outer_momentum: float = 0.0

    @classmethod
    def from_hyperparameters(cls, texts: Mapping[str, str]) -> Self:
        """Return the validated options.

        Raises:
            ContractError: An option is missing, unknown or invalid.
        """
        texts_of_merge = {name.removeprefix(_PREFIX): text for name, text in texts.items() if name.startswith(_PREFIX)}
        fields = {entry.name: entry for entry in dataclasses.fields(cls)}
        if unknown := sorted(texts_of_merge.keys() - fields.keys()):
            names = ", ".join(f"{_PREFIX}{name}" for name in fields)
            raise ContractError(f"Hyperparameter '{_PREFIX}{unknown[0]}' is unknown. There are: {names}.")
        if missing := [name for name in ("method", "count") if name not in texts_of_merge]:
            raise ContractError(f"Hyperparameter {_PREFIX}{missing[0]} is required. `traingrid merge` writes it.")
        values: dict[str, Any] = {name: _value(name, text) for name, text in texts_of_merge.items()}
        return cls(**values)


def check(job: TrainingJob) -> MergeOptions:
    """Validate a merge before TensorFlow is imported, and return its options.

    Raises:
        ContractError: An option is invalid, a channel is missing, or the job has several ranks.
    """
    options = MergeOptions.from_hyperparameters(job.hyperparameters)
    if job.world_size != 1:
        raise ContractError(f"A merge runs on one rank, but the job has {job.world_size}. Use one host and process.")
    train = ("train",) if options.statistics == "recompute" else ()
    required = {
        "average": (CHANNEL, *train, "validation"),
        "ensemble": (CHANNEL, "validation"),
        "parts": (CHANNEL,),
        "weights": (CHANNEL,),
    }[options.method]
    if absent := [name for name in required if name not in job.channels]:
        raise ContractError(
            f"A merge with the method {options.method} requires the channels {', '.join(required)}; the job has no "
            f"channel '{absent[0]}'."
        )
    return options


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "method": get_args(Method),
    "layout": get_args(Layout),
    "statistics": get_args(Statistics),
    "weight_by": get_args(Counting),
}
_MOST = {"outer_learning_rate": 10.0, "outer_momentum": 0.9999}
"""The maximum of each option that is a real number; the minimum is 0."""


def _value(name: str, text: str) -> str | int | float:
    if name in _CHOICES:
        if text not in _CHOICES[name]:
            choices = ", ".join(_CHOICES[name])
            raise ContractError(f"Hyperparameter {_PREFIX}{name} is {text!r}; it must be one of: {choices}.")
        return text
    if name in _MOST:
        number = _real(text)
        if not 0 <= number <= _MOST[name]:
            raise ContractError(f"Hyperparameter {_PREFIX}{name} is {text!r}; it must be from 0 to {_MOST[name]:g}.")
        return number
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MAX_VALUE):
        raise ContractError(
            f"Hyperparameter {_PREFIX}{name} is {text!r}; it must be a whole number from 1 to {_MAX_VALUE}."
        )
    return int(text)


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
