"""Round weights: the weights with which a training of rounds begins, and those with which it ends (docs/rounds.md).

Example:
    from trainer import ranks, round_weights

    model.load_state_dict(round_weights.begin(model.state_dict()))      # the last global model
    ...                                                                 # train
    if ranks.current().is_main:
        buffers = dict(model.named_buffers())
        round_weights.save(model.state_dict(), records=len(data), averaged=buffers)

Any framework: weights are tensors of PyTorch or arrays of NumPy by name, for Keras
`{str(number): value for number, value in enumerate(model.get_weights())}`.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from training_container import weights_file
from training_container.contract.training_job import Folders
from training_container.script_api import initial_model
from training_container.weights_file import (
    AVERAGED,
    BEGUN,
    RECORDS,
    START,
    WEIGHTS,
    Tensor,
    Tensors,
    WeightsFile,
    WeightsFileError,
)

_Value = TypeVar("_Value")


class RoundWeightsError(ValueError):
    """The weights are not those of the script's network, or a call is missing."""


@dataclass(frozen=True)
class _Start:
    """The weights with which this training began; `is_first` is True if they are those of the script."""

    tensors: Tensors
    digest: str
    is_first: bool


_starts: list[_Start] = []
"""The last call of `begin` in this process."""


def begin(weights: Mapping[str, _Value], folders: Folders | None = None) -> dict[str, _Value]:
    """Return the weights with which to begin: the last global ones, or in a first round those of the script.

    All Regions must begin a first round with the same weights: seed the generator with the hyperparameter `seed`. Call
    this before a checkpoint is loaded, on all ranks.

    Args:
        weights: The weights of the new network, by name.
        folders: The folders of this host; by default /opt/ml, or $SAGEMAKER_BASE_DIR.

    Raises:
        RoundWeightsError: The global weights have other names, shapes or types than the network.
        ContractError: The initial model cannot be unpacked.
    """
    own = {name: _tensor(name, value) for name, value in weights.items()}
    model = initial_model.folder(folders)
    tensors = _copied(own) if model is None else _global_weights(model / WEIGHTS, own)
    _starts[:] = [_Start(tensors, weights_file.digest(tensors), is_first=model is None)]
    return dict(weights) if model is None else {name: _like(value, tensors[name]) for name, value in weights.items()}


def save(
    weights: Mapping[str, Any], *, records: int, averaged: Iterable[str] = (), folders: Folders | None = None
) -> Path:
    """Write the trained weights to SM_MODEL_DIR, on one rank, and return the file.

    Args:
        weights: The weights by name, the same names as those of `begin`.
        records: The number of training records, by which the Region counts in the mean.
        averaged: The names that no gradient changes, such as statistics of batch norm: they become the means.
        folders: The folders of this host; by default /opt/ml, or $SAGEMAKER_BASE_DIR.

    Raises:
        RoundWeightsError: `begin` was not called, names or shapes have changed, a weight is not finite, or there are no
            records.
    """
    if not _starts:
        raise RoundWeightsError("Call round_weights.begin(...) before the training and save(...) after it.")
    if records <= 0:
        raise RoundWeightsError(f"records is {records}; it must be the number of training records, at least 1.")
    start = _starts[0]
    tensors = {name: _tensor(name, value) for name, value in weights.items()}
    _check_equal(tensors, start.tensors, "the weights to save", "those of begin(...)")
    _check_finite(tensors)
    names = [name for name in averaged if name in tensors]
    target = (folders or Folders.from_environment(os.environ)).model
    target.mkdir(parents=True, exist_ok=True)
    if start.is_first:
        weights_file.write(target / START, WeightsFile(start.tensors))
    metadata = {RECORDS: str(int(records)), BEGUN: start.digest, AVERAGED: json.dumps(names)}
    weights_file.write(target / WEIGHTS, WeightsFile(tensors, metadata))
    return target / WEIGHTS


def _check_finite(tensors: Tensors) -> None:
    """Raise a RoundWeightsError with the words by which rounds leave out a Region (traingrid/job/failures.py)."""
    for name, tensor in tensors.items():
        if not tensor.is_finite:
            step = "Reduce the learning rate, or clip the gradients"
            raise RoundWeightsError(f"The weight {name} is not finite: training diverged. {step}.")


def _copied(tensors: Tensors) -> Tensors:
    """Return tensors that the training does not change: a tensor of PyTorch and its array share their memory."""
    return {name: Tensor(tensor.type, tensor.array.copy()) for name, tensor in tensors.items()}


def _global_weights(path: Path, own: Tensors) -> Tensors:
    """Return the weights of a global model, which must be those of the network."""
    if not path.is_file():
        raise RoundWeightsError(
            f"The initial model has no file {WEIGHTS}, so that no script of rounds has trained it. Begin with a model "
            "that round_weights.save(...) has written, or without init_from."
        )
    try:
        tensors = weights_file.read(path).tensors
    except (WeightsFileError, OSError) as error:
        raise RoundWeightsError(f"The global weights cannot be read: {error}") from error
    _check_equal(own, tensors, "the script's network", "the global model")
    return tensors


def _check_equal(tensors: Tensors, expected: Tensors, noun: str, expected_noun: str) -> None:
    """Raise a RoundWeightsError that names the first difference in names, shapes or types."""
    if different := sorted(tensors.keys() ^ expected.keys()):
        owner = noun if different[0] in tensors else expected_noun
        raise RoundWeightsError(f"Only {owner} has the weight {different[0]}: it is another network.")
    for name, tensor in tensors.items():
        own, needed = (f"{part.type} {list(part.array.shape)}" for part in (tensor, expected[name]))
        if own != needed:
            raise RoundWeightsError(f"The weight {name} of {noun} is {own}, and that of {expected_noun} {needed}.")


def _tensor(name: str, value: Any) -> Tensor:
    """Return a tensor of PyTorch, or an array, as a tensor of the file."""
    try:
        if not hasattr(value, "detach"):
            return Tensor.of(np.asarray(value))
        value = value.detach().cpu().contiguous()
        if str(value.dtype) != "torch.bfloat16":
            return Tensor.of(value.numpy())
        return Tensor("BF16", value.view(_torch().int16).numpy().view(np.uint16))
    except (WeightsFileError, TypeError) as error:
        raise RoundWeightsError(f"The weight {name} cannot be saved: {error}.") from error


def _like(value: Any, tensor: Tensor) -> Any:
    """Return a tensor of the file as the framework of a value has it."""
    if not hasattr(value, "detach"):
        return tensor.array.copy()
    if tensor.type == "BF16":
        return _torch().from_numpy(tensor.array.view(np.int16).copy()).view(_torch().bfloat16)
    return _torch().from_numpy(tensor.array.copy())


def _torch() -> Any:
    import torch  # noqa: PLC0415  # a script with tensors has imported it; others need not have it

    return torch
