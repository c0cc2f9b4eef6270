"""What a script of a user's finds as `trainer`: `from trainer import cluster, channels, checkpoints`.

A folder `trainer` of the script's own comes first on its path, and hides this one.
"""

import importlib
from types import ModuleType

__all__ = ["channels", "checkpoints", "cluster", "metric_lines", "tensorboard"]


def __getattr__(name: str) -> ModuleType:
    """Import what is asked for, and no more: each costs seconds of TensorFlow."""
    if name not in __all__:
        raise AttributeError(f"trainer has {', '.join(__all__)}, but no {name!r}.")
    return importlib.import_module(f"training_container.trainer.{name}")
