"""Costs: the dollars of runs, grouped by submission, campaign, Region, tag and other columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from traingrid.catalog.links import EKS
from traingrid.catalog.tables import runs, transfers
from traingrid.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import RowMapping

    from traingrid.catalog.database import Catalog

GROUPS: Mapping[str, Callable[[RowMapping], str]] = {
    "submission": lambda row: str(row["submission"]),
    "job": lambda row: f"{row['submission']} {row['job']} {row['name']}".rstrip(),
    **{name: lambda row, name=name: str(row[name]) for name in ("campaign", "dataset", "region", "instance_type")},  # type: ignore[misc]  # mypy infers no type for this lambda
}
"""The values by which runs are grouped; `tag:KEY` groups by a tag of the job."""
_TAG = "tag:"


@dataclass(kw_only=True)
class Cost:
    """The cost of the runs of one group, in US dollars.

    Attributes:
        runs: The number of runs, including earlier attempts.
        billable_hours: Hours that SageMaker bills, summed over instances.
        actual: The cost of training that has ended.
        transfer: The cost of copying data to the Regions of jobs.
        unpriced: The number of ended runs whose price is unknown.
        unpriced_transfers: The number of transfers whose price is unknown.
    """

    jobs: set[tuple[str, int]] = field(default_factory=set)
    runs: int = 0
    billable_hours: float = 0.0
    estimated: float = 0.0
    actual: float = 0.0
    transfer: float = 0.0
    orchestration: float = 0.0
    unpriced: int = 0
    unpriced_transfers: int = 0

    @property
    def total(self) -> float:
        """The actual cost of training, transfer and orchestration."""
        return self.actual + self.transfer + self.orchestration

    def add(self, row: RowMapping) -> None:
        """Add a run."""
        self.jobs.add((row["submission"], row["job"]))
        self.runs += 1
        on_sagemaker = row["purchase_option"] != EKS
        self.billable_hours += on_sagemaker * (row["billable_seconds"] or 0) * (row["instances"] or 0) / 3600
        self.estimated += row["estimated_dollars"] or 0.0
        self.actual += row["actual_dollars"] or 0.0
        self.orchestration += row["orchestration_dollars"] or 0.0
        self.unpriced += on_sagemaker and bool(row["billable_seconds"]) and row["actual_dollars"] is None

    def add_transfer(self, row: RowMapping) -> None:
        """Add a transfer of one of the jobs."""
        self.transfer += row["dollars"] or 0.0
        self.unpriced_transfers += row["dollars"] is None


def costs(catalog: Catalog, by: str, *, submission: str = "", campaign: str = "") -> dict[str, Cost]:
    """Return the cost of runs by group, most expensive first.

    Args:
        by: A name in `GROUPS`, or "tag:KEY". Runs without the value are in the group "".
        submission: Include only this submission.
        campaign: Include only this campaign.

    Raises:
        UsageError: There is no such group.
        TraingridError: The database does not answer.
    """
    group = _group(by)
    statement = select(runs).order_by(runs.c.submission, runs.c.job, runs.c.attempt)
    for column, selected in ((runs.c.submission, submission), (runs.c.campaign, campaign)):
        statement = statement.where(column == selected) if selected else statement
    cost_by_name: dict[str, Cost] = {}
    name_by_region = dict[tuple[str, int, str], str]()
    name_by_job = dict[tuple[str, int], str]()
    with catalog.read_only() as connection:
        for row in connection.execute(statement).mappings():
            name = group(row)
            cost_by_name.setdefault(name, Cost()).add(row)
            name_by_job[row["submission"], row["job"]] = name
            name_by_region[row["submission"], row["job"], row["region"]] = name
        for row in connection.execute(select(transfers)).mappings():
            # A transfer belongs to the job's last attempt in the Region of the copy, or otherwise its last attempt.
            last_name = name_by_job.get((row["submission"], row["job"]))
            if last_name is not None:
                name = name_by_region.get((row["submission"], row["job"], row["to_region"]), last_name)
                cost_by_name[name].add_transfer(row)
    return dict(sorted(cost_by_name.items(), key=lambda entry: (-entry[1].total, entry[0])))


def _group(by: str) -> Callable[[RowMapping], str]:
    if by in GROUPS:
        return GROUPS[by]
    tag = by.removeprefix(_TAG)
    if not by.startswith(_TAG) or not tag:
        raise UsageError(f"Costs have no group {by}.", f"The groups are {', '.join(GROUPS)} and {_TAG}KEY.")

    def of_tag(row: Any) -> str:
        return str(row["tags"].get(tag, ""))

    return of_tag
