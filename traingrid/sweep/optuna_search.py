"""Optuna search: proposes hyperparameters with Optuna's tree-structured Parzen estimator, through ask-and-tell.

Each proposal asks a new study that contains the trials of the journal, so that a continued sweep proposes the same. The
study is in memory; Optuna's own storage is not used, because the journal already has all trials
(https://optuna.readthedocs.io/en/stable/tutorial/20_recipes/009_ask_and_tell.html).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.sweep.spec import Dimension, Parameters, SweepSpec
    from traingrid.sweep.state import Trial


def propose(spec: SweepSpec, seed: int, trials: Sequence[Trial], pending: Sequence[Parameters]) -> Parameters:
    """Return the hyperparameters that Optuna proposes.

    Args:
        trials: The trials of the journal. Those that have no result count as running, and failed ones not at all.
        pending: The trials that were chosen for the same batch.

    Raises:
        UsageError: Optuna is not installed.
    """
    optuna = _library()
    distributions = {name: _distribution(optuna, dimension) for name, dimension in spec.space.items()}
    # "constant_liar" keeps proposals away from running trials, which have no value yet.
    sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    study = optuna.create_study(direction=spec.objective.direction, sampler=sampler)
    states = optuna.trial.TrialState
    for trial in trials:
        arguments: dict[str, Any] = {"params": trial.parameters, "distributions": distributions}
        if trial.ended is None:
            study.add_trial(optuna.trial.create_trial(state=states.RUNNING, **arguments))
        elif trial.is_complete:
            study.add_trial(optuna.trial.create_trial(state=states.COMPLETE, value=trial.value, **arguments))
        elif trial.was_stopped_early and trial.ended.curve:
            arguments["intermediate_values"] = dict(trial.ended.curve)
            study.add_trial(optuna.trial.create_trial(state=states.PRUNED, value=trial.value, **arguments))
    for parameters in pending:
        arguments = {"params": parameters, "distributions": distributions}
        study.add_trial(optuna.trial.create_trial(state=states.RUNNING, **arguments))
    return dict(study.ask(distributions).params)


def _distribution(optuna: Any, dimension: Dimension) -> Any:
    if dimension.choices is not None:
        return optuna.distributions.CategoricalDistribution(tuple(dict.fromkeys(dimension.choices)))
    if dimension.whole is not None:
        return optuna.distributions.IntDistribution(*dimension.whole)
    low, high = dimension.log_range or dimension.range or (0.0, 0.0)
    return optuna.distributions.FloatDistribution(low, high, log=dimension.log_range is not None)


def _library() -> Any:
    """Return Optuna, which takes most of a second to import and is only needed by this strategy."""
    try:
        import optuna  # noqa: PLC0415  # the extra is seldom installed
    except ImportError as error:
        text = f"The strategy optuna requires the Python package {error.name}, which the extra `sweep` installs."
        raise UsageError(text, "In a checkout of traingrid, run: pip install '.[sweep]'.") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
