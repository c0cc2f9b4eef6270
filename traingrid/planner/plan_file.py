"""Plan file: a plan as JSON Lines, which a person can review and `traingrid plan --apply` submits.

The first line has the options and the facts that the plan used, each further one a job, and the last one the SHA-256 of
all bytes before it. The same plan always has the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from traingrid.errors import UsageError
from traingrid.ledger.timestamps import timestamp
from traingrid.planner.pool_keys import ON_DEMAND, SPOT
from traingrid.planner.training_places import planned_values
from traingrid.strict_json import JsonError, json_object, member

if TYPE_CHECKING:
    from datetime import datetime

    from traingrid.planner.facts import Facts
    from traingrid.planner.plan import Assignment, Plan
    from traingrid.planner.pool_keys import PoolKey

_MONEY_DIGITS = 4


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class UsedPrice(_Part):
    """A price of an instance-hour."""

    region: str
    instance_type: str
    purchase_option: str
    dollars_per_hour: float
    as_of: str
    source: str


class UsedTransferPrice(_Part):
    """A price of the transfer of a GB."""

    from_region: str
    to_region: str
    dollars_per_gb: float
    as_of: str
    source: str


class UsedQuota(_Part):
    """The instances that may run at once."""

    region: str
    instance_type: str
    purchase_option: str
    instances: int


class UsedReplica(_Part):
    """A dataset version in a Region."""

    dataset: str
    version: str
    region: str
    uri: str
    bytes: int | None
    objects: int | None


class Header(_Part):
    """The first line of a plan file."""

    plan: Literal[1] = 1
    planned_at: str
    finish_by: str
    budget_dollars: float | None
    accelerators: float | None
    jobs: int
    unplaced: int
    dollars: float
    gap: float
    prices: tuple[UsedPrice, ...]
    transfer_prices: tuple[UsedTransferPrice, ...]
    quotas: tuple[UsedQuota, ...]
    replicas: tuple[UsedReplica, ...]


class PlannedLine(_Part):
    """A line of a plan file that is a job.

    `line` is the line number in the original manifest, `move` the Region from which data must be copied, `duration` the
    source of the expected hours, and `job` the values of the line for the intake.
    """

    line: Annotated[int, Field(ge=1)]
    verdict: str
    hours: float
    duration: str
    move: str = ""
    job: dict[str, Any]


class UnplacedLine(_Part):
    """A line of a plan file that could not be placed; it is not submitted."""

    line: Annotated[int, Field(ge=1)]
    unplaced: str
    next_step: str


class PlanFile(_Part):
    """The content of a plan file."""

    header: Header
    lines: tuple[PlannedLine, ...]
    sha256: str

    @property
    def manifest(self) -> bytes:
        """The manifest of the placed lines."""
        jobs = [json.dumps(line.job) for line in self.lines]
        return "\n".join([f"# jobs: {len(jobs)}", *jobs, ""]).encode()

    def original_line(self, number: int) -> int:
        """Return the line number in the original manifest of a line of `manifest`, whose first line is a comment."""
        return self.lines[number - 2].line


def written(plan: Plan, facts: Facts) -> bytes:
    """Return the plan file of a plan."""
    lines: list[BaseModel] = [_header(plan, facts)]
    lines += [_planned_line(assignment, plan, facts) for assignment in plan.assignments]
    lines += [
        UnplacedLine(line=shortage.candidate.line.number, unplaced=shortage.reason, next_step=shortage.next_step)
        for shortage in plan.shortages
    ]
    content = "".join(json.dumps(line.model_dump()) + "\n" for line in lines).encode()
    return content + json.dumps({"sha256": hashlib.sha256(content).hexdigest()}).encode() + b"\n"


def read(content: bytes, name: str) -> PlanFile:
    """Return the content of a plan file.

    Args:
        name: Its name, for errors.

    Raises:
        UsageError: It is not a plan file, is incomplete, or was edited.
    """
    body, _, last = content.rstrip(b"\n").rpartition(b"\n")
    body += b"\n"
    try:
        expected = member(json_object(last), "sha256", str)
    except JsonError:
        text = f"{name} is not a complete plan: its last line is not a SHA-256."
        raise UsageError(text, "Write a plan: traingrid plan MANIFEST --to FILE.") from None
    if expected != hashlib.sha256(body).hexdigest():
        text = f"{name} was edited after it was planned: its SHA-256 differs."
        raise UsageError(text, "Change the manifest, and plan again: traingrid plan MANIFEST --to FILE.")
    first, *further_lines = body.splitlines()
    try:
        header = Header.model_validate_json(first)
        lines = [PlannedLine.model_validate_json(line) for line in further_lines[: header.jobs]]
    except ValidationError:
        text = f"{name} is not a plan of this version of traingrid."
        raise UsageError(text, "Plan again: traingrid plan MANIFEST --to FILE.") from None
    return PlanFile(header=header, lines=tuple(lines), sha256=expected)


def _header(plan: Plan, facts: Facts) -> Header:
    options = plan.options
    pools = sorted({assignment.pool.key for assignment in plan.assignments})
    priced = sorted({*pools, *map(_billed, pools)} & facts.prices.keys())
    moved = {
        (assignment.place.source.region, assignment.place.region)
        for assignment in plan.assignments
        if assignment.place.source
    }
    used = {assignment.place.replica for assignment in plan.assignments if assignment.place.replica}
    prices = [(key, facts.prices[key]) for key in priced]
    return Header(
        planned_at=_text(options.now),
        finish_by=_text(options.finish_by),
        budget_dollars=_finite(options.budget),
        accelerators=_finite(options.accelerators),
        jobs=len(plan.assignments),
        unplaced=len(plan.shortages),
        dollars=round(plan.dollars, _MONEY_DIGITS),
        gap=round(plan.gap, 6),
        prices=tuple(
            UsedPrice(**_pool(key), dollars_per_hour=price.dollars, as_of=price.as_of.isoformat(), source=price.source)
            for key, price in prices
        ),
        transfer_prices=tuple(
            UsedTransferPrice(
                from_region=key[0],
                to_region=key[1],
                dollars_per_gb=facts.transfer[key].dollars,
                as_of=facts.transfer[key].as_of.isoformat(),
                source=facts.transfer[key].source,
            )
            for key in sorted(moved)
        ),
        quotas=tuple(UsedQuota(**_pool(key), instances=facts.instances[key]) for key in pools),
        replicas=tuple(
            UsedReplica(
                dataset=used_replica.dataset,
                version=used_replica.version,
                region=used_replica.region,
                uri=used_replica.uri,
                bytes=used_replica.size,
                objects=used_replica.objects,
            )
            for used_replica in sorted(used, key=lambda replica: (replica.dataset, replica.version, replica.region))
        ),
    )


def _planned_line(assignment: Assignment, plan: Plan, facts: Facts) -> PlannedLine:
    values = planned_values(dict(assignment.candidate.values), assignment.candidate.line, assignment.place)
    spot = assignment.pool.option == SPOT
    if not spot:
        values.pop("max_wait", None)  # only valid with spot
    if spot or assignment.candidate.job.spot:
        values["spot"] = spot
    values |= _patience(assignment, plan) if spot else {}
    budget = _finite(plan.options.budget)
    values |= {"instance_type": assignment.pool.instance_type, "finish_by": _text(assignment.candidate.finish_by)}
    values |= {"estimated_dollars": round(assignment.dollars, _MONEY_DIGITS)}
    if assignment.duration.source != "the line":
        values["estimated_runtime"] = f"{math.ceil(assignment.duration.hours * 60)}m"
    values |= {} if budget is None else {"budget_dollars": budget}
    values.pop("spot_dollars_per_hour", None)  # of an earlier plan
    values |= _hourly(assignment, facts)
    return PlannedLine(
        line=assignment.candidate.line.number,
        verdict=assignment.verdict,
        hours=round(assignment.duration.hours, _MONEY_DIGITS),
        duration=assignment.duration.source,
        move=assignment.place.source.region if assignment.place.source else "",
        job=values,
    )


def _patience(assignment: Assignment, plan: Plan) -> dict[str, str]:
    """Return the `max_wait` of a spot job in a queue, until its deadline; the child of another one watches that."""
    job = assignment.candidate.job
    if job.launch == "direct":
        return {}
    left = (assignment.candidate.finish_by - plan.options.now).total_seconds()
    seconds = max(job.max_runtime_seconds, left)
    return {"max_wait": f"{math.ceil(seconds / 60)}m"} if seconds < job.max_wait_seconds else {}


def _hourly(assignment: Assignment, facts: Facts) -> dict[str, float]:
    """Return the prices by which the reconciler counts the dollars of a line; 0 on a training plan."""
    price = facts.prices.get(_billed(assignment.pool.key))
    prices = {"dollars_per_hour": price.dollars if price else assignment.pool.dollars}
    return prices | ({"spot_dollars_per_hour": assignment.pool.dollars} if assignment.pool.option == SPOT else {})


def _billed(key: PoolKey) -> PoolKey:
    """Return the pool whose price SageMaker bills: on demand for spot instances (traingrid/catalog/links.py)."""
    region, instance_type, option = key
    return region, instance_type, ON_DEMAND if option == SPOT else option


def _pool(key: tuple[str, str, str]) -> dict[str, Any]:
    return dict(zip(("region", "instance_type", "purchase_option"), key, strict=True))


def _text(time: datetime) -> str:
    return timestamp(time.timestamp())


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
