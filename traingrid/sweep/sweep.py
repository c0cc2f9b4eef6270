"""Sweep: one step at a time from the journal and the grid's jobs to the next decisions.

Every decision is in the journal before it has an effect, and every effect can be repeated: a manifest is uploaded to a
key that S3 creates only once, and a cancel is idempotent. A process that ends at any point, or a second one that runs
at the same time, therefore trains no trial twice and loses none.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from traingrid.errors import TraingridError
from traingrid.job.state import UNLAUNCHED_STATES, JobState
from traingrid.manifest.json_lines import json_lines
from traingrid.submission.journal import Begun, JournalMovedError, Rejected, Submitted, check_identity, until_recorded
from traingrid.submission.journaled_jobs import ManifestRejectedError
from traingrid.submission.status import UNREADABLE, JobStatus
from traingrid.sweep.journal import Ended, NewTrial, OutOfBudget, TrialBatch
from traingrid.sweep.median_rule import early_stops
from traingrid.sweep.state import SweepState, Trial, free_numbers, state_of
from traingrid.sweep.strategies import next_parameters
from traingrid.sweep.trial_lines import key_of, name_of, trial_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traingrid.submission.journal import Journal
    from traingrid.sweep.journal import Entry
    from traingrid.sweep.spec import SweepSpec
    from traingrid.sweep.trial_jobs import TrialJobs

logger = logging.getLogger(__name__)
_MIN_BUDGET = 0.01
"""US dollars. A smaller remainder of the budget starts no trial."""


@dataclass(frozen=True, kw_only=True)
class SweepProgress:
    """A sweep after a step.

    Attributes:
        state: Its trials.
        jobs: The jobs of the open trials, by the number of the trial.
        ended: True if no trial is open and none will follow.
    """

    state: SweepState
    jobs: Mapping[int, JobStatus]
    ended: bool


@dataclass(kw_only=True)
class Sweep:
    """A sweep of a grid.

    Attributes:
        lines: Its base lines, with the URIs of packed sources.
    """

    spec: SweepSpec
    lines: list[Mapping[str, Any]]
    journal: Journal[Entry]
    grid: TrialJobs
    _state: SweepState = field(default_factory=SweepState, init=False)
    _dollars: float = field(default=0.0, init=False)

    def begin(self) -> SweepState:
        """Read the journal, or begin it, and return the state.

        Raises:
            UsageError: A sweep of this name has another specification, or the first trials are invalid.
        """
        self._state = state_of(self.journal.refresh())
        if self._state.spec is None:
            self.grid.check(self._batch(self._new_trials({}, self._room(0))).manifest.encode())
            with suppress(JournalMovedError):
                self._append(Begun.of(self.spec.identity(self.lines)))
            self._state = state_of(self.journal.refresh())
        self._check_identity()
        return self._state

    def step(self) -> SweepProgress:
        """Record ended trials, stop and submit others, and return the progress.

        Raises:
            TraingridError: The intake has rejected a batch, or AWS does not answer.
        """
        return until_recorded(self._step)

    def next_trials(self) -> list[NewTrial]:
        """Return the trials that the next step would submit, if no open trial ends before it; writes nothing.

        Raises:
            UsageError: A sweep of this name has another specification.
        """
        self._state = state = state_of(self.journal.refresh())
        if state.spec is not None:
            self._check_identity()
        return self._new_trials({}, self._room(len(state.open)))

    def _step(self) -> SweepProgress:
        self._state = state_of(self.journal.refresh())
        self._submit_batches()
        jobs = self._open_jobs()
        self._record_ended(jobs)
        jobs = {number: job for number, job in jobs.items() if not job.ended}
        self._stop_early(jobs)
        self._enforce_budget(jobs)
        if new := self._new_trials(jobs, self._room(len(self._state.open))):
            batch = self._batch(new)
            self.grid.check(batch.manifest.encode())
            self._append(batch)
            self._submit_batches()
        return SweepProgress(state=self._state, jobs=jobs, ended=not self._state.open)

    def _check_identity(self) -> None:
        step = "Restore them (also the files of source folders), or write another `name:` into the spec."
        own, recorded = self.spec.identity(self.lines), self._state.spec or {}
        check_identity(own, recorded, f"The sweep {self.spec.name} exists", step)

    def _append(self, entry: Entry) -> None:
        self.journal.append(entry)
        self._state = state_of(self.journal.entries)

    def _submit_batches(self) -> None:
        """Submit the batches of which the journal does not record that they were submitted."""
        for number, batch in self._state.batches.items():
            try:
                submission = self.grid.submit(key_of(self.spec, number, batch), batch.manifest.encode())
            except ManifestRejectedError as error:
                self._append(Rejected(batch=number))
                raise error.error from None
            self._append(Submitted(batch=number, submission=submission))

    def _open_jobs(self) -> dict[int, JobStatus]:
        """Return the jobs of the open trials; one that cannot be read has failed."""
        open_jobs: dict[int, JobStatus] = {}
        by_name = {name_of(self.spec, trial.number): trial for trial in self._state.open}
        for submission in dict.fromkeys(trial.submission for trial in self._state.open):
            trials = {name: trial for name, trial in by_name.items() if trial.submission == submission}
            jobs = self.grid.jobs(submission)
            nameless = [job for job in jobs if job.phase == UNREADABLE and job.name not in trials]
            job_by_trial = {job.name: job for job in jobs if job.name in trials}
            # Which of the nameless jobs belongs to which trial is not known, and makes no difference: all have failed.
            for name, job in zip_longest(sorted(trials.keys() - job_by_trial.keys()), nameless):
                if name:
                    job_by_trial[name] = job or _lost_job(name, trials[name].region)
            open_jobs |= {trials[name].number: _failed_if_unreadable(job) for name, job in job_by_trial.items()}
        return open_jobs

    def _record_ended(self, jobs: Mapping[int, JobStatus]) -> None:
        ended = {number: job for number, job in jobs.items() if job.ended}
        readable = {number: job for number, job in ended.items() if job.phase != UNREADABLE}
        curves = self._curves(readable) if readable else {}
        for number, job in ended.items():
            entry = Ended(
                trial=number,
                index=job.index,
                state=str(job.state),
                region=job.region,
                value=_finite(job.metrics.get(self.spec.objective.metric)),
                metrics=tuple(sorted(job.metrics)),
                curve=tuple(curves.get(number, ())),
                seconds=job.seconds,
                dollars=job.dollars,
                reason=job.reason,
                has_model=bool(job.artifact),
            )
            self._append(entry)

    def _curves(self, jobs: Mapping[int, JobStatus]) -> dict[int, Sequence[tuple[int, float]]]:
        """Return the curves of some trials. They are only needed for early stopping, and each read costs requests."""
        if self.spec.early_stopping is None:
            return {}
        curves: dict[int, Sequence[tuple[int, float]]] = {}
        for submission in dict.fromkeys(self._state.trials[number].submission for number in jobs):
            indexes = {
                job.index: number for number, job in jobs.items() if self._trial(number).submission == submission
            }
            read = self.grid.curves(submission, list(indexes), self.spec.objective.metric)
            curves |= {indexes[index]: curve for index, curve in read.items()}
        return curves

    def _known_curves(self, jobs: Mapping[int, JobStatus]) -> Mapping[int, Sequence[tuple[int, float]]]:
        """Return the curves of running trials; none if a Region does not answer, so that the sweep continues."""
        try:
            return self._curves(jobs)
        except TraingridError as error:
            logger.warning("No trial is stopped early now: %s", error)
            return {}

    def _stop_early(self, jobs: Mapping[int, JobStatus]) -> None:
        """Decide which running trials are stopped, and cancel those and the ones that an earlier process decided on."""
        rule = self.spec.early_stopping
        if rule is None:
            return
        running = {number: job for number, job in jobs.items() if not self._trial(number).stopped and job.created}
        complete = [trial.ended.curve for trial in self._state.complete if trial.ended]
        if len(complete) >= rule.min_trials:
            for decision in early_stops(rule, self.spec.objective, self._known_curves(running), complete):
                self._append(decision)
        for number, job in jobs.items():
            if (stopped := self._trial(number).stopped) and not job.cancelled:
                reason = (
                    f"sweep {self.spec.name}: {self.spec.objective.metric} {stopped.best:g} is worse than the median"
                )
                self.grid.cancel(self._trial(number).submission, job.index, f"{reason} {stopped.median:g}")

    def _enforce_budget(self, jobs: Mapping[int, JobStatus]) -> None:
        """Cancel all trials if they have cost the budget together."""
        budget = self.spec.budget_dollars
        if budget is None:
            return
        self._dollars = self._state.dollars + sum(job.dollars for job in jobs.values())
        if not self._state.is_out_of_budget(budget) and self._dollars > budget - _MIN_BUDGET:
            self._append(OutOfBudget(dollars=self._dollars, budget=budget))
        for number, job in jobs.items() if self._state.is_out_of_budget(budget) else ():
            if not job.cancelled:
                reason = f"sweep {self.spec.name}: the budget of ${budget:,.2f} is spent"
                self.grid.cancel(self._trial(number).submission, job.index, reason)

    def _room(self, open_trials: int) -> int:
        """Return the number of trials that may be submitted now."""
        state = self._state
        if state.is_out_of_budget(self.spec.budget_dollars) or state.is_hopeless(self.spec.parallel):
            return 0
        return max(min(self.spec.parallel - open_trials, self.spec.number_of_trials - len(state.trials)), 0)

    def _new_trials(self, jobs: Mapping[int, JobStatus], count: int) -> list[NewTrial]:
        """Return the next trials. Each uses the base line with the fewest waiting, then the fewest open trials."""
        trials = list(self._state.trials.values())
        waiting = Counter(self._trial(number).line for number, job in jobs.items() if job.state in UNLAUNCHED_STATES)
        open_ones = Counter(trial.line for trial in self._state.open)
        used = Counter(trial.line for trial in trials)
        new_trials: list[NewTrial] = []
        for number in free_numbers(self._state.trials, count):
            line = min(range(len(self.lines)), key=lambda index: (waiting[index], open_ones[index], used[index], index))
            open_ones[line] += 1
            used[line] += 1
            parameters = next_parameters(self.spec, number, trials, [trial.parameters for trial in new_trials])
            region = str(self.lines[line].get("region", ""))
            new_trials.append(NewTrial(number=number, line=line, region=region, parameters=parameters))
        return new_trials

    def _batch(self, trials: Sequence[NewTrial]) -> TrialBatch:
        lines = [
            trial_line(self.spec, self.lines[trial.line], trial.parameters) | {"name": name_of(self.spec, trial.number)}
            for trial in trials
        ]
        if self.spec.budget_dollars is not None:
            left = round(self.spec.budget_dollars - self._dollars, 2)
            lines = [line | {"budget_dollars": left} for line in lines]
        return TrialBatch(trials=tuple(trials), manifest=json_lines(lines))

    def _trial(self, number: int) -> Trial:
        return self._state.trials[number]


def _failed_if_unreadable(job: JobStatus) -> JobStatus:
    """Return a job whose item cannot be read as failed, so that no sweep waits for its end for ever."""
    return replace(job, state=JobState.FAILED) if job.phase == UNREADABLE else job


def _lost_job(name: str, region: str) -> JobStatus:
    reason = "The submission of the trial cannot be read."
    return JobStatus(index=0, region=region, name=name, state=JobState.PENDING, phase=UNREADABLE, reason=reason)


def _finite(value: float | None) -> float | None:
    """Return None for NaN and infinity: a diverged trial is not the best one, and JSON cannot represent them."""
    return value if value is not None and math.isfinite(value) else None
