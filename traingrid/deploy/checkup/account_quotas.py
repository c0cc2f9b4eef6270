"""Account quotas: checks the home account's quotas of Fargate, CodeBuild, Lambda and VPCs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid.aws.clients import client
from traingrid.deploy.build_quotas import CONCURRENT_BUILDS
from traingrid.deploy.checkup.finding import Finding, Verdict, run_check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid.model import GridSettings

LAMBDA_CONCURRENCY = 10
"""The concurrent executions that a grid needs: its functions use a few at a time, and throttled events are retried for
up to six hours (https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html). New accounts have
10 (https://github.com/awslabs/fhir-works-on-aws-deployment/issues/691)."""

COMPUTE_TYPES = {
    "": "BUILD_GENERAL1_SMALL",
    "cpu": "BUILD_GENERAL1_MEDIUM",
    "gpu": "BUILD_GENERAL1_LARGE",
    "torch": "BUILD_GENERAL1_LARGE",
}
"""The compute type of each image's build, by its target; "" is the orchestrator's (stacks/image_build.py)."""


@dataclass(frozen=True, kw_only=True)
class QuotaNeed:
    """A quota and the value that the grid needs.

    Attributes:
        service: Service code.
        least: The minimum value; with less, the grid does not work.
        enough: The sufficient value; with less, some work waits.
        use: A clause that explains why the quota is needed.
    """

    service: str
    code: str
    name: str
    least: float
    enough: float
    use: str


def account_quotas(grid: GridSettings) -> Iterator[Finding]:
    """Check each quota of the home Region that the deployment and the children need."""
    for need in _quota_needs(grid):
        yield run_check(grid.home, need.name, partial(_look, grid.home, need), "servicequotas:GetServiceQuota")


def vpc_quota(grid: GridSettings) -> Finding:
    """Check that the VPC quota of the home Region allows the VPC that a first deployment creates."""

    def look() -> Finding:
        quota = _value(grid.home, "vpc", "L-F678F1CE")
        ec2 = client("ec2", grid.home)
        vpc_count = sum(len(page["Vpcs"]) for page in ec2.get_paginator("describe_vpcs").paginate())
        if vpc_count < quota:
            reason = f"{quota:g} granted, {vpc_count} exist, 1 needed"
            return Finding(region=grid.home, subject=_VPCS, verdict=Verdict.GOOD, reason=reason)
        reason = f"{quota:g} granted, and {vpc_count} exist: the deployment cannot create its VPC"
        fix = _request(grid.home, "vpc", "L-F678F1CE", vpc_count + 1)
        return Finding(region=grid.home, subject=_VPCS, verdict=Verdict.WRONG, reason=reason, fix=fix)

    return run_check(grid.home, _VPCS, look, "ec2:DescribeVpcs")


_VPCS = "VPCs per Region"


def _quota_needs(grid: GridSettings) -> Iterator[QuotaNeed]:
    """Yield the control plane's needs of AWS Batch, CodeBuild and Lambda."""
    children = grid.orchestrator
    yield QuotaNeed(
        service="fargate",
        code="L-3032A538",
        name="Fargate On-Demand vCPU resource count",
        least=children.vcpu,
        enough=children.max_vcpus,
        use=f"orchestrator.max_vcpus is {children.max_vcpus}; with less, fewer children run at once and the rest wait",
    )
    targets = sorted({"", *grid.targets()})
    for compute in dict.fromkeys(COMPUTE_TYPES[target] for target in targets if target or not children.image_tag):
        quota = CONCURRENT_BUILDS[compute]
        use = "the deployment builds an image of this size"
        yield QuotaNeed(service="codebuild", code=quota.code, name=quota.name, least=1, enough=1, use=use)
    yield QuotaNeed(
        service="lambda",
        code="L-B99A9384",
        name="Lambda concurrent executions",
        least=LAMBDA_CONCURRENCY,
        enough=LAMBDA_CONCURRENCY,
        use="intake, recorder, reconciler and guard run at the same time",
    )


def _look(region: str, need: QuotaNeed) -> Finding:
    value = _value(region, need.service, need.code)
    fix = "" if value >= need.enough else _request(region, need.service, need.code, need.enough)
    verdict = Verdict.GOOD if value >= need.least else Verdict.WRONG
    reason = f"{value:g} granted, {need.enough:g} needed" + (f": {need.use}" if fix else "")
    return Finding(region=region, subject=need.name, verdict=verdict, reason=reason, fix=fix)


def _value(region: str, service: str, code: str) -> float:
    """Return the applied value of a quota, or AWS's default where none is applied (GetServiceQuota, API reference)."""
    quotas: Any = client("service-quotas", region)
    try:
        return float(quotas.get_service_quota(ServiceCode=service, QuotaCode=code)["Quota"]["Value"])
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchResourceException":
            raise
    return float(quotas.get_aws_default_service_quota(ServiceCode=service, QuotaCode=code)["Quota"]["Value"])


def _request(region: str, service: str, code: str, value: float) -> str:
    return (
        f"aws service-quotas request-service-quota-increase --region {region} --service-code {service} "
        f"--quota-code {code} --desired-value {value:g}"
    )
