"""Sweep state: the trials of a sweep, computed from its journal."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from traingrid.job.state import JobState
from traingrid.metrics.ranking import RankedJob
from traingrid.submission.journal import Begun, Rejected, Submitted
from traingrid.sweep.journal import Ended, Entry, OutOfBudget, StoppedEarly, TrialBatch
from traingrid.sweep.spec import Objective, Parameters

MIN_TRIALS_WITHOUT_VALUE = 3
"""The number of ended trials without a value before which no sweep gives up: with `parallel: 1`, one trial whose
learning rate is too high must not end it."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trial of a sweep.

    Attributes:
        number: Its number, from 0.
        parameters: Its searched hyperparameters.
        line: The position of its base line.
        region: The Region in which it trains.
        batch: The number of the journal's entry of its batch.
        submission: The id of its submission; empty before it is submitted.
        stopped: The early stop; None if it was not stopped early.
        ended: Its result; None while it waits or trains.
    """

    number: int
    parameters: Parameters
    line: int
    region: str
    batch: int
    submission: str = ""
    stopped: StoppedEarly | None = None
    ended: Ended | None = None

    @property
    def value(self) -> float | None:
        """The last value of the objective's metric, once it has ended."""
        return self.ended.value if self.ended else None

    @property
    def is_complete(self) -> bool:
        """True if it has trained to its end and reported the metric, so that a strategy learns from it."""
        return self.ended is not None and self.ended.state == JobState.COMPLETED and self.ended.value is not None

    @property
    def was_stopped_early(self) -> bool:
        """True if it has ended because of the early stop."""
        return self.stopped is not None and self.ended is not None and self.ended.state == JobState.STOPPED

    def ranked(self, metric: str) -> RankedJob:
        """Return the trial as it is ranked by its value of the objective's metric."""
        if self.ended is None:
            return RankedJob(state=JobState.PENDING, has_model=False, metric=metric)
        return RankedJob(
            state=self.ended.state,
            has_model=self.ended.has_model,
            reason=self.ended.reason,
            metric=metric,
            value=self.ended.value,
        )


@dataclass(frozen=True, kw_only=True)
class SweepState:
    """All trials of a sweep.

    Attributes:
        spec: The identity of the specification; None before the sweep begins.
        trials: The trials, by number.
        batches: The batches that are neither submitted nor rejected, by the number of their entry.
        spent_budget: The highest budget that the trials have cost; None if they have cost none.
    """

    spec: Mapping[str, Any] | None = None
    trials: Mapping[int, Trial] = field(default_factory=dict)
    batches: Mapping[int, TrialBatch] = field(default_factory=dict)
    spent_budget: float | None = None

    @property
    def open(self) -> list[Trial]:
        """The trials that have not ended."""
        return [trial for trial in self.trials.values() if trial.ended is None]

    @property
    def complete(self) -> list[Trial]:
        """The trials that have trained to their end and reported the metric."""
        return [trial for trial in self.trials.values() if trial.is_complete]

    @property
    def dollars(self) -> float:
        """The cost of the trials that have ended."""
        return sum(trial.ended.dollars for trial in self.trials.values() if trial.ended)

    def best(self, objective: Objective) -> Trial | None:
        """Return the completed trial with a model and the best value, of equal ones the first, or None."""
        ordered = best_first(self.trials.values(), objective)
        return next((trial for trial in ordered if not trial.ranked(objective.metric).exclusion), None)

    def is_out_of_budget(self, budget: float | None) -> bool:
        """Return True if the trials have cost a budget. A higher one, or none, lets the sweep continue."""
        return self.spent_budget is not None and budget is not None and budget <= self.spent_budget

    def is_hopeless(self, parallel: int) -> bool:
        """Return True if many trials have ended and none has a value, so that new ones would only cost money.

        Args:
            parallel: The number of ended trials from which on this is decided, at least `MIN_TRIALS_WITHOUT_VALUE`.
        """
        ended = [trial for trial in self.trials.values() if trial.ended]
        enough = len(ended) >= max(parallel, MIN_TRIALS_WITHOUT_VALUE)
        return enough and all(trial.value is None for trial in ended)


def state_of(entries: Sequence[Entry]) -> SweepState:
    """Return the state after all entries of a journal."""
    spec: Mapping[str, Any] | None = None
    trials: dict[int, Trial] = {}
    batches: dict[int, TrialBatch] = {}
    spent: float | None = None
    for number, entry in enumerate(entries):
        match entry:
            case Begun():
                spec = entry.spec
            case TrialBatch():
                batches[number] = entry
                trials |= {trial.number: _new(number, entry, trial.number) for trial in entry.trials}
            case Submitted():
                numbers = [trial.number for trial in batches.pop(entry.batch).trials]
                trials |= {
                    trial_number: replace(trials[trial_number], submission=entry.submission) for trial_number in numbers
                }
            case Rejected():
                for trial in batches.pop(entry.batch).trials:
                    del trials[trial.number]
            case StoppedEarly():
                trials[entry.trial] = replace(trials[entry.trial], stopped=entry)
            case Ended():
                trials[entry.trial] = replace(trials[entry.trial], ended=entry, region=entry.region)
            case OutOfBudget():
                spent = max(entry.budget, spent or 0.0)
    return SweepState(spec=spec, trials=dict(sorted(trials.items())), batches=batches, spent_budget=spent)


def best_first(trials: Iterable[Trial], objective: Objective) -> list[Trial]:
    """Return trials in the order of `traingrid compare`: the best first, those that failed or were stopped last."""
    return sorted(trials, key=lambda trial: trial.ranked(objective.metric).order(lowest=objective.is_lower_better))


def free_numbers(used_numbers: Iterable[int], count: int) -> list[int]:
    """Return the lowest numbers that no trial has; those of rejected trials are free again."""
    used = set(used_numbers)
    return list(itertools.islice((number for number in itertools.count() if number not in used), count))


def _new(batch: int, entry: TrialBatch, number: int) -> Trial:
    (new,) = (trial for trial in entry.trials if trial.number == number)
    return Trial(number=number, parameters=new.parameters, line=new.line, region=new.region, batch=batch)
