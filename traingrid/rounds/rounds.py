"""Rounds: one step at a time from the journal and the grid's jobs to the next decision.

Every decision is in the journal before it has an effect, and every effect can be repeated: a manifest is uploaded to a
key that S3 creates only once, and a copy of a model has a name that follows from its content. A process that ends at
any point, or a second one that runs at the same time, therefore counts no contribution twice and loses none.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from traingrid.job.state import JobState
from traingrid.manifest.json_lines import json_lines
from traingrid.rounds.absence import is_open, left_out, merge_error, missing_error, reason, too_few_error
from traingrid.rounds.journal import GlobalModel, RoundLines
from traingrid.rounds.state import Round, RoundsState, state_of
from traingrid.rounds.stopping import has_stopped
from traingrid.submission.journal import Begun, JournalMovedError, Rejected, Submitted, check_identity, until_recorded
from traingrid.submission.journaled_jobs import ManifestRejectedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.rounds.journal import Entry
    from traingrid.rounds.round_jobs import RoundJobs
    from traingrid.rounds.spec import RoundsSpec
    from traingrid.submission.journal import Journal
    from traingrid.submission.status import JobStatus

MIN_CONTRIBUTIONS = 2
"""A merge needs at least two models."""


@dataclass(frozen=True, kw_only=True)
class RoundsProgress:
    """Rounds after a step.

    Attributes:
        jobs: The jobs of the current round, or the job of its merge; none if all rounds have ended.
        ended: True if all rounds have a global model, or the rule `stop` has ended them.
    """

    state: RoundsState
    jobs: Sequence[JobStatus]
    ended: bool


@dataclass(kw_only=True)
class Rounds:
    """The rounds of a specification in a grid.

    Attributes:
        lines: The lines of a round without the fields that differ between rounds.
        clock: Returns the time in seconds since 1970.
    """

    spec: RoundsSpec
    lines: list[dict[str, Any]]
    journal: Journal[Entry]
    grid: RoundJobs
    clock: Callable[[], float] = time.time
    _state: RoundsState = field(default_factory=RoundsState, init=False)

    def begin(self) -> RoundsState:
        """Read the journal, or begin it, and return the state.

        Raises:
            UsageError: Rounds of this name have another specification, or the first lines are invalid.
        """
        if self.read().spec is None:
            with suppress(JournalMovedError):
                self.journal.append(Begun.of(self.spec.identity(self.lines)))
        return self.read()

    def read(self) -> RoundsState:
        """Return the state of the journal, with the same checks as `begin`; write nothing.

        Raises:
            UsageError: Rounds of this name have another specification, or the first lines are invalid.
        """
        self._refresh()
        if self._state.spec is None:
            self.grid.check(self.manifest_of(1).encode())
        else:
            work, step = f"The rounds {self.spec.name} exist", "Restore them, or write another `name:` into the file."
            check_identity(self.spec.identity(self.lines), self._state.spec, work, step)
        return self._state

    def is_over(self, state: RoundsState) -> bool:
        """Return True if no round follows the last global model."""
        return len(state.models) >= self.spec.rounds or has_stopped(state.models, self.spec.stop)

    def step(self) -> RoundsProgress:
        """Submit the next lines or the next merge if they are due, and return the progress.

        Raises:
            TraingridError: A round cannot continue without a person.
        """
        return until_recorded(self._step)

    def manifest_of(self, number: int) -> str:
        """Return the manifest of a round: its lines begin with the last global model, or all with the same seed."""
        start = self._start(number)
        return json_lines(
            [
                {
                    **line,
                    "name": f"{self.spec.name}-{number:03d}-{position}",
                    "tags": {"rounds": self.spec.name, **(line.get("tags") or {})},
                    "hp.epochs": self.spec.epochs,
                    "hp.seed": self.spec.seed + number - 1,
                    **({"init_from": start} if start else {}),
                }
                for position, line in enumerate(self.lines)
            ]
        )

    def _step(self) -> RoundsProgress:
        self._refresh()
        part = self._state.current
        if part is None and not self.is_over(self._state):
            part = self._begin_round(len(self._state.rounds) + 1)
        if part is None:
            return RoundsProgress(state=self._state, jobs=(), ended=True)
        if not part.submission:
            part = self._submit_lines(part)
        if part.merge is None:
            jobs: Sequence[JobStatus] = self.grid.jobs(part.submission)
            self._decide_merge(part, jobs)
        else:
            self._cancel_left_out(part)
            jobs = self._follow_merge(part)
        return RoundsProgress(state=self._state, jobs=jobs, ended=False)

    def _begin_round(self, number: int) -> Round:
        manifest = self.manifest_of(number)
        self.grid.check(manifest.encode())
        self._append(RoundLines(number=number, began_at=self.clock(), manifest=manifest))
        return self._state.rounds[number]

    def _submit_lines(self, part: Round) -> Round:
        digest = hashlib.sha256(part.lines.manifest.encode()).hexdigest()[:12]
        key = f"{self.spec.name}/{part.entry:06d}-{digest}.jsonl"  # a journal that is begun again has other keys
        try:
            submission = self.grid.submit(key, part.lines.manifest.encode())
        except ManifestRejectedError as error:
            self._append(Rejected(batch=part.entry))
            raise error.error from None
        self._append(Submitted(batch=part.entry, submission=submission))
        return self._state.rounds[part.number]

    def _decide_merge(self, part: Round, jobs: Sequence[JobStatus]) -> None:
        """Merge the models of a round when all of its jobs have ended, or when its time to wait is over."""
        missing = self.spec.missing
        is_late = missing.wait is not None and self.clock() >= part.lines.began_at + missing.wait
        if not jobs or (any(is_open(job) for job in jobs) and not is_late):
            return
        indexes = [job.index for job in jobs if not reason(job)]
        without = [left_out(job, missing.wait or 0) for job in jobs if reason(job)]
        absent = [region for region in without if not region.diverged]
        if absent and missing.then == "stop":
            raise missing_error(part, absent[0])
        if len(indexes) < MIN_CONTRIBUTIONS:
            raise too_few_error(part, without, MIN_CONTRIBUTIONS)
        self._append(self.grid.decide_merge(part, indexes, without, self._start(part.number)))

    def _cancel_left_out(self, part: Round) -> None:
        """Cancel the jobs whose models come too late for their round."""
        late = {region.index for region in part.merge.left_out} if part.merge else set()
        for job in self.grid.jobs(part.submission) if late else ():
            if job.index in late and not job.ended and not job.cancelled:
                reason = f"rounds {self.spec.name}: round {part.number} has continued without {job.region}"
                self.grid.cancel(part.submission, job.index, reason)

    def _follow_merge(self, part: Round) -> Sequence[JobStatus]:
        """Submit the merge of a round, or record its global model; return its job."""
        assert part.merge is not None  # noqa: S101  # for the type checker
        if not part.merge_submission:
            submission = self.grid.submit_merge(part, part.merge, self._start(part.number))
            self._append(Submitted(batch=part.merge_entry, submission=submission))
            return ()
        jobs = self.grid.jobs(part.merge_submission)
        for job in jobs:
            if job.state == JobState.COMPLETED and job.artifact:
                self._append(self._global_model(part, job))
            elif job.ended:
                raise merge_error(part, job)
        return jobs

    def _global_model(self, part: Round, job: JobStatus) -> GlobalModel:
        archive = self.grid.contribution(job)
        return GlobalModel(
            number=part.number,
            model=f"{part.merge_submission}/{job.index}",
            region=archive.region,
            artifact=archive.artifact,
            etag=archive.etag,
            size=archive.size,
            metrics={name: value for name, value in job.metrics.items() if math.isfinite(value)},
        )

    def _start(self, number: int) -> str:
        """Return the job with whose model a round begins."""
        previous = self._state.rounds.get(number - 1)
        return previous.model.model if previous and previous.model else self.spec.init_from

    def _refresh(self) -> None:
        self._state = state_of(self.journal.refresh())

    def _append(self, entry: Entry) -> None:
        self.journal.append(entry)
        self._state = state_of(self.journal.entries)
