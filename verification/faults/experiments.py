"""Experiments: all experiments of each engine, with their volumes."""

from collections.abc import Callable
from functools import partial

from verification.faults import (
    budgets,
    by_hand,
    calls,
    catalog_outage,
    child_loss,
    copies,
    disturbed_clusters,
    events,
    failover,
    frozen,
    kills,
    kills_cancel,
    kills_intake,
    kills_reconciler,
    manifests,
    races,
    registrations,
    scale,
    shortages,
    spot_moves,
    state_machine,
)
from verification.faults.engine import EngineName
from verification.faults.faulty_grid import FaultyGrid
from verification.faults.table import Outcome

WAITING = ("E6", "E7")
"""Experiments that mostly wait."""

Experiment = Callable[[FaultyGrid], Outcome]
Volume = Callable[[int, int], int]
"""Returns the volume of a run for that at full volume and the least one."""

_KILLED_CHILDREN = {
    "fresh": (300, 28),
    "attach": (80, 6),
    "quota": (80, 6),
    "capacity": (80, 6),
    "streams": (100, 6),
    "lag": (60, 6),
    "cancel": (80, 6),
    "finish": (80, 6),
}
"""Number of children killed per scenario: at full volume, and at least."""
_KILLED_CHILDREN_OF_CLUSTERS = {
    name: _KILLED_CHILDREN.get(name, (80, 6)) for name in ("fresh", "attach", "quota", "retry", "cancel", "finish")
}
"""Clusters show objects at once, have no Pipe mode, and pods wait for capacity instead of failing (see E27)."""


def experiments(share: float, engine: EngineName = "sagemaker") -> dict[str, Experiment]:
    """Return all experiments of an engine by name.

    Args:
        share: Share of the full volume. Each experiment has a minimum volume, below which it proves nothing.
    """

    def of(full: int, least: int) -> int:
        return max(least, round(full * share))

    killed = _KILLED_CHILDREN if engine == "sagemaker" else _KILLED_CHILDREN_OF_CLUSTERS
    launches: dict[str, Experiment] = {
        **{
            f"E1 children: {scenario}": partial(kills.of_children, scenario=scenario, kills=of(*volume))
            for scenario, volume in killed.items()
        },
        "E1 intake": partial(kills_intake.of_intake, kills=of(100, 6)),
        "E1 reconciler": partial(kills_reconciler.of_reconciler, kills=of(60, 6)),
        "E1 cancel": partial(kills_cancel.of_cancel, kills=of(60, 6)),
        "E2 lost replies": partial(calls.lost_replies, count=of(50, 2)),
    }
    return {**launches, **(_of_sagemaker(of) if engine == "sagemaker" else _of_eks(of))}


def _of_all(of: Volume) -> dict[str, Experiment]:
    """Return experiments of all engines."""
    return {
        "E4 state machine": partial(state_machine.state_machine, examples=of(5000, 100), steps=50),
        "E5 two children for a line": partial(races.doubled, pairs=of(500, 6)),
        "E5 late writes of dead children": partial(races.zombies, lines=of(20, 2)),
        **{
            f"E6 throttled {throttled:.0%}": partial(calls.throttled, share=throttled, lines=of(200, 4))
            for throttled in (0.0, 0.3, 0.6, 0.95)
        },
        "E7 stalled answers": partial(calls.stalled, lines=of(50, 4)),
        "E8 SIGTERM at any moment": partial(child_loss.at_any_moment, children=of(300, 10)),
        "E9 all children and events lost": partial(child_loss.everything_lost, lines=of(100, 4)),
        "E10 truncated manifests": partial(manifests.truncated, cuts=of(1024, 32), deployed=of(50, 2)),
        "E10 generated manifests": partial(manifests.made_up, manifests=of(20_000, 100), deployed=of(50, 2)),
        "E12 cancel races": partial(races.cancelled, races=of(1000, 6)),
        "E12 intents alone": partial(races.intents, lines=of(40, 3)),
        "E28 frozen children": partial(frozen.frozen, lines=of(60, 8)),
        "E13 expired credentials": partial(calls.expired, lines=of(50, 4)),
    }


