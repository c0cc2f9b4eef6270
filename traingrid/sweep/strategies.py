"""Strategies: choose the hyperparameters of a trial, as a pure function of specification, journal and trial number.

No sampler keeps a state that a killed process could lose: each draw starts a new generator, whose seed is that
of the sweep and the trial's number.
"""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

from traingrid.sweep.optuna_search import propose

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from traingrid.sweep.spec import Parameters, SweepSpec
    from traingrid.sweep.state import Trial

_DRAWS = 20
"""The number of draws after which a trial that differs from all others is searched in another way."""


def next_parameters(spec: SweepSpec, number: int, trials: Sequence[Trial], pending: Sequence[Parameters]) -> Parameters:
    """Return the hyperparameters of the next trial, which differ from those of all other trials.

    Args:
        spec: The specification; it has more combinations than there are trials.
        number: The number of the new trial.
        pending: The trials that were chosen for the same batch.
    """
    if spec.strategy == "grid":
        return spec.combination(number)
    tried = [*(trial.parameters for trial in trials), *pending]
    for draw in range(_DRAWS):
        seed = _seed(spec, number, draw)
        parameters = propose(spec, seed, trials, pending) if spec.strategy == "optuna" else _random(spec, seed)
        if parameters not in tried:
            return parameters
    return _unknown(spec, _seed(spec, number, _DRAWS), tried)


def _random(spec: SweepSpec, seed: int) -> Parameters:
    generator = random.Random(seed)  # noqa: S311  # a reproducible draw, not a secret
    return {name: dimension.sample(generator) for name, dimension in spec.space.items()}


def _unknown(spec: SweepSpec, seed: int, tried: Collection[Parameters]) -> Parameters:
    """Return a combination that no trial has, from a random one on."""
    if spec.combinations is None:
        return _random(spec, seed)
    numbers = [(seed + step) % spec.combinations for step in range(spec.combinations)]
    return next(parameters for number in numbers if (parameters := spec.combination(number)) not in tried)


def _seed(spec: SweepSpec, number: int, draw: int) -> int:
    """Return the seed of a draw, below 2**32 as NumPy requires."""
    digest = hashlib.sha256(f"{spec.seed}/{number}/{draw}".encode()).digest()
    return int.from_bytes(digest[:4], "big")
