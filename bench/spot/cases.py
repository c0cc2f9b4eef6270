"""Cases: the jobs, places and deadlines that are simulated, and their figures."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.size import size
from bench.spot import synthetic, traces
from bench.spot.rules import RULES
from bench.spot.simulator import DOLLARS_PER_HOUR, Job, Measured, Run, lower_bound

RATIOS = (1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
"""The deadline as a multiple of the duration."""
JOBS = size(1000, 3)
MAIN = (48, 12)
"""The hours of the main job, and the minutes of its restart, as in "Can't Be Late"."""
_COMPARED = (1.25, 2.0)
"""The deadlines at which the other rules are measured with other jobs, too."""
SETTINGS = (MAIN, (36, 12), (48, 3), (36, 3))
_LONGEST_SPELL = 1.2
"""The simulated time beyond the deadline, in deadlines: an error of a rule shows as a late job."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """The places of a job.

    Attributes:
        groups: The capacity of each group of places; a job uses the places of one group.
        gap: The interval of the samples in seconds.
        nodes: The number of instances that the capacity is for.
    """

    groups: Sequence[Sequence[bytes]]
    gap: float
    nodes: int = 1


@dataclass(frozen=True, kw_only=True)
class Case:
    """The jobs that are simulated under each rule.

    Attributes:
        places: The name of the places.
        ratio: The deadline as a multiple of the duration.
    """

    hours: int
    restart_minutes: int
    places: str
    ratio: float

    def job(self, places: Places) -> Job:
        """Return the job in some places."""
        return Job(
            work=self.hours * 3600.0,
            deadline=self.ratio * self.hours * 3600.0,
            restart=self.restart_minutes * 60.0,
            gap=places.gap,
            nodes=places.nodes,
        )


def synthetic_places() -> Mapping[str, Places]:
    """Return the places of the fitted numbers."""
    zones, regions, nodes = (
        [synthetic.capacity(name, spells) for name, spells in part.items()]
        for part in (synthetic.ZONES, synthetic.REGIONS, synthetic.SIXTEEN_NODES)
    )
    return _places(zones, regions, synthetic.GAP, nodes, synthetic.GAP)


def traced_places(folder: Path) -> Mapping[str, Places]:
    """Return the places of the public traces in a folder."""
    zones, nodes = (traces.zones(folder, part) for part in (traces.ONE_NODE, traces.SIXTEEN_NODES))
    regions = list(traces.regions(zones).values())
    gaps = traces.gap(traces.ONE_NODE), traces.gap(traces.SIXTEEN_NODES)
    return _places(list(zones.values()), regions, gaps[0], list(nodes.values()), gaps[1])


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for hours, minutes in SETTINGS:
        for places in ("zone", "zone, 16 nodes", "Region", "three Regions"):
            for ratio in RATIOS:
                yield Case(hours=hours, restart_minutes=minutes, places=places, ratio=ratio)


def figures(case: Case, places: Places, jobs: int = JOBS) -> dict[str, Any]:
    """Return the figures of a case: of each rule its cost as a share of the bound, and the late jobs.

    Args:
        jobs: The number of simulated jobs.
    """
    job, windows = case.job(places), list(_windows(case, places, jobs))
    bound = fmean(lower_bound(job, window) for window in windows)
    rules = {name: _figures(rule, job, windows, bound) for name, rule in RULES.items() if _applies(name, case)}
    return {
        "places": case.places,
        "hours": case.hours,
        "restart_minutes": case.restart_minutes,
        "deadline": case.ratio,
        "jobs": len(windows),
        "bound": round(bound, 4),
        "rules": rules,
    }


def _applies(name: str, case: Case) -> bool:
    """Return True if a rule is measured in a case: the variants of traingrid's rule only with the main job."""
    is_main = (case.hours, case.restart_minutes) == MAIN
    return is_main or name == "traingrid" or (name in ("uniform_progress", "greedy") and case.ratio in _COMPARED)


def _figures(measured: Measured, job: Job, windows: Sequence[Sequence[bytes]], bound: float) -> dict[str, float]:
    rule = measured.rule(job)
    outcomes = [Run(job=job, capacity=window, measured=measured, rule=rule).run() for window in windows]
    cost = fmean(outcome.cost for outcome in outcomes)
    return {
        "cost": round(cost, 4),
        "to_bound": round(cost / bound, 3),
        "dollars": round(cost * job.work / 3600 * job.nodes * DOLLARS_PER_HOUR, 2),
        "late": sum(outcome.is_late for outcome in outcomes),
        "starts": round(fmean(outcome.starts for outcome in outcomes), 1),
        "returns": round(fmean(outcome.returns for outcome in outcomes), 1),
        "moves": round(fmean(outcome.moves for outcome in outcomes), 1),
        "transfer_dollars": round(fmean(outcome.transfer_dollars for outcome in outcomes), 4),
    }


def _windows(case: Case, places: Places, jobs: int) -> Iterator[Sequence[bytes]]:
    """Yield the capacity of each job: a part of the samples from a random moment, in a random order of the places."""
    rng = random.Random(case.ratio)  # noqa: S311  # not used for cryptography
    samples = int(_LONGEST_SPELL * case.ratio * case.hours * 3600 / places.gap) + 50
    for number in range(jobs):
        group = places.groups[number % len(places.groups)]
        start = rng.randrange(min(map(len, group)) - samples)
        window = [place[start : start + samples] for place in group]
        rng.shuffle(window)
        yield window


def _places(
    zones: Sequence[bytes], regions: Sequence[bytes], gap: float, nodes: Sequence[bytes], nodes_gap: float
) -> Mapping[str, Places]:
    return {
        "zone": Places(groups=[[zone] for zone in zones], gap=gap),
        "zone, 16 nodes": Places(groups=[[zone] for zone in nodes], gap=nodes_gap, nodes=16),
        "Region": Places(groups=[[region] for region in regions], gap=gap),
        "three Regions": Places(groups=[regions], gap=gap),
    }