def _of_sagemaker(of: Volume) -> dict[str, Experiment]:
    return {
        "E3 duplicated events": partial(
            events.duplicates, copies=of(1000, 20), manifests=of(100, 3), copies_each=of(10, 3)
        ),
        **_of_all(of),
        "E14 submitted by hand": partial(by_hand.submitted_by_hand, manifests=of(60, 6)),
        "E15 missing capacity": partial(shortages.missing, lines=of(120, 8)),
        "E16 datasets that register themselves": partial(registrations.registered, datasets=of(60, 4), copies=of(5, 3)),
        "E17 children that copy data": partial(copies.copied, lines=of(112, 4)),
        "E18 budget reached while lines launch": partial(budgets.reached, lines=of(120, 8)),
        "E29 spot jobs that move": partial(spot_moves.moved, lines=of(120, 24)),
        "E19 catalog down during 200 lines": partial(catalog_outage.down, lines=of(200, 4)),
        # These run last because they take far longer than the others.
        "E11 10,000 lines": partial(scale.of_lines, lines=of(10_000, 40)),
        "E11 25,000 lines, cancelled": partial(scale.cancelled, lines=of(25_000, 40), launched=of(1_000, 4)),
    }


def _of_eks(of: Volume) -> dict[str, Experiment]:
    """Return the experiments of Kubernetes, which has no events. E14 to E19 do not depend on the engine."""
    return {
        "E3 lost and compacted watches": partial(disturbed_clusters.watches_lost, lines=of(100, 4)),
        **_of_all(of),
        "E8 SIGTERM while the API server is slow": partial(child_loss.at_any_moment, children=of(100, 8), slow=True),
        "E20 deleted objects": partial(disturbed_clusters.deleted, lines=of(120, 6)),
        "E20 deleted before the attach": partial(disturbed_clusters.deleted_before_attach, lines=of(40, 3)),
        "E21 lost nodes and evicted pods": partial(disturbed_clusters.drained, disruptions=of(100, 3)),
        "E22 restarted controllers": partial(disturbed_clusters.controllers_restarted, lines=of(100, 4)),
        "E23 preempted by Kueue": partial(disturbed_clusters.preempted, lines=of(60, 3)),
        "E24 taken names": partial(disturbed_clusters.foreign, lines=of(40, 3)),
        "E25 slow stops": partial(disturbed_clusters.stopped_completely, lines=of(60, 3)),
        "E26 deleted namespace": partial(disturbed_clusters.namespace_deleted, lines=of(40, 3)),
        "E27 failover to SageMaker": partial(failover.failover, lines=of(120, 6)),
        "E9 killed watchers": partial(child_loss.until_the_scheduled_pass, lines=of(20, 3)),
        "E11 2,000 lines": partial(scale.of_lines, lines=of(2_000, 40)),
    }


def sabotages(share: float, engine: EngineName = "sagemaker") -> dict[str, Experiment]:
    """Return, for each safeguard that can be disabled, the experiment that must detect its absence.

    Args:
        share: Share of the full volume.
        engine: The engine; on EKS, only the safeguards that its backend has or uses.
    """
    if engine == "eks":
        return {
            "attach": partial(kills.after_the_create, kills=max(4, round(20 * share))),
            "check after create": partial(races.intents, lines=max(3, round(20 * share))),
            "second look": partial(frozen.frozen, lines=max(8, round(10 * share))),
            "conditional write": partial(races.zombies, lines=max(2, round(10 * share))),
            "finalizer": partial(disturbed_clusters.deleted_before_attach, lines=max(3, round(20 * share))),
            "no pods left": partial(disturbed_clusters.stopped_completely, lines=max(3, round(20 * share))),
        }
    return {
        "look by name": partial(kills_intake.after_the_submit, kills=max(1, round(5 * share))),
        "attach": partial(kills.after_the_create, kills=max(4, round(20 * share))),
        "check after create": partial(races.intents, lines=max(3, round(20 * share))),
        "second look": partial(frozen.frozen, lines=max(8, round(10 * share))),
        "array size": partial(by_hand.submitted_by_hand, manifests=max(6, round(12 * share))),
        "write once": partial(registrations.after_the_write, kills=max(3, round(10 * share))),
        "verified copy": partial(copies.copied, lines=max(4, round(12 * share))),
        "running jobs": partial(budgets.reached, lines=max(6, round(12 * share)), training_seconds=60.0),
        "conditional write": partial(races.zombies, lines=max(2, round(10 * share))),
    }
