"""Initial weights: begins a training with the weights of the model that an earlier job exported (`init_from`)."""

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.contract.training_job import Folders
from training_container.recipe.config import TENSORFLOW, Config
from training_container.recipe.exported_model import check_network, origin_of, report_of
from training_container.script_api import initial_model


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
    report = report_of(folder)
    check_network(report, config, TENSORFLOW)
    skipped = {id(variable) for variable in _last_layer(model)} if config.new_head else set()
    reader = tf.train.load_checkpoint(str(folder / "1" / "variables" / "variables"))
    for number, variable in enumerate(model.variables):
        if id(variable) not in skipped:
            variable.assign(reader.get_tensor(f"model_variables/{number}/.ATTRIBUTES/VARIABLE_VALUE"))
    suffix = ", with a new last layer" if config.new_head else ""
    return f"Beginning with the weights of the initial model, {origin_of(report)}{suffix}."


def _last_layer(model: tf.keras.Model) -> list[tf.Variable]:
    """Return the variables of the last layer with weights, whose shape depends on the number of classes."""
    variables: list[tf.Variable] = next(layer.variables for layer in reversed(model.layers) if layer.variables)
    return variables
