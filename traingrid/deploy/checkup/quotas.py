"""Training quotas: checks that SageMaker offers the instance types that jobs request, and in sufficient number."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from traingrid.aws.clients import client
from traingrid.deploy.checkup.finding import Finding, Verdict, run_check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traingrid.aws.clients import ActingRole
    from traingrid.grid.model import GridSettings
    from traingrid.job.job import Job


@dataclass(frozen=True, kw_only=True)
class Need:
    """The number of SageMaker's instances of one type that the jobs in one Region request.

    Pods on Amazon EKS run on nodes of EC2, and do not use SageMaker's quotas.

    Attributes:
        spot: Whether they are spot instances, which have separate quotas.
        largest_job_instances: The number for the largest job; with a smaller quota it can never start.
        all_jobs_instances: The number for all jobs at once; with a smaller quota some jobs wait for others.
    """

    region: str
    instance_type: str
    spot: bool
    largest_job_instances: int
    all_jobs_instances: int

    @property
    def quota(self) -> str:
        """The name of the quota."""
        return quota_name(self.instance_type, spot=self.spot)


def quota_name(instance_type: str, *, spot: bool) -> str:
    """Return the name of the quota on training instances (https://docs.aws.amazon.com/general/latest/gr/sagemaker.html).

    Args:
        spot: Whether they are spot instances, which have separate quotas.
    """
    return f"{instance_type} for {'spot training' if spot else 'training'} job usage"


def listed_quotas(region: str, role: ActingRole | None = None) -> dict[str, dict[str, Any]]:
    """Return SageMaker's quotas in a Region by name, as ListServiceQuotas describes them.

    Raises:
        ClientError: AWS refuses the request.
        BotoCoreError: AWS does not answer.
    """
    pages = (
        client("service-quotas", region, role).get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
    )
    return {quota["QuotaName"]: quota for page in pages for quota in page["Quotas"]}


def grid_needs(grid: GridSettings) -> list[Need]:
    """Return the need of one job with grid.yaml's defaults, in each Region whose `backend` is SageMaker."""
    job = grid.job
    return [
        Need(
            region=region,
            instance_type=job.instance_type,
            spot=False,
            largest_job_instances=job.instance_count,
            all_jobs_instances=job.instance_count,
        )
        for region, settings in grid.regions.items()
        if settings.backend == "sagemaker"
    ]


def job_needs(jobs: Iterable[Job]) -> list[Need]:
    """Return the needs of a manifest's jobs in their first Regions, of jobs that may run on SageMaker there."""
    largest: dict[tuple[str, str, bool], int] = {}
    together: Counter[tuple[str, str, bool]] = Counter()
    for job in jobs:
        if "sagemaker" not in job.backends:
            continue
        key = job.region, job.instance_type, job.spot
        largest[key] = max(largest.get(key, 0), job.instance_count)
        together[key] += job.instance_count
    return [
        Need(
            region=region,
            instance_type=kind,
            spot=spot,
            largest_job_instances=count,
            all_jobs_instances=together[region, kind, spot],
        )
        for (region, kind, spot), count in sorted(largest.items())
    ]


def check_quotas(region: str, needs: list[Need], role: ActingRole | None = None) -> Iterator[Finding]:
    """Check the quota for each need of a Region; `role` is the role to assume in another account."""
    quotas: dict[str, Any] = {}

    def look(need: Need) -> Finding:
        if not quotas:
            quotas.update(listed_quotas(region, role))
        return _finding(need, quotas.get(need.quota))

    for need in needs:
        yield run_check(region, need.quota, partial(look, need), "servicequotas:ListServiceQuotas")


def _finding(need: Need, quota: dict[str, Any] | None) -> Finding:
    """Compare the quota with the needs of one job and of all jobs."""
    finding = partial(Finding, region=need.region, subject=need.quota)
    if quota is None:
        fix = "choose another instance type, or remove the Region from grid.yaml"
        reason = "SageMaker has no such quota: the Region does not offer the instance type"
        return finding(verdict=Verdict.WRONG, reason=reason, fix=fix)
    value, needed = int(quota["Value"]), need.all_jobs_instances
    increase_command = (
        f"aws service-quotas request-service-quota-increase --region {need.region} --service-code sagemaker "
        f"--quota-code {quota['QuotaCode']} --desired-value {needed}"
    )
    if value < need.largest_job_instances:
        reason = f"{value} granted, but one job needs {need.largest_job_instances}: it could never start"
        return finding(verdict=Verdict.WRONG, reason=reason, fix=increase_command)
    if value < needed:
        reason = f"{value} granted, but all jobs at once need {needed}: some wait for others"
        return finding(verdict=Verdict.GOOD, reason=reason, fix=increase_command)
    return finding(verdict=Verdict.GOOD, reason=f"{value} granted, {needed} needed")
