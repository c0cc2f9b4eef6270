"""Capacity refresh: reads quotas on training instances and training plans from AWS into the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.training_plans import training_plans
from traingrid.catalog.batches import delete_rows, upsert
from traingrid.catalog.refresh_prices import ON_DEMAND, SPOT
from traingrid.catalog.tables import capacity
from traingrid.deploy.checkup.quotas import listed_quotas, quota_name
from traingrid.errors import TraingridError
from traingrid.threads import map_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date

    from sqlalchemy import Connection

    from traingrid.aws.clients import ActingRole
    from traingrid.aws.training_plans import TrainingPlan
    from traingrid.catalog.database import Catalog
    from traingrid.grid.model import GridSettings


@dataclass(frozen=True, kw_only=True)
class CapacityRead:
    """The result of reading capacity.

    Attributes:
        quotas: Rows of the table `capacity` without a training plan.
        plans: Rows of the table `capacity` with one.
        regions: The account of each Region that was read.
        problems: The Regions that could not be read and the plans that were left out, each with the reason.
    """

    quotas: Sequence[Mapping[str, Any]]
    plans: Sequence[Mapping[str, Any]]
    regions: Mapping[str, str]
    problems: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class _OfRegion:
    quotas: list[dict[str, Any]]
    plans: list[TrainingPlan]


def read_capacity(
    grid: GridSettings, account: str, acting_role_in: Callable[[str], ActingRole | None], today: date
) -> CapacityRead:
    """Read the quotas of the grid's instance types, and all training plans, in its training Regions.

    Args:
        account: The account of Regions without one.
        acting_role_in: Returns the role to assume in a Region of another account.
    """
    quotas: list[dict[str, Any]] = []
    plans: list[dict[str, Any]] = []
    regions: dict[str, str] = {}
    problems: list[str] = []
    read_region = partial(_read, types=grid.allowed_instance_types(), acting_role_in=acting_role_in, today=today)
    for region, region_capacity in zip(
        grid.regions, map_in_order(read_region, grid.regions, len(grid.regions)), strict=True
    ):
        if isinstance(region_capacity, str):
            problems.append(f"{region}: {region_capacity}")
            continue
        regions[region] = grid.account_of(region, account)
        quotas += region_capacity.quotas
        for plan in region_capacity.plans:
            if len(plan.instance_types) == 1:
                plans.append(_row_of_plan(region, plan, today))
            else:
                kinds = ", ".join(plan.instance_types) or "none"
                problems.append(f"{plan.arn}: its instance types are {kinds}; a row needs exactly one")
    return CapacityRead(quotas=quotas, plans=plans, regions=regions, problems=problems)


def write_capacity(catalog: Catalog, read: CapacityRead) -> None:
    """Write capacity in one transaction, and delete the plans of the same Regions that have ended or are gone.

    Raises:
        TraingridError: No Region could be read, or the database does not answer.
    """
    if not read.regions:
        message = "AWS did not report the capacity of any Region, and the catalog was not changed."
        raise TraingridError("\n".join([message, *read.problems]), "Check the credentials and their permissions.")
    catalog.write(partial(_write, read=read))


def _write(connection: Connection, read: CapacityRead) -> None:
    for region, account in read.regions.items():
        arns = f"arn:aws:sagemaker:{region}:{account}:training-plan/%"
        delete_rows(connection, capacity, capacity.c.training_plan.like(arns))
    upsert(connection, capacity, [*read.quotas, *read.plans])


def _read(
    region: str, types: Sequence[str], acting_role_in: Callable[[str], ActingRole | None], today: date
) -> _OfRegion | str:
    """Return the capacity of a Region, or the reason why it cannot be read."""
    try:
        role = acting_role_in(region)
        quotas, plans = listed_quotas(region, role), training_plans(region, role)
    except (ClientError, BotoCoreError) as error:
        return str(error)
    rows = [_row_of_quota(region, kind, option, quotas, today) for kind in types for option in (ON_DEMAND, SPOT)]
    return _OfRegion(quotas=rows, plans=plans)


def _row_of_quota(
    region: str, kind: str, option: str, quotas: Mapping[str, Mapping[str, Any]], today: date
) -> dict[str, Any]:
    """Return the row of a quota; without the quota, SageMaker does not offer the instance type in the Region."""
    quota = quotas.get(quota_name(kind, spot=option == SPOT))
    return {
        "region": region,
        "instance_type": kind,
        "purchase_option": option,
        "training_plan": "",
        "instances": int(quota["Value"]) if quota else 0,
        "starts_at": None,
        "ends_at": None,
        "as_of": today,
        "source": f"Service Quotas {quota['QuotaCode']}" if quota else "Service Quotas: no such quota",
    }


def _row_of_plan(region: str, plan: TrainingPlan, today: date) -> dict[str, Any]:
    """Return the capacity of a training plan, which has one instance type; its instances are not interrupted."""
    return {
        "region": region,
        "instance_type": plan.instance_types[0],
        "purchase_option": ON_DEMAND,
        "training_plan": plan.arn,
        "instances": plan.instances,
        "starts_at": plan.starts_at,
        "ends_at": plan.ends_at,
        "as_of": today,
        "source": f"SageMaker ListTrainingPlans, {plan.status}",
    }
