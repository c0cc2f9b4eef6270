"""Spot decision: whether a job with a deadline uses spot instances, here or in another Region, or on demand, or waits.

A pure function of the work and the time that are left, the cost of a restart, the prices, and how long spot instances
have run and were waited for. It has no state, so a child that replaces another decides the same.

It extends the rules of "Can't Be Late" (Wu et al., NSDI 2024,
https://www.usenix.org/conference/nsdi24/presentation/wu-zhanghao) to spot capacity that cannot be seen without a
request: SageMaker shows only by a training job that starts, or does not, if it has spot instances. Two rules leave spot
instances. The safety net leaves when the time is just enough to end on demand. The other rule leaves earlier, while it
waits, if the capacity so far does not suggest that spot instances can do the rest. From on demand the job returns, not
too often, while there is time for a vain try. `make bench-spot` measures it, and its constants were chosen there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

RESTART_SECONDS = 720
"""The assumed seconds from the end of one training job to the first step of the next: its stop, the request, the start
of instances, image and data. It is not measured in AWS."""
LOOK_SECONDS = 60.0
"""The longest time between two decisions of a child (`traingrid.backoff.look_seconds`)."""
_PRIOR_SHARE, _PRIOR_SECONDS = 0.8, 12 * 3600.0
"""The assumed share of the time with spot capacity in a Region, before anything is known, and the weight of that."""
_MAX_SHARE = 0.97
"""The largest share of the time in which spot instances are expected to train; restarts use the rest."""
_OPTIMISM = 4.0
"""How many standard deviations above the expected share count as possible, for a job with as much slack as work."""
_SPELL_SECONDS = 6 * 3600.0
"""The time after which capacity is as good as independent of now."""
_RETURN_RESTARTS = 10
"""How many restarts a job stays on demand at least, so that its returns cost less than they can save."""
_STAY_SECONDS = 2 * 3600.0
"""The expected stay in another Region, over which the transfer of a checkpoint must pay."""
_FORGETTING_SECONDS = 3600.0
"""The time after which a Region that had no capacity is as promising as its share."""
_PATIENCE_SECONDS = 600.0
"""The time after which a request that has no instances counts as vain. The start of instances takes minutes."""
_AGAIN_SECONDS = 1800.0
"""The time for which a Region that had no capacity is not tried again, so that a job does not go back and forth."""
_MAX_WAIT_SECONDS = 4 * 3600.0
"""The longest of these two times. Each doubles with each vain round through all places, which bounds the attempts."""


class Instances(StrEnum):
    """The instances that a job uses."""

    NONE = "none"
    SPOT = "spot"
    ON_DEMAND = "on demand"


class Choice(StrEnum):
    """The instances that a job should use."""

    SPOT = "spot"
    ELSEWHERE = "elsewhere"
    ON_DEMAND = "on demand"
    WAIT = "wait"


@dataclass(frozen=True, kw_only=True, slots=True)
class SpotPlace:
    """Spot instances in a place, as far as the history of the job shows. Times are in seconds.

    Attributes:
        name: The Region, with the backend if the line has several.
        price: The price of spot instances there, as a share of the price on demand where the job is.
        ran: The time for which the job had spot instances there.
        waited: The time for which the job waited for them in vain.
        missing_since: The time since the job last had no capacity there; infinite if it always had.
        has_capacity: Whether there is capacity now; None if that is not known.
        transfer_seconds: The time to bring the checkpoint there.
        transfer_dollars: The cost of that transfer.
    """

    name: str = ""
    price: float = 0.3
    ran: float = 0.0
    waited: float = 0.0
    missing_since: float = math.inf
    has_capacity: bool | None = None
    transfer_seconds: float = 0.0
    transfer_dollars: float = 0.0

    @property
    def share(self) -> float:
        """The expected share of the time with capacity."""
        return (_PRIOR_SHARE * _PRIOR_SECONDS + self.ran) / (_PRIOR_SECONDS + self.ran + self.waited)

    @property
    def promise(self) -> float:
        """The expected saving of a request there now, as a share of the price on demand."""
        if self.has_capacity is None:
            return self.share * (1 - self.price) * -math.expm1(-self.missing_since / _FORGETTING_SECONDS)
        return (1 - self.price) * self.has_capacity


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """A job with a deadline, at a moment. Times are in seconds.

    Attributes:
        left: The training that remains.
        lost: The training that an interruption can undo at most.
        until: The time until the deadline.
        restart: The time from the end of one training job to the first step of the next.
        look: The longest time between two decisions.
        use: The instances that the job uses; `NONE` while it waits for spot instances.
        lasted: The time for which it has used, or waited for, these.
        request_age: The time since its last request for spot instances, for which it waits.
        vain_rounds: How often it has left each place in vain since it last had instances, on average.
        current: The spot instances in its Region.
        alternatives: The spot instances in the other places of the line.
        dollars_per_hour: The price on demand of all its instances.
        may_return: Whether the training may be stopped to return from on demand to spot instances.
    """

    left: float
    until: float
    restart: float
    current: SpotPlace
    lost: float = 0.0
    look: float = 60.0
    use: Instances = Instances.NONE
    lasted: float = 0.0
    request_age: float = 0.0
    vain_rounds: int = 0
    alternatives: tuple[SpotPlace, ...] = ()
    dollars_per_hour: float = 0.0
    may_return: bool = True

    @property
    def slack(self) -> float:
        """The time that the job can lose and still end by its deadline, without any further restart."""
        return self.until - self.left

    @property
    def needed_to_start(self) -> float:
        """The slack without which spot instances may not start: they may be interrupted as soon as they train."""
        return self.lost + 2 * (self.restart + self.look)

    @property
    def needed_to_stay(self) -> float:
        """The slack without which spot instances that train must be left; their training does not use it up."""
        return self.lost + self.restart + self.look


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The next step of a job.

    Attributes:
        place: The name of the place.
        because: Why, as the end of a sentence that begins with the work that is left.
    """

    choice: Choice
    place: str
    because: str = ""


