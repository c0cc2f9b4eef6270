"""Initial weights: begins a training with the weights of the model that an earlier job exported (`init_from`)."""

from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container import outside_json
from training_container.contract.training_job import Folders
from training_container.script_api import initial_model
from training_container.trainer.config import Config


class InitialModelError(RuntimeError):
    """The initial model cannot be used by this training."""


def begin_with_initial_model(model: tf.keras.Model, config: Config, folders: Folders) -> str:
    """Load the weights of the initial model on rank 0, and send them to all ranks. All ranks must call this together.

    Args:
        model: The network, which is built.
        config: The hyperparameters. With `new_head`, the last layer keeps its random weights.

    Returns:
        A message about the model; empty, without a change, if the job has none.

    Raises:
        InitialModelError: On rank 0, if the model is of another network, or was not exported by this trainer.
        ContractError: On rank 0, if the archive cannot be read.
    """
    text = _load(model, config, folders) if hvd.rank() == 0 else ""
    text = str(hvd.broadcast_object(text, root_rank=0, name="initial_model"))
    if text:
        hvd.broadcast_variables(model.variables, root_rank=0)
    return text


def _load(model: tf.keras.Model, config: Config, folders: Folders) -> str:
    folder = initial_model.folder(folders)
    if folder is None:
        return ""
    report = _report(folder)
    _check_network(report, config)
    skipped = {id(variable) for variable in _last_layer(model)} if config.new_head else set()
    reader = tf.train.load_checkpoint(str(folder / "1" / "variables" / "variables"))
    for number, variable in enumerate(model.variables):
        if id(variable) not in skipped:
            variable.assign(reader.get_tensor(f"model_variables/{number}/.ATTRIBUTES/VARIABLE_VALUE"))
    suffix = ", with a new last layer" if config.new_head else ""
    return f"Beginning with the weights of the initial model, {_origin(report)}{suffix}."


def _report(folder: Path) -> dict[str, Any]:
    """Return the content of the report that `artifacts.export` wrote beside the model.

    Raises:
        InitialModelError: It is missing or no report.
    """
    try:
        return dict(outside_json.loads((folder / "report.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        content = ", ".join(sorted(path.name for path in folder.iterdir())[:10]) or "nothing"
        raise InitialModelError(
            f"The initial model was not exported by this trainer: its archive has no report.json that can be read, but "
            f"{content}. Set init_from to a job of this trainer, or load the model in a script."
        ) from error


def _origin(report: dict[str, Any]) -> str:
    """Return the origin of a model: the epoch of a training, or the number of models of an average."""
    parts = report.get("merged_from")
    return f"the average of {len(parts)} models" if parts else f"of epoch {report.get('exported_epoch')}"


def _check_network(report: dict[str, Any], config: Config) -> None:
    if report.get("merge_method", "average") != "average":  # merge/merge.py writes it
        raise InitialModelError(
            f"The initial model is a merge with the method {report['merge_method']}, but a training begins with the "
            "weights of one network. Set init_from to a merge with the method average, or to one of the merged jobs."
        )
    if report.get("model") != config.model:
        raise InitialModelError(
            f"The initial model is a {report.get('model')}, but the hyperparameter model is {config.model}. Set it to "
            f"{report.get('model')}."
        )
    if report.get("classes") != config.classes and not config.new_head:
        raise InitialModelError(
            f"The initial model has {report.get('classes')} classes, but the hyperparameter classes is "
            f"{config.classes}. Set it to {report.get('classes')}, or set new_head to true to begin with a new last "
            "layer."
        )


def _last_layer(model: tf.keras.Model) -> list[tf.Variable]:
    """Return the variables of the last layer with weights, whose shape depends on the number of classes."""
    variables: list[tf.Variable] = next(layer.variables for layer in reversed(model.layers) if layer.variables)
    return variables
