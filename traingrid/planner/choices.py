"""Choices: builds an assignment problem from jobs and pools."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from traingrid.planner.pool_keys import SPOT, is_paid
from traingrid.planner.problem import UNPLACED, PlacementProblem
from traingrid.planner.spot_estimate import spot_shares

PENALTY_FACTOR = 10.0
"""An unplaced job costs this many times its most expensive choice, so that jobs are unplaced only if they must be."""
MIN_PENALTY = 100.0
MAX_WINDOWS = 12
"""The maximum number of windows; earlier ones are merged, which assigns a job to a window before its deadline."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The instances of one Region, type and purchase option.

    Attributes:
        option: `ON_DEMAND`, `SPOT`, or the ARN of a training plan.
        instances: The number of instances that may run at once.
        dollars: The price of an instance-hour in dollars.
        on_demand_dollars: For spot instances: the price on demand in the same Region; 0 if it is not known.
        starts: The hours from now after which the instances are available.
        until: The hours from now until which they are available.
    """

    region: str
    instance_type: str
    option: str
    instances: int
    dollars: float
    on_demand_dollars: float = 0.0
    starts: float = 0.0
    until: float = math.inf

    @property
    def key(self) -> tuple[str, str, str]:
        """The Region, type and purchase option."""
        return self.region, self.instance_type, self.option


@dataclass(frozen=True, kw_only=True)
class Demand:
    """One job, as the solver needs it.

    Attributes:
        hours: The hours of training on each allowed instance type.
        data: The dollars that each allowed Region costs for transfer and storage; 0 where the data is.
        spot: True if spot instances are allowed.
        redone: The part of its training that an interruption of spot instances can undo.
        plans: The ARN of the training plan that the job must use, by Region.
        deadline: The hours from now after which the job must have ended; infinite for the end of the plan.
    """

    instances: int
    hours: Mapping[str, float]
    data: Mapping[str, float]
    spot: bool = False
    redone: float = 1.0
    plans: Mapping[str, str] = field(default_factory=dict)
    deadline: float = math.inf


@dataclass(frozen=True, kw_only=True)
class PlanLimits:
    """The limits of a plan.

    Attributes:
        hours: The hours from now until the end of the plan.
        budget: The budget in dollars.
        accelerators: The maximum number of accelerators in use at once.
        accelerators_of: The number of accelerators of a host of each instance type.
    """

    hours: float
    budget: float = math.inf
    accelerators: float = math.inf
    accelerators_of: Mapping[str, int] = field(default_factory=dict)


def problem_of(demands: Sequence[Demand], pools: Sequence[Pool], limits: PlanLimits) -> PlacementProblem:
    """Return the problem of placing jobs in pools.

    A choice that cannot be right for a single job is left out: a pool with fewer instances than the job, a duration
    beyond the deadline, more accelerators than allowed.
    """
    deadlines = np.array([min(demand.deadline, limits.hours) for demand in demands])
    ends = _window_ends(deadlines, limits.hours)
    table = _Pools(pools, limits)
    parts = [table.choices(demand, deadline) for demand, deadline in zip(demands, deadlines, strict=True)]
    pool, cost, dollars, hours, accelerators = (np.concatenate(column) for column in zip(*parts, strict=True))
    return PlacementProblem(
        starts=np.concatenate([[0], np.cumsum([len(part[0]) for part in parts])]),
        pool=pool,
        cost=cost,
        dollars=dollars,
        hours=hours,
        accelerator_hours=accelerators,
        window=np.searchsorted(ends, deadlines, side="right") - 1,
        capacity=table.capacity(ends),
        accelerators=np.full(len(ends), np.inf) if math.isinf(limits.accelerators) else limits.accelerators * ends,
        budget=limits.budget,
    )


def _window_ends(deadlines: NDArray[np.float64], horizon: float) -> NDArray[np.float64]:
    """Return the ends of the windows in hours: all deadlines, or a selection with the first one, and the horizon."""
    ends = np.unique(np.append(deadlines, horizon))
    if len(ends) > MAX_WINDOWS:
        ends = ends[np.unique(np.linspace(0, len(ends) - 1, MAX_WINDOWS).astype(int))]
    return ends


class _Pools:
    """The pools as arrays."""

    def __init__(self, pools: Sequence[Pool], limits: PlanLimits) -> None:
        self._pools = pools
        regions = dict.fromkeys(pool.region for pool in pools)
        self._index_by_region = {region: index for index, region in enumerate(regions)}
        types = dict.fromkeys(pool.instance_type for pool in pools)
        self._index_by_type = {name: index for index, name in enumerate(types)}
        self._region_index = np.array([self._index_by_region[pool.region] for pool in pools], dtype=np.int64)
        self._type_index = np.array([self._index_by_type[pool.instance_type] for pool in pools], dtype=np.int64)
        self._is_spot = np.array([pool.option == SPOT for pool in pools], dtype=bool)
        self._on_demand_price = np.array([pool.on_demand_dollars for pool in pools], dtype=float)
        self._instances = np.array([pool.instances for pool in pools], dtype=np.int64)
        self._starts = np.array([pool.starts for pool in pools])
        self._until = np.array([pool.until for pool in pools])
        self._paid = np.array([is_paid(pool.option) for pool in pools], dtype=bool)
        self._price = np.array([pool.dollars for pool in pools], dtype=float)
        accelerators = [limits.accelerators_of.get(pool.instance_type, 0) for pool in pools]
        self._accelerators = np.array(accelerators, dtype=float)
        self._most_accelerators = limits.accelerators

    def capacity(self, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the instance-hours of each pool until each of some times."""
        hours = np.minimum(ends, self._until[:, None]) - self._starts[:, None]
        capacity: NDArray[np.float64] = self._instances[:, None] * np.maximum(0.0, hours)
        return capacity

    def choices(self, demand: Demand, deadline: float) -> tuple[NDArray[np.float64], ...]:
        """Return the columns of a job's choices: pool, cost, dollars, instance-hours, accelerator-hours."""
        data = _values_by_index(demand.data, self._index_by_region)[self._region_index]
        hours = _values_by_index(demand.hours, self._index_by_type)[self._type_index]
        time = np.minimum(deadline, self._until) - self._starts
        shares = spot_shares(hours, time, demand.redone) if demand.spot else np.zeros(len(self._pools))
        allowed = (
            (hours <= time)
            & (~self._is_spot | (shares > 0))
            & np.isfinite(data)
            & (self._instances >= demand.instances)
        )
        allowed &= self._is_allowed_by_plans(demand)
        allowed &= demand.instances * self._accelerators <= self._most_accelerators
        pool = np.flatnonzero(allowed)
        used = demand.instances * hours[pool]
        blended = self._price + (1 - shares) * (self._on_demand_price - self._price)
        price = np.where(self._is_spot & (self._on_demand_price > 0), blended, self._price)
        dollars = used * price[pool] + data[pool]
        penalty = max(MIN_PENALTY, PENALTY_FACTOR * float(dollars.max(initial=0.0)))
        columns = (dollars, dollars, used, used * self._accelerators[pool])
        first = (penalty, 0.0, 0.0, 0.0)
        return np.append(UNPLACED, pool), *(
            np.append(value, column) for value, column in zip(first, columns, strict=True)
        )

    def _is_allowed_by_plans(self, demand: Demand) -> NDArray[np.bool_]:
        """Return the pools that a job's training plans allow: a plan is used only by the jobs that name it."""
        if not demand.plans:
            return ~self._paid
        is_of_plan = [demand.plans.get(pool.region, "") == pool.option * is_paid(pool.option) for pool in self._pools]
        return np.array(is_of_plan, dtype=bool)


def _values_by_index(values: Mapping[str, float], index_by_name: Mapping[str, int]) -> NDArray[np.float64]:
    """Return values by index; infinite where there is none."""
    by_index = np.full(len(index_by_name), np.inf)
    for name, value in values.items():
        if name in index_by_name:
            by_index[index_by_name[name]] = value
    return by_index
