"""Spot policy: when a job with a deadline changes its instances or its Region, by the work that it has left.

The decision is a pure function of the line, its item in the ledger and the time, so every child of the line decides the
same. This module reads the situation from the ledger; `traingrid.job.spot_decision` decides. Before a job changes its
Region, two facts from outside its item are read: whether another job has found no capacity there, and whether its
newest checkpoint can be copied to there. Without an answer the job stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from traingrid.child.spot_history import request_age, spot_place, use_of, vain_rounds
from traingrid.job.backend_traits import DEFAULT_BACKEND
from traingrid.job.candidates import Candidate, candidates_of
from traingrid.job.failures import DEADLINE, RETURN_TO_SPOT, SPOT_ELSEWHERE
from traingrid.job.spot_decision import (
    LOOK_SECONDS,
    RESTART_SECONDS,
    Choice,
    Decision,
    Instances,
    Situation,
    SpotPlace,
    decision,
    sentence,
)
from traingrid.ledger.timestamps import epoch_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.child.capacity import Capacity
    from traingrid.job.failures import Failure
    from traingrid.job.job import Job
    from traingrid.ledger.items import JobItem

_UNKNOWN_DOLLARS = 1.0
"""The price of an instance-hour on demand, if a line has no prices. It only matters for whether the transfer of a
checkpoint pays."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of a job, in seconds of training.

    Attributes:
        left: The training that remains, as far as its progress shows.
        lost: The training that an interruption undoes: now, if the job trains on spot instances; otherwise at most.
    """

    left: float
    lost: float


def may_leave_spot(job: Job) -> bool:
    """Return True if the policy applies: a spot job with a deadline.

    Jobs of service queues keep their spot instances, because on-demand instances may not be part of their share.
    """
    return job.spot and bool(job.finish_by) and job.launch == "direct"


class Transfer(NamedTuple):
    """The transfer of a job's newest checkpoint to another Region; of nothing, if the job has no checkpoint yet."""

    seconds: float = 0.0
    dollars: float = 0.0


class Change(NamedTuple):
    """A change of the instances of a job, or of its Region.

    Attributes:
        failure: The failure class with which the current attempt ends.
        reason: The reason, as a sentence.
        region: The Region of the next attempt.
    """

    failure: Failure
    reason: str
    region: str


@dataclass(frozen=True, kw_only=True)
class SpotPolicy:
    """The decisions of one attempt.

    Attributes:
        job: The job of the attempt's Region, with the spot instances of its line.
        capacity: The known shortages.
        find_transfer: Returns the transfer of the newest checkpoint to a Region; None if the job cannot continue there.
    """

    job: Job
    capacity: Capacity
    find_transfer: Callable[[str], Transfer | None] = lambda _: None
    _transfers: dict[tuple[str, bool], Transfer | None] = field(default_factory=dict, init=False)

    def change(self, item: JobItem, *, runs: bool = False, lacks_capacity: bool = False) -> Change | None:
        """Return the change that a job should make now; None if it stays as it is.

        A job returns to spot instances only if its training reports its progress, and so has checkpoints.

        Args:
            runs: Whether its training job has its instances.
            lacks_capacity: Whether its Region is known to have no spot instances at the moment.
        """
        if not may_leave_spot(self.job) or (item.on_demand and not (runs and "epoch" in item.progress)):
            return None
        decided, situation = self._decided(item, runs=runs, lacks_capacity=lacks_capacity)
        if item.on_demand:
            failure, stays = RETURN_TO_SPOT, decided.choice is Choice.ON_DEMAND
        elif decided.choice is Choice.ON_DEMAND:
            failure, stays = DEADLINE, False
        else:
            failure, stays = SPOT_ELSEWHERE, decided.choice is not Choice.ELSEWHERE
        return None if stays else Change(failure, sentence(decided, situation, self.job.finish_by), decided.place)

    def _decided(self, item: JobItem, *, runs: bool, lacks_capacity: bool) -> tuple[Decision, Situation]:
        """Return the decision after all facts about the place that it names are known."""
        situation = situation_of(self.job, item, self.capacity.attempt.clock.wall(), runs=runs)
        known_places = set[str]()
        if situation.use is Instances.SPOT or not (situation.alternatives or item.on_demand):
            return decision(situation), situation
        while (decided := decision(situation)).choice is not Choice.ON_DEMAND and decided.place not in known_places:
            known_places.add(decided.place)
            if decided.place != item.region:
                alternatives = (self._other(place, decided.place, item) for place in situation.alternatives)
                situation = replace(situation, alternatives=tuple(filter(None, alternatives)))
            elif lacks_capacity or self.capacity.is_missing(item.region, spot=True, unless_due=item.is_unrequested):
                situation = replace(situation, current=replace(situation.current, has_capacity=False))
        return decided, situation

    def _other(self, place: SpotPlace, name: str, item: JobItem) -> SpotPlace | None:
        """Return a place, that with the name with its transfer, or None if the job cannot use that one now.

        A job that has waited in vain may test a Region of which no job knows more now, and its request there does the
        same; one that has not sent its request yet tests its own. The transfer is read once for an attempt that waits,
        and once after it has trained.
        """
        if place.name != name:
            return place
        if self.capacity.is_missing(name, spot=True, unless_due=not item.is_unrequested):
            return None
        if Candidate(name) not in self.capacity.attempt.uncancelled():
            return None
        key = (name, item.may_have_trained)
        if key not in self._transfers:
            self._transfers[key] = self.find_transfer(name)
        if (transfer := self._transfers[key]) is None:
            return None
        return replace(place, transfer_seconds=transfer.seconds, transfer_dollars=transfer.dollars)


