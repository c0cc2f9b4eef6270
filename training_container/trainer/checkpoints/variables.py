"""Variables: copies the variables of tracked objects to host memory, and writes and reads TensorFlow's files of them.

`tf.train.Checkpoint.write` reads the variables and writes the files. Here these are two steps, of which a thread can do
the second. Its own option for this (`enable_async`) traces a function of all variables in the second checkpoint, which
takes two seconds for a ResNet-50, and keeps the variables of the first one, although optimizers create theirs later.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.checkpoint.functional_saver import MultiDeviceSaver
from tensorflow.python.training.saving.saveable_object import SaveSpec
from tensorflow.python.util.object_identity import ObjectIdentityDictionary


class Variables:
    """The variables of tracked objects.

    Args:
        tracked: The objects by name, as for `tf.train.Checkpoint`. Objects may be added later.
    """

    def __init__(self, tracked: Mapping[str, Any]) -> None:
        self._tracked = tracked
        self._names: list[tuple[str, ...]] = []
        self._objects: list[Any] = []
        self._readers: tuple[Any, Any] | None = None

    def copy(self) -> Callable[[Path], object]:
        """Copy all values to host memory, and return a function that writes them to files with a prefix.

        On a processor TensorFlow copies a value only once the training changes it.
        """
        readers, savers = self._value_readers()
        values = ObjectIdentityDictionary()
        with tf.device("CPU:0"):
            for tracked_object, reader_by_name in readers.items():
                values[tracked_object] = _values(tracked_object, reader_by_name)
        return lambda prefix: MultiDeviceSaver(values, savers).save(tf.constant(str(prefix)))

    def read(self, prefix: Path) -> None:
        """Load values from files with a prefix.

        Raises:
            AssertionError, ValueError, tf.errors.OpError: They belong to other objects.
        """
        build_optimizers(self._tracked)
        status = tf.train.Checkpoint(**self._tracked).read(str(prefix))
        status.expect_partial()  # otherwise it logs at exit what assert_consumed() reports
        status.assert_consumed()

    def broadcastable(self) -> list[Any]:
        """Return each variable once: the moving average may contain a model's weights, too."""
        variables = {id(variable): variable for entry in self._tracked.values() for variable in _variables(entry)}
        return list(variables.values())

    def _value_readers(self) -> tuple[Any, Any]:
        """Return the readers of values, by object and name, and the savers of objects that have one.

        Collecting them takes longer than reading, so they are collected again only if the objects have changed.
        """
        checkpoint = tf.train.Checkpoint(**self._tracked)
        names, objects = _graph(checkpoint)
        if self._readers is None or names != self._names or list(map(id, objects)) != list(map(id, self._objects)):
            readers, _, savers, _ = checkpoint._saver._gather_serialized_tensors()  # there is no public function
            by_object = [by_name for tracked_object, by_name in readers.items() if tracked_object is not None]
            if not all(isinstance(reader, SaveSpec) for reader in tf.nest.flatten(by_object)):
                return readers, savers  # some are values already, for example the rows of a table
            self._names, self._objects, self._readers = names, objects, (readers, savers)
        return self._readers


def build_optimizers(tracked: Mapping[str, Any]) -> None:
    """Build Keras optimizers if there is exactly one model. Optimizers that are already built do not change."""
    models = [entry for entry in tracked.values() if isinstance(entry, tf.keras.Model) and entry.built]
    for entry in tracked.values():
        if isinstance(entry, tf.keras.optimizers.Optimizer) and len(models) == 1:
            entry.build(models[0].trainable_variables)


def _graph(root: Any) -> tuple[list[tuple[str, ...]], list[Any]]:
    """Return the names of the parts of each object, and the parts and variables, on which stored names depend.

    Older optimizers name the variable of each weight by the weight, and not as their own part.
    """
    view = tf.train.TrackableView(root)
    names, objects = [], []
    for parent in view.descendants():
        parts = view.children(parent)
        names.append(tuple(parts))
        objects += [*parts.values(), *(_variables(parent) if hasattr(parent, "get_slot_names") else ())]
    return names, objects


def _values(tracked_object: Any, reader_by_name: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(tracked_object, tf.Variable) and len(reader_by_name) == 1:  # three times as fast as its reader
        return dict.fromkeys(reader_by_name, tf.identity(tracked_object.value()))
    value_by_name = tf.nest.map_structure(
        lambda reader: reader.tensor if isinstance(reader, SaveSpec) else reader, dict(reader_by_name)
    )
    return {name: value for name, value in value_by_name.items() if value is not None}  # of objects without a value


def _variables(entry: Any) -> list[Any]:
    if isinstance(entry, tf.Variable):
        return [entry]
    variables = getattr(entry, "variables", None)
    if variables is None:
        state = getattr(entry, "state", None)  # of a tf.random.Generator
        return [state] if isinstance(state, tf.Variable) else []
    return list(variables() if callable(variables) else variables)
