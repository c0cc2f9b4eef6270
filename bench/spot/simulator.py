"""Simulator: one job with a deadline over recorded or synthetic spot capacity, under a rule.

Time advances by the interval of the capacity's samples. A restart costs time on every start, on spot instances and on
demand, which is billed; waiting is not billed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from traingrid.job.spot_decision import RETURN_RESTARTS, Choice, Decision, Instances, Situation, SpotPlace

PRICE = 0.30
"""The price of spot instances as a share of the price on demand, as in "Can't Be Late" (NSDI 2024)."""
DOLLARS_PER_HOUR = 3.825
"""ml.p3.2xlarge on demand in us-east-1, the instance type of the traces
(https://aws.amazon.com/sagemaker/ai/pricing/)."""
_NAMES = "012345678"
Rule = Callable[[Situation], Decision]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A rule that is measured.

    Attributes:
        rule: Returns the rule for a job.
        sees: Whether it sees where there is spot capacity, without a request.
        returns: Whether it may return from on demand to spot instances.
    """

    title: str
    rule: Callable[["Job"], Rule]
    sees: bool = False
    returns: bool = True


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
            is_steady = self.use is Instances.SPOT and not self.warm
            self._follow(self.rule(self.situation()))
            end = self._advance(self._spell(is_steady))
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
            self.asked_at = self.now
        if decided.choice is not Choice.WAIT and self.has_capacity(self.place):
            self._start(Instances.SPOT, transfer)

    def _start(self, use: Instances, transfer: float = 0.0) -> None:
        self.use, self.since, self.warm = use, self.now, self.job.restart + transfer
        self.starts += 1

    def _spell(self, is_steady: bool) -> int:
        """Return the samples until the next decision that can differ from the last one."""
        needed = math.ceil((self.left + self.warm) / self.job.gap)
        if self.use is Instances.ON_DEMAND:
            return self._stay(needed)
        if self.use is not Instances.SPOT or not is_steady:
            return 1
        end = self.capacity[self.place].find(b"\0", self.sample, self.sample + needed)
        return needed if end < 0 else end - self.sample

    def _stay(self, needed: int) -> int:
        """Return the samples for which a job stays on demand at least, of those that it needs until its end.

        The rule that sees no capacity stays for some restarts. If it then stays in the only place, it does so until the
        end: its slack is the same later, and it has less to save.
        """
        if not self.measured.returns:
            return needed
        if self.measured.sees or len(self.capacity) > 1:
            return 1
        stay = RETURN_RESTARTS * self.job.restart - (self.now - self.since)
        return min(needed, math.ceil(stay / self.job.gap)) if stay > 0 else needed

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
