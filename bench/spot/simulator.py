"""Simulator: one job with a deadline over recorded or synthetic spot capacity, under a rule.

Time advances by the interval of the capacity's samples. A restart costs time on every start, on spot instances and on
demand, which is billed; waiting is not billed.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from traingrid.job.spot_decision import Choice, Decision, Instances, Situation, SpotPlace

PRICE = 0.30
"""The price of spot instances as a share of the price on demand, as in "Can't Be Late" (NSDI 2024)."""
DOLLARS_PER_HOUR = 3.825
"""ml.p3.2xlarge on demand in us-east-1, the instance type of the traces
(https://aws.amazon.com/sagemaker/ai/pricing/)."""
_NAMES = "012345678"
_STRIDE = 16
Rule = Callable[[Situation], Decision]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A rule that is measured.

    Attributes:
        rule: Returns the rule for a job.
        sees: Whether it sees where there is spot capacity, without a request.
    """

    title: str
    rule: Callable[["Job"], Rule]
    sees: bool = False


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job with a deadline. Times are in seconds.

    Attributes:
        work: Its duration without interruptions.
        deadline: The time until its deadline at its start.
        gap: The interval of the samples of capacity.
        checkpoint_every: The training between two checkpoints, of which an interruption undoes the last part.
        gigabytes: The size of its checkpoint.
        nodes: The number of its instances.
    """

    work: float
    deadline: float
    restart: float
    gap: float
    checkpoint_every: float = 0.0
    gigabytes: float = 0.2
    nodes: int = 1

    @property
    def dollars_per_hour(self) -> float:
        """The price on demand of all its instances."""
        return self.nodes * DOLLARS_PER_HOUR

    @property
    def transfer_dollars(self) -> float:
        """The cost of a transfer of its checkpoint, at $0.02 per GB (https://aws.amazon.com/ec2/pricing/on-demand/)."""
        return 0.02 * self.gigabytes

    @property
    def transfer_seconds(self) -> float:
        """The time of a transfer of its checkpoint, at an assumed 0.2 GB/s."""
        return 5 * self.gigabytes


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of a job.

    Attributes:
        cost: Its cost as a share of that of the same training on demand without restarts, with transfers.
        is_late: Whether it ended after its deadline.
        starts: How often it started instances.
        returns: How often it returned from on demand to spot instances.
        moves: How often it changed its Region.
        transfer_dollars: The cost of the transfers of its checkpoint.
    """

    cost: float
    is_late: bool
    starts: int
    returns: int
    moves: int
    transfer_dollars: float


def lower_bound(job: Job, capacity: Sequence[bytes]) -> float:
    """Return the cost of a job that knows the future and restarts at no cost, as a share of that on demand."""
    samples = int(job.deadline // job.gap)
    available = sum(any(samples_now) for samples_now in zip(*(place[:samples] for place in capacity), strict=True))
    on_spot = min(job.work, available * job.gap)
    return (PRICE * on_spot + job.work - on_spot) / job.work


@dataclass(kw_only=True)
class Run:
    """A job while it runs.

    Attributes:
        capacity: Whether each place has capacity, for each sample.
        rule: The rule for this job.
    """

    job: Job
    capacity: Sequence[bytes]
    rule: Rule
    measured: Measured
    left: float = field(init=False)
    sample: int = field(init=False, default=0)
    now: float = field(init=False, default=0.0)
    place: int = field(init=False, default=0)
    use: Instances = field(init=False, default=Instances.NONE)
    since: float = field(init=False, default=0.0)
    asked_at: float = field(init=False, default=0.0)
    warm: float = field(init=False, default=0.0)
    at_risk: float = field(init=False, default=0.0)
    cost: float = field(init=False, default=0.0)
    starts: int = field(init=False, default=0)
    returns: int = field(init=False, default=0)
    moves: int = field(init=False, default=0)
    vain_moves: int = field(init=False, default=0)
    ran: list[float] = field(init=False)
    waited: list[float] = field(init=False)
    missing_at: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.job.work
        self.ran, self.waited = [0.0] * len(self.capacity), [0.0] * len(self.capacity)
        self.missing_at = [-math.inf] * len(self.capacity)

    def run(self) -> Outcome:
        """Run the job to its end."""
        end = 0.0
        while self.left > 0:
            if self.use is Instances.SPOT and not self.has_capacity(self.place):
                self._lose()
            decided = self.rule(self.situation())
            self._follow(decided)
            end = self._advance(self._spell(decided.choice))
        job, transfers = self.job, self.moves * self.job.transfer_dollars
        on_demand = job.work / 3600 * job.dollars_per_hour
        return Outcome(
            cost=self.cost / job.work + transfers / on_demand,
            is_late=end > job.deadline + 1,
            starts=self.starts,
            returns=self.returns,
            moves=self.moves,
            transfer_dollars=transfers,
        )

    def has_capacity(self, place: int) -> bool:
        """Return True if a place has capacity now."""
        return bool(self.capacity[place][self.sample])

    def situation(self) -> Situation:
        """Return the situation as the rule sees it."""
        places = [self._spot_place(place) for place in range(len(self.capacity))]
        current = places.pop(self.place)
        job = self.job
        return Situation(
            left=self.left,
            lost=job.checkpoint_every,
            until=job.deadline - self.now,
            restart=job.restart,
            look=job.gap,
            use=self.use,
            lasted=self.now - self.since,
            request_age=self.now - self.asked_at,
            vain_rounds=self.vain_moves // len(self.capacity),
            current=current,
            alternatives=tuple(places),
            dollars_per_hour=job.dollars_per_hour,
        )

    def _spot_place(self, place: int) -> SpotPlace:
        moves = place != self.place
        return SpotPlace(
            name=_NAMES[place],
            price=PRICE,
            ran=self.ran[place],
            waited=self.waited[place],
            missing_since=self.now - self.missing_at[place],
            has_capacity=self.has_capacity(place) if self.measured.sees else None,
            transfer_seconds=self.job.transfer_seconds if moves else 0.0,
            transfer_dollars=self.job.transfer_dollars if moves else 0.0,
        )

    def _lose(self) -> None:
        """Lose the spot instances, and the training since the last checkpoint."""
        self.left += self.at_risk
        self.use, self.warm, self.at_risk = Instances.NONE, 0.0, 0.0
        self.since = self.asked_at = self.now

    def _follow(self, decided: Decision) -> None:
        if decided.choice is Choice.ON_DEMAND:
            if self.use is not Instances.ON_DEMAND:
                self._start(Instances.ON_DEMAND)
            return
        if self.use is Instances.SPOT and decided.choice is Choice.SPOT:
            return
        if self.use is Instances.ON_DEMAND:
            self.returns += 1
            self.use, self.since, self.asked_at = Instances.NONE, self.now, self.now
        transfer = 0.0
        if decided.choice is Choice.ELSEWHERE:
            self.place, transfer = int(decided.place), self.job.transfer_seconds
            self.moves += 1
            self.vain_moves += 1
            self.asked_at = self.now
        if decided.choice is not Choice.WAIT and self.has_capacity(self.place):
            self._start(Instances.SPOT, transfer)

    def _start(self, use: Instances, transfer: float = 0.0) -> None:
        self.use, self.since, self.warm = use, self.now, self.job.restart + transfer
        self.vain_moves = 0
        self.starts += 1

    def _spell(self, choice: Choice) -> int:
        """Return the samples until the next decision that can differ: capacity, or the choice of the rule, changes.

        Of a job in a single place, or with instances, only every 16th moment is tried, and those before a change.
        """
        same = min(map(self._unchanged, range(len(self.capacity))))
        if self.use is Instances.NONE and len(self.capacity) > 1:
            return 1
        if self.use is not Instances.NONE:
            same = min(same, math.ceil((self.left + self.warm) / self.job.gap))
        for start in range(0, same, _STRIDE):
            end = min(start + _STRIDE, same - 1)
            if end > start and self._choice_after(end) is not choice:
                moments = range(end)
                return bisect_left(moments, 1, start + 1, key=lambda moment: self._choice_after(moment) is not choice)
        return same

    def _unchanged(self, place: int) -> int:
        """Return the samples until the capacity of a place changes."""
        capacity = self.capacity[place]
        end = capacity.find(bytes([not capacity[self.sample]]), self.sample)
        return (end if end >= 0 else len(capacity)) - self.sample

    def _choice_after(self, samples: int) -> Choice:
        """Return the choice of the rule if nothing but the time changes for a number of samples."""
        before = (self.sample, self.now, self.left, self.warm, self.cost, self.at_risk)
        lists = (self.ran[:], self.waited[:], self.missing_at[:])
        self._advance(samples)
        choice = self.rule(self.situation()).choice
        self.sample, self.now, self.left, self.warm, self.cost, self.at_risk = before
        self.ran, self.waited, self.missing_at = lists
        return choice

    def _advance(self, samples: int) -> float:
        """Advance by a number of samples, and return the time at which the instances were last used."""
        seconds = samples * self.job.gap
        start = self.now
        self.sample += samples
        self.now = self.sample * self.job.gap
        if self.use is Instances.NONE:
            self.waited[self.place] += seconds
            self.missing_at[self.place] = self.now
            return self.now
        idle = min(seconds, self.warm)
        work = min(seconds - idle, self.left)
        self.warm -= idle
        self.left -= work
        self.cost += (idle + work) * (PRICE if self.use is Instances.SPOT else 1.0)
        if self.use is Instances.SPOT:
            self.ran[self.place] += seconds
        if every := self.job.checkpoint_every:
            self.at_risk = (self.at_risk + work) % every
        return start + idle + work
