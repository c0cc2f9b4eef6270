"""Time of one module: tests replace its clock or its pauses there, so that other threads keep the real ones."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest


def replace_time(monkeypatch: pytest.MonkeyPatch, module: str, **functions: Callable[..., Any]) -> None:
    """Replace functions of `time` in one module that imports it.

    Args:
        monkeypatch: Restores them.
        module: The module's name.
        functions: The replacements, by name, e.g. `sleep`.
    """
    real = {name: getattr(time, name) for name in dir(time) if not name.startswith("_")}
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(**real | functions))
