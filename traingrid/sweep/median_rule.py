"""Median rule: decides which running trials are stopped early.

Google Vizier's and Optuna's median rules are alike (https://dl.acm.org/doi/10.1145/3097983.3098043, section 3.2.2;
https://optuna.readthedocs.io/en/stable/reference/generated/optuna.pruners.MedianPruner.html): this one compares best
values, as Optuna's.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from traingrid.sweep.journal import StoppedEarly

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traingrid.sweep.spec import EarlyStopping, Objective

    Curve = Sequence[tuple[int, float]]


def early_stops(
    rule: EarlyStopping, objective: Objective, running: Mapping[int, Curve], complete: Sequence[Curve]
) -> list[StoppedEarly]:
    """Return the decisions to stop running trials.

    Args:
        objective: Decides which values are better.
        running: Epoch and value of each running trial's metric, by the number of the trial.
        complete: Those of the trials that have trained to their end.
    """
    if len(complete) < rule.min_trials:
        return []
    stops = []
    for trial, curve in running.items():
        epoch = max((reached for reached, _ in curve), default=0)
        best = best_until(curve, epoch, objective)
        values = [
            value for complete_curve in complete if (value := best_until(complete_curve, epoch, objective)) is not None
        ]
        if best is None or epoch < rule.min_epochs or not values:
            continue
        middle = median(values)
        if objective.is_better(middle, best):
            stops.append(StoppedEarly(trial=trial, epoch=epoch, best=best, median=middle))
    return stops


def best_until(curve: Curve, epoch: int, objective: Objective) -> float | None:
    """Return the best value of a curve up to an epoch; None if it has none."""
    values = [value for reached, value in curve if reached <= epoch]
    return objective.best(iter(values)) if values else None
