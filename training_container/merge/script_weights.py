"""Script weights: averages the weights that scripts of any framework have saved, and takes the outer step. NumPy only.

The scripts write them with training_container/script_api/round_weights.py.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from training_container import outside_json, weights_file
from training_container.contract.stopping import StoppedError
from training_container.contract.training_job import TrainingJob
from training_container.merge.options import CHANNEL, Counting, MergeOptions
from training_container.merge.outer_step import OuterStep, Sums, weighted_mean
from training_container.merge.parts import MergeError, MergePart
from training_container.merge.velocity import read_velocity, unpacked, write_velocity
from training_container.weights_file import (
    AVERAGED,
    BEGUN,
    RECORDS,
    START,
    WEIGHTS,
    Tensors,
    WeightsFile,
    WeightsFileError,
)

_START_ARCHIVE = "start.tar.gz"
"""The archive of the last global model (traingrid/merge/line.py)."""
_MAX_RECORDS = 10**18
"""A limit that counts in double precision allow."""
_STEP = "Save the weights with round_weights.save(...) in each Region, or use the method parts."


@dataclass(frozen=True, kw_only=True)
class ScriptWeights:
    """The weights that a job has saved, which are read when they are needed.

    Attributes:
        records: The number of training records.
        start: The digest of the weights with which the training began.
        averaged: The names that only the mean changes.
    """

    part: MergePart
    records: int
    start: str
    averaged: frozenset[str]

    @classmethod
    def of(cls, part: MergePart) -> Self:
        """Return the weights of a part.

        Raises:
            MergeError: It has none, or they do not record their training.
        """
        path = part.folder / WEIGHTS
        if not path.is_file():
            raise MergeError(f"The model of {part} has no file {WEIGHTS}. {_STEP}")
        try:
            metadata = weights_file.metadata_of(path)
            records, averaged = int(metadata.get(RECORDS, "0")), outside_json.loads(metadata.get(AVERAGED, "[]"))
        except (WeightsFileError, OSError, ValueError) as error:
            raise MergeError(f"The weights of {part} cannot be read: {error}") from error
        if records > _MAX_RECORDS:
            raise MergeError(f"The weights of {part} record more than {_MAX_RECORDS:,} training records. {_STEP}")
        if not metadata.get(BEGUN) or not isinstance(averaged, list):
            raise MergeError(f"The file {WEIGHTS} of {part} does not record its training. {_STEP}")
        return cls(part=part, records=records, start=metadata[BEGUN], averaged=frozenset(map(str, averaged)))

    def tensors(self) -> Tensors:
        """Return the tensors.

        Raises:
            MergeError: They cannot be read, or a value is not finite.
        """
        print(f"Reading the weights of {self.part} ...", flush=True)
        tensors = _read(self.part.folder / WEIGHTS, str(self.part))
        for name, tensor in tensors.items():
            if not tensor.is_finite:
                raise MergeError(f"The weight {name} of {self.part} is not finite: its training diverged.")
        return tensors


def merge_weights(
    job: TrainingJob, options: MergeOptions, parts: Sequence[MergePart], stop_requested: Callable[[], bool]
) -> None:
    """Average the weights of scripts, take the outer step, and write the result as the model of this job.

    Args:
        options: The validated options, with the method weights.
        stop_requested: A function that returns True if the merge was asked to stop.

    Raises:
        MergeError: The weights cannot be averaged.
        StoppedError: The merge was asked to stop. It begins again when the job is retried.
    """
    models = [ScriptWeights.of(part) for part in parts]
    _check_start(models)
    counts = _counts(models, options.weight_by)
    template = models[0].tensors()
    mean = weighted_mean(_values(models, template, stop_requested), counts)
    merged = _after_outer_step(job, options, models[0], template, mean)
    tensors = _tensors(template, merged)
    job.folders.model.mkdir(parents=True, exist_ok=True)
    metadata = {RECORDS: str(sum(model.records for model in models))}
    weights_file.write(job.folders.model / WEIGHTS, WeightsFile(tensors, metadata))
    report = {"merge_method": options.method, "merged_from": list(map(_described, models, counts))}
    (job.folders.model / "report.json").write_text(json.dumps(report, indent=1))
    print(f"Averaged {len(tensors)} weights of {len(models)} models.")


def _tensors(template: Tensors, merged: Sums) -> Tensors:
    """Return the merged values in the types of the template.

    Raises:
        MergeError: A value is not finite in its type.
    """
    tensors = {name: tensor.with_values(value) for (name, tensor), value in zip(template.items(), merged, strict=True)}
    for name, tensor in tensors.items():
        if not tensor.is_finite:
            text = f"The weight {name} is not finite in the type {tensor.type} after the merge"
            raise MergeError(f"{text}. Reduce the outer learning rate, or save it in F32.")
    return tensors


def _described(model: ScriptWeights, count: int) -> dict[str, Any]:
    return {"submission": model.part.submission, "index": model.part.index, "weight": count}


def _check_start(models: Sequence[ScriptWeights]) -> None:
    """Raise a MergeError if trainings began with different weights, whose mean is then worse than each of them."""
    for model in models:
        if model.start != models[0].start:
            raise MergeError(
                f"The training of {model.part} did not begin with the same weights as that of {models[0].part}. In a "
                "first round, seed the generator with the hyperparameter seed before the network is built; call "
                "round_weights.begin(...) before a checkpoint is loaded."
            )


def _counts(models: Sequence[ScriptWeights], weight_by: Counting) -> list[int]:
    if weight_by == "models":
        return [1 for _ in models]
    for model in models:
        if model.records <= 0:
            raise MergeError(f"The weights of {model.part} do not record the number of training records. {_STEP}")
    return [model.records for model in models]


def _values(
    models: Sequence[ScriptWeights], template: Tensors, stop_requested: Callable[[], bool]
) -> Iterator[list[Any]]:
    """Yield the values of each model in the order of the first one, whose names, types and shapes all must have."""
    for model in models:
        if stop_requested():
            raise StoppedError("Stopped before the end of the merge; a retry begins again.")
        tensors = template if model is models[0] else model.tensors()
        if different := sorted(tensors.keys() ^ template.keys()):
            text = f"The weight {different[0]} is not in the models of both {model.part} and {models[0].part}"
            raise MergeError(f"{text}. Train the same network in all Regions.")
        for name, tensor in template.items():
            own, expected = (f"{part.type} {list(part.array.shape)}" for part in (tensors[name], tensor))
            if own != expected:
                raise MergeError(
                    f"The weight {name} of {model.part} is {own}, and that of {models[0].part} {expected}. Train the "
                    "same network in all Regions."
                )
        yield [tensors[name].values() for name in template]


def _after_outer_step(
    job: TrainingJob, options: MergeOptions, model: ScriptWeights, template: Tensors, mean: Sums
) -> Sums:
    """Return the weights after the outer step, and write its velocity; names that are only averaged are the mean."""
    step = OuterStep(learning_rate=options.outer_learning_rate, momentum=options.outer_momentum)
    if step.is_mean:
        return mean
    channel = job.channels[CHANNEL]
    start = _start(channel, model)
    if start.keys() != template.keys():
        raise MergeError(f"The weights with which the training of {model.part} began are those of another network.")
    before = read_velocity(channel, model.part.folder.parent, options)
    weights, velocity = step([start[name].values() for name in template], mean, before)
    write_velocity(velocity, job.folders)
    print(f"Outer step {options.outer_round}: learning rate {step.learning_rate:g}, momentum {step.momentum:g}.")
    return [
        after if tensor.is_real and name not in model.averaged else average
        for (name, tensor), after, average in zip(template.items(), weights, mean, strict=True)
    ]


def _start(channel: Path, model: ScriptWeights) -> Tensors:
    """Return the weights with which the trainings of a round began.

    Raises:
        MergeError: They are missing, or the trainings began with others.
    """
    folder = unpacked(channel / _START_ARCHIVE, model.part.folder.parent / "start")
    path = folder / WEIGHTS if folder else model.part.folder / START
    if not path.is_file():
        raise MergeError(f"The outer step reads the weights with which the round began, and {path.name} is missing.")
    tensors = _read(path, "the common start")
    if weights_file.digest(tensors) != model.start:
        raise MergeError(
            f"The training of {model.part} did not begin with the weights of the last global model, so that the outer "
            "step of this round cannot be computed. Call round_weights.begin(...) before a checkpoint is loaded."
        )
    return tensors


def _read(path: Path, owner: str) -> Tensors:
    try:
        return weights_file.read(path).tensors
    except (WeightsFileError, OSError) as error:
        raise MergeError(f"The weights of {owner} cannot be read: {error}") from error