def job_until_deadline(job: Job, item: JobItem) -> Job:
    """Return the same job with a limit that ends a wait at its deadline, also without a child.

    A training that begins before the deadline gets its whole `max_runtime`, because the limit includes the time of the
    training (MaxWaitTimeInSeconds in
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StoppingCondition.html): a training that is only a
    little late must not begin again. The limit follows from the ledger, so every child sends the same request.
    """
    if not may_leave_spot(job):
        return job
    seconds = epoch_seconds(job.finish_by) - epoch_seconds(item.opened_at)
    limit = min(job.max_wait_seconds, max(0, seconds) + job.max_runtime_seconds)
    return job.model_copy(update={"max_wait_seconds": limit})


def situation_of(job: Job, item: JobItem, now: float, *, runs: bool = False) -> Situation:
    """Return the situation of a job with a deadline. It may move to SageMaker in its other Regions.

    Args:
        now: The time in seconds since 1970.
        runs: Whether its training job has its instances.
    """
    work, (use, lasted) = work_of(job, item, runs=runs), use_of(item, now, runs=runs)
    candidates = [place for place in candidates_of(job) if place.backend == item.backend == DEFAULT_BACKEND]
    return Situation(
        left=work.left,
        lost=work.lost,
        until=epoch_seconds(job.finish_by) - now,
        restart=RESTART_SECONDS,
        look=LOOK_SECONDS,
        use=use,
        lasted=lasted,
        request_age=request_age(item, now),
        vain_rounds=vain_rounds(item, len(candidates) or 1),
        current=spot_place(job, item, now, item.candidate, runs=runs),
        alternatives=tuple(
            spot_place(job, item, now, place, runs=runs) for place in candidates if place.region != item.region
        ),
        dollars_per_hour=(job.dollars_per_hour or _UNKNOWN_DOLLARS) * job.instance_count,
    )


def work_of(job: Job, item: JobItem, *, runs: bool = False) -> Work:
    """Return the work of a job, from the epochs that the ledger records.

    A training that does not report epochs, or keeps no checkpoints, may have to begin again after an interruption, so
    it needs its whole duration twice. Attempts in other Regions count if their checkpoints were copied. The last epoch
    of a script does not count, because it may be one that begins.

    Args:
        runs: Whether its training job has its instances.
    """
    duration = float(job.estimated_runtime_seconds or job.max_runtime_seconds)
    lost = job.epochs_at_risk
    if not lost:
        return Work(left=duration, lost=duration)
    last_epoch, pace = _last_epoch(job, item)
    uncertain_epochs = 1 if job.source else 0
    trained = min(max(int(min(last_epoch, job.epochs)) - uncertain_epochs, 0), job.epochs)
    if runs and not item.on_demand and "epoch" in item.progress:
        lost = trained % (lost - uncertain_epochs)
    seconds = pace or duration / job.epochs
    return Work(left=(job.epochs - trained) * seconds, lost=lost * seconds)


def _last_epoch(job: Job, item: JobItem) -> tuple[float, float]:
    """Return the last epoch from which the training continues, and the seconds of an epoch; 0 if they are not known."""
    paces = [item.epoch_seconds, *(attempt.epoch_seconds for attempt in reversed(item.tried))]
    pace = next((seconds for seconds in paces if seconds), 0.0)
    if "epoch" in item.progress:
        return item.progress["epoch"], pace
    regions = {job.region, item.checkpoint_from}
    for attempt in reversed(item.tried):
        if attempt.region in regions:
            if attempt.epoch:
                return attempt.epoch, pace
            regions.add(attempt.checkpoint_from)
    return 0, pace