def decision(now: Situation) -> Decision:
    """Return the next step of a job."""
    if now.current.price >= 1 and not any(place.price < 1 for place in now.alternatives):
        return Decision(choice=Choice.ON_DEMAND, place=now.current.name, because="spot instances are not cheaper")
    if now.use is Instances.SPOT:
        return _on_demand(now, now.needed_to_stay) if now.slack < now.needed_to_stay else _spot(now)
    if now.use is Instances.ON_DEMAND:
        return _spot(now, _best(now)) if _returns(now) else Decision(choice=Choice.ON_DEMAND, place=now.current.name)
    if now.slack <= now.needed_to_start:
        return _on_demand(now, now.needed_to_start)
    if now.lasted >= now.restart and now.left > possible_share(now) * (now.until - 2 * now.restart):
        share = expected_share(now)
        because = f"spot instances had capacity in about {100 * share:.0f} % of the time, which is too little"
        return Decision(choice=Choice.ON_DEMAND, place=now.current.name, because=because)
    is_vain = now.current.has_capacity is False or now.request_age >= _longer(_PATIENCE_SECONDS, now)
    return _spot(now, _best(now) if is_vain else now.current)


def expected_share(now: Situation) -> float:
    """Return the expected share of the time in which one of the places has spot capacity."""
    missing = 1 - now.current.share
    for place in now.alternatives:
        missing *= 1 - place.share
    return 1 - missing


def possible_share(now: Situation) -> float:
    """Return the share of the time in which spot instances may train, for a job that can afford some optimism."""
    share = expected_share(now)
    deviation = math.sqrt(share * (1 - share) * _SPELL_SECONDS / max(now.until, 1.0))
    return min(share + _OPTIMISM * max(now.slack, 0.0) / max(now.left, 1.0) * deviation, _MAX_SHARE)


def sentence(decided: Decision, now: Situation, finish_by: str) -> str:
    """Return the reason of a decision, as a sentence for a person.

    Args:
        finish_by: The deadline as the line has it.
    """
    if now.until <= 0:
        return f"Its deadline {finish_by} has passed, with {_hours(now.left)} of work left."
    because = f": {decided.because}" if decided.because else ""
    return f"{_hours(now.left)} of work left, {_hours(now.until)} until the deadline {finish_by}{because}."


def _on_demand(now: Situation, needed_slack: float) -> Decision:
    because = f"an interruption could cost {_hours(needed_slack)}"
    return Decision(choice=Choice.ON_DEMAND, place=now.current.name, because=because)


def _spot(now: Situation, place: SpotPlace | None = None) -> Decision:
    if place is None or place is now.current:
        choice = Choice.WAIT if now.use is Instances.NONE and now.current.has_capacity is False else Choice.SPOT
        return Decision(choice=choice, place=now.current.name, because="there is time for spot instances")
    return Decision(choice=Choice.ELSEWHERE, place=place.name, because=f"{place.name} may have spot instances")


def _best(now: Situation) -> SpotPlace:
    """Return the place for the next request for spot instances."""
    places = (now.current, *(place for place in now.alternatives if _may_move(now, place)))
    return max(places, key=lambda place: place.promise)


def _may_move(now: Situation, place: SpotPlace) -> bool:
    """Return True if there is time to bring the checkpoint to a place and try, and if that pays."""
    if place.has_capacity is None and place.missing_since < _longer(_AGAIN_SECONDS, now):
        return False
    saving = place.promise * now.dollars_per_hour * min(now.left, _STAY_SECONDS) / 3600
    in_time = now.slack > now.needed_to_start + place.transfer_seconds + now.restart
    return in_time and (place.transfer_dollars <= saving or not place.transfer_dollars)


def _longer(seconds: float, now: Situation) -> float:
    """Return a time after the vain rounds of a job."""
    return min(seconds * 2.0 ** min(now.vain_rounds, 10), _MAX_WAIT_SECONDS)


def _returns(now: Situation) -> bool:
    """Return True if a job returns from on demand: a vain try must leave time, and a successful one must pay."""
    place = _best(now)
    if not now.may_return or place.has_capacity is False or place.price >= 1:
        return False
    is_known = place.has_capacity is True
    if not is_known and now.lasted < _RETURN_RESTARTS * now.restart:
        return False
    vain = now.lost + 2 * now.look + (0 if is_known else now.restart)
    cost = now.lost + 2 * now.restart
    return now.slack >= now.needed_to_start + vain and place.share * (1 - place.price) * now.left > cost


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"
