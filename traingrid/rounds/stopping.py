"""Stopping: whether further rounds have stopped improving the global model, as a function of the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.metrics.ranking import is_lower_better
from traingrid.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.rounds.journal import GlobalModel
    from traingrid.rounds.spec import Stop


def rounds_without_improvement(models: Sequence[GlobalModel], stop: Stop) -> int:
    """Return the number of rounds since the last one whose global model was better than all before by `min_delta`.

    A round without the metric counts neither way.

    Args:
        models: The global models in the order of the rounds.
    """
    sign = -1 if is_lower_better(stop.metric) else 1
    best: float | None = None
    number = 0
    for model in models:
        value = model.metrics.get(stop.metric)
        if value is not None and (best is None or sign * (value - best) > stop.min_delta):
            best, number = value, 0
        elif value is not None:
            number += 1
    return number


def has_stopped(models: Sequence[GlobalModel], stop: Stop | None) -> bool:
    """Return True if no further round follows these global models."""
    return stop is not None and rounds_without_improvement(models, stop) >= stop.patience


def missing_sentence(models: Sequence[GlobalModel], stop: Stop | None) -> str:
    """Return which global models do not have the metric of the rule; empty if all have it."""
    without = [str(model.number) for model in models if stop and stop.metric not in model.metrics]
    if not without or not stop:
        return ""
    rounds = f"{'rounds' if len(without) > 1 else 'round'} {', '.join(without)}"
    return f"The global models of {rounds} have no {stop.metric}, so that `stop` does not count them."


def stop_sentence(models: Sequence[GlobalModel], stop: Stop) -> str:
    """Return why no round follows the last one."""
    rounds = counted(rounds_without_improvement(models, stop), "round")
    change = f"has not improved by more than {stop.min_delta:g}" if stop.min_delta else "has not improved"
    return f"No round follows round {models[-1].number}: {stop.metric} {change} in {rounds}."
