"""Rules: traingrid's decision, and the rules beside which it is measured.

Greedy and Uniform Progress are short versions of the rules of "Can't Be Late" (Wu et al., NSDI 2024), not its authors'
code. They see where there is spot capacity, without a request, and move to it.
"""

from collections.abc import Mapping

from bench.spot.simulator import Job, Measured, Rule
from traingrid.job.spot_decision import Choice, Decision, Instances, Situation, decision


def _greedy(_: Job) -> Rule:
    return lambda now: _on_demand(now) if _is_last_moment(now) or now.use is Instances.ON_DEMAND else _spot(now)


def _uniform_progress(job: Job) -> Rule:
    def rule(now: Situation) -> Decision:
        done, past = job.work - now.left, job.deadline - now.until
        keeps = now.use is Instances.ON_DEMAND and done < job.work * (past + 2 * job.restart) / job.deadline
        is_behind = done < job.work * past / job.deadline
        if _is_last_moment(now) or ((keeps or is_behind) and not _has_capacity(now)):
            return _on_demand(now)
        return _spot(now)

    return rule


def _before(job: Job) -> Rule:
    """Return traingrid's rule before it used the remaining work: spot only with time for two whole trainings."""

    def rule(now: Situation) -> Decision:
        waited = job.deadline - now.until >= max(job.work, job.deadline - job.work)
        return (
            _on_demand(now) if 2 * job.work > job.deadline or waited or now.use is Instances.ON_DEMAND else _spot(now)
        )

    return rule


def _always_on_demand(_: Job) -> Rule:
    return _on_demand


RULES: Mapping[str, Measured] = {
    "traingrid": Measured(title="traingrid", rule=lambda _: decision),
    "traingrid_sees": Measured(
        title="traingrid, if it saw capacity as the next two do", rule=lambda _: decision, sees=True
    ),
    "uniform_progress": Measured(title="Uniform Progress", rule=_uniform_progress, sees=True),
    "greedy": Measured(title="greedy with a safety net", rule=_greedy, sees=True),
    "before": Measured(title="traingrid's former rule", rule=_before, sees=True),
    "on_demand": Measured(title="on demand", rule=_always_on_demand),
}


def _is_last_moment(now: Situation) -> bool:
    return now.slack <= now.needed_to_start and now.use is not Instances.SPOT


def _has_capacity(now: Situation) -> bool:
    return any(place.has_capacity for place in (now.current, *now.alternatives))


def _on_demand(now: Situation) -> Decision:
    return Decision(choice=Choice.ON_DEMAND, place=now.current.name)


def _spot(now: Situation) -> Decision:
    """Return spot instances in the first place that has them, beginning with the current one."""
    if not now.current.has_capacity:
        for place in now.alternatives:
            if place.has_capacity:
                return Decision(choice=Choice.ELSEWHERE, place=place.name)
    return Decision(choice=Choice.SPOT, place=now.current.name)
