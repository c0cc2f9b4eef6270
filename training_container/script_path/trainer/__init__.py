"""Script API: the package `trainer` of custom scripts: `from trainer import cluster, channels, checkpoints`.

For Horovod and TensorFlow: channels, checkpoints, cluster, tensorboard. For all scripts, with any launcher: ranks,
records, checkpoint_folders, initial_model, metrics, profiles, round_weights; with PyTorch, which they import,
torch_records and torch_checkpoints. The others import neither.

If a script has its own folder `trainer`, that folder is earlier on the path, and hides this package.
"""

import importlib
from types import ModuleType

_MODULES = {
    "channels": "trainer.data.channels",
    "checkpoint_folders": "script_api.checkpoint_folders",
    "checkpoints": "trainer.checkpoints.checkpoints",
    "cluster": "trainer.cluster",
    "initial_model": "script_api.initial_model",
    "metric_lines": "recipe.metric_lines",
    "metrics": "script_api.metrics",
    "profiles": "script_api.profiles",
    "ranks": "script_api.ranks",
    "records": "script_api.records",
    "round_weights": "script_api.round_weights",
    "tensorboard": "trainer.reporting.tensorboard",
    "torch_checkpoints": "script_api.torch_checkpoints",
    "torch_records": "script_api.torch_records",
}
__all__ = [
    "channels",
    "checkpoint_folders",
    "checkpoints",
    "cluster",
    "initial_model",
    "metric_lines",
    "metrics",
    "profiles",
    "ranks",
    "records",
    "round_weights",
    "tensorboard",
    "torch_checkpoints",
    "torch_records",
]


def __getattr__(name: str) -> ModuleType:
    """Import only the module that is requested: those with TensorFlow take seconds."""
    if name not in __all__:
        raise AttributeError(f"trainer has no attribute {name!r}; it has: {', '.join(__all__)}.")
    return importlib.import_module(f"training_container.{_MODULES[name]}")
