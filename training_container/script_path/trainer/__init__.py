"""Script API: the package `trainer` of custom scripts: `from trainer import cluster, channels, checkpoints`.

If a script has its own folder `trainer`, that folder is earlier on the path, and hides this package.
"""

import importlib
from types import ModuleType

_MODULES = {
    "channels": "data.channels",
    "checkpoints": "checkpoints.checkpoints",
    "cluster": "cluster",
    "metric_lines": "reporting.metric_lines",
    "tensorboard": "reporting.tensorboard",
}
__all__ = ["channels", "checkpoints", "cluster", "metric_lines", "tensorboard"]


def __getattr__(name: str) -> ModuleType:
    """Import only the module that is requested: each takes seconds, because of TensorFlow."""
    if name not in __all__:
        raise AttributeError(f"trainer has no attribute {name!r}; it has: {', '.join(__all__)}.")
    return importlib.import_module(f"training_container.trainer.{_MODULES[name]}")
