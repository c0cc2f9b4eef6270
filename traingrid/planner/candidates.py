"""Candidates: the places, instance types and durations of each line of a manifest, for the solver."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from traingrid.errors import UsageError
from traingrid.job.accelerators import accelerators
from traingrid.job.backend_traits import TRAITS
from traingrid.job.candidates import candidates_of
from traingrid.job.recipe import recipe_of
from traingrid.manifest.line import job_of_line
from traingrid.planner.choices import Demand, PlanLimits, Pool
from traingrid.planner.durations import GUESS, LINE, MAX_RUNTIME, Duration, Durations
from traingrid.planner.pool_keys import ON_DEMAND, SPOT
from traingrid.planner.spot_estimate import blended, spot_share
from traingrid.planner.training_places import training_places

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.manifest.line import Line
    from traingrid.planner.facts import Facts
    from traingrid.planner.pool_keys import PoolKey
    from traingrid.planner.training_places import TrainingPlaces

DEFAULT_DAYS = 7
"""The days until the end of a plan, for lines without `finish_by`."""
_SECONDS = 3600.0
ENDS_BEFORE_PLAN = 0.5
"""The hours before the end of a training plan at which SageMaker ends its training jobs
(https://docs.aws.amazon.com/sagemaker/latest/dg/reserve-capacity-with-training-plans.html)."""
_NO_SUBMISSION = "00000000"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a plan.

    Attributes:
        finish_by: The deadline of lines without one.
        budget: The budget in dollars; infinite without one.
        accelerators: The maximum number of accelerators in use at once; infinite without one.
        moves: True if data may be copied to another Region.
    """

    now: datetime
    finish_by: datetime
    budget: float
    accelerators: float
    moves: bool = True


@dataclass(frozen=True, kw_only=True)
class PlannableLine:
    """A line with everything that a plan may choose for it.

    Attributes:
        deadline: The hours until its deadline.
        durations: The duration on each allowed instance type.
        skipped: Allowed instance types that are left out, because no past run shows a duration.
    """

    line: Line
    values: Mapping[str, Any]
    job: Job
    finish_by: datetime
    deadline: float
    places: TrainingPlaces
    durations: Mapping[str, Duration]
    skipped: tuple[str, ...]

    @property
    def plans(self) -> Mapping[str, str]:
        """The ARN of the line's training plan, by Region."""
        return self.line.settings.training_plan

    @property
    def pool_keys(self) -> Iterator[PoolKey]:
        """The pools that the line may use, whether the catalog has them or not, from its own Region and type on."""
        for region in self.places.by_region:
            for instance_type in self.durations:
                for option in self._options(region):
                    yield region, instance_type, option

    def _options(self, region: str) -> tuple[str, ...]:
        """Return the purchase options in a Region: a line with `spot` may also train on demand."""
        if region in self.plans:
            return (self.plans[region],)
        return (ON_DEMAND, SPOT) if self.job.spot else (ON_DEMAND,)

    @property
    def redone(self) -> float:
        """The part of the training that an interruption of spot instances can undo; 1 if that is not known."""
        return min(self.job.epochs_at_risk / self.job.epochs, 1.0) if self.job.epochs_at_risk else 1.0

    def spot_share(self, instance_type: str) -> float:
        """Return the share of the training that is expected on spot instances; 0 if they leave too little time."""
        return spot_share(self.durations[instance_type].hours, self.deadline, self.redone)

    def compute(self, key: PoolKey, facts: Facts) -> float | None:
        """Return the expected dollars of all instances in a pool; None without a price, or time until the deadline."""
        region, instance_type, option = key
        hours, price = self.durations[instance_type].hours, facts.prices.get(key)
        share = self.spot_share(instance_type) if option == SPOT else 1.0
        if price is None or hours > self.deadline or not share:
            return None
        on_demand = facts.prices.get((region, instance_type, ON_DEMAND))
        dollars = blended(share, price.dollars, on_demand.dollars if on_demand else 0.0)
        return self.job.instance_count * hours * dollars

    def demand(self) -> Demand:
        """Return the job as the solver needs it."""
        return Demand(
            instances=self.job.instance_count,
            hours={name: duration.hours for name, duration in self.durations.items()},
            data={region: place.dollars for region, place in self.places.by_region.items()},
            spot=self.job.spot,
            redone=self.redone,
            plans=self.plans,
            deadline=self.deadline,
        )


def candidates(
    lines: Sequence[Line],
    values: Mapping[int, Mapping[str, Any]],
    facts: Facts,
    deployment: Deployment,
    options: Options,
) -> list[PlannableLine]:
    """Return the candidates of all lines.

    Args:
        values: The values of each line in the manifest, by line number.

    Raises:
        UsageError: A deadline has passed, or a line may train on EKS.
    """
    durations = Durations(facts.runs)
    plannable = []
    for index, line in enumerate(lines):
        job = job_of_line(line, index, deployment, _NO_SUBMISSION)
        titles = (TRAITS[place.backend].title for place in candidates_of(job) if not TRAITS[place.backend].has_prices)
        if title := next(titles, ""):
            text = f"Line {line.number} may train on {title}, whose capacity and prices the catalog does not have."
            raise UsageError(text, "Submit such lines without a plan, or write backend sagemaker.")
        finish_by = datetime.fromisoformat(job.finish_by) if job.finish_by else options.finish_by
        hours = (finish_by - options.now).total_seconds() / _SECONDS
        if hours <= 0:
            text = f"Line {line.number}: finish_by {finish_by:%Y-%m-%dT%H:%M:%SZ} has passed."
            raise UsageError(text, "Write a later time.")
        places = training_places(line, facts, deployment, moves=options.moves, hours=hours)
        size = next((place.replica.size for place in places.by_region.values() if place.replica), None)
        by_type = _durations(line, job, durations, size)
        allowed = line.settings.instance_types or ()
        plannable.append(
            PlannableLine(
                line=line,
                values=values[line.number],
                job=job,
                finish_by=finish_by,
                deadline=hours,
                places=places,
                durations=by_type,
                skipped=tuple(name for name in allowed if name not in by_type),
            )
        )
    return plannable


def pools_of(candidates: Sequence[PlannableLine], facts: Facts, now: datetime) -> list[Pool]:
    """Return the pools that candidates can use: those with a price and at least one instance."""
    keys = {key for candidate in candidates for key in candidate.pool_keys}
    return [_pool(key, facts, now) for key in sorted(keys) if key in facts.prices and facts.instances.get(key, 0) > 0]


def _pool(key: PoolKey, facts: Facts, now: datetime) -> Pool:
    plan, on_demand = facts.plans.get(key), facts.prices.get((key[0], key[1], ON_DEMAND))
    starts = (plan.starts_at - now).total_seconds() / _SECONDS if plan and plan.starts_at else 0.0
    ends = (plan.ends_at - now).total_seconds() / _SECONDS - ENDS_BEFORE_PLAN if plan and plan.ends_at else math.inf
    return Pool(
        region=key[0],
        instance_type=key[1],
        option=key[2],
        instances=facts.instances[key],
        dollars=facts.prices[key].dollars,
        on_demand_dollars=on_demand.dollars if on_demand and key[2] == SPOT else 0.0,
        starts=max(0.0, starts),
        until=ends,
    )


def limits_of(candidates: Sequence[PlannableLine], options: Options) -> PlanLimits:
    """Return the limits of a plan."""
    types = {name: candidate.job.processes_per_host for candidate in candidates for name in candidate.durations}
    return PlanLimits(
        hours=max(candidate.deadline for candidate in candidates),
        budget=options.budget,
        accelerators=options.accelerators,
        accelerators_of={name: accelerators(name, ranks) for name, ranks in types.items()},
    )


def _durations(line: Line, job: Job, durations: Durations, size: int | None) -> dict[str, Duration]:
    """Return the durations by instance type; those that the line gives are only of its instance type."""
    recipe, settings = recipe_of(job), line.settings
    types = dict.fromkeys((job.instance_type, *(settings.instance_types or ())))
    past_durations = {name: durations.of_past_runs(recipe, name, size) for name in types}
    duration_by_type = {name: duration for name, duration in past_durations.items() if duration}
    if job.instance_type not in duration_by_type:
        source = LINE if settings.estimated_runtime else MAX_RUNTIME if settings.max_runtime else GUESS
        seconds = settings.estimated_runtime or job.max_runtime_seconds
        duration_by_type[job.instance_type] = Duration(hours=seconds / _SECONDS, source=source)
    return duration_by_type
