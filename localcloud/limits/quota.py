"""Quotas of an AWS account that localcloud enforces: AWS's default, a young account's value, and the sources."""

from dataclasses import dataclass
from typing import Literal

AccountProfile = Literal["young", "grown"]
"""`young`: the lowest values that new accounts have reported. `grown`: an account's values after increases."""

PROFILES: tuple[AccountProfile, ...] = ("young", "grown")

_ECS = "https://docs.aws.amazon.com/general/latest/gr/ecs-service.html"
_LAMBDA = "https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"
_CODEBUILD = "https://docs.aws.amazon.com/codebuild/latest/userguide/limits.html"
_VPC = "https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html"
_NO_BUILDS = "https://github.com/hashicorp-education/learn-terraform-aws-control-tower-aft/issues/7"
_ONE_BUILD = "https://github.com/aws-samples/aws-gateway-load-balancer-suricata-ids-ips-nsm/issues/12"
_LARGE_BUILDS = "https://github.com/rebuy-de/aws-nuke/issues/1209"
_TEN_CONCURRENT = "https://github.com/awslabs/fhir-works-on-aws-deployment/issues/691"
NO_INSTANCES = "https://github.com/awslabs/amazon-sagemaker-examples/issues/593"
"""New accounts have 0 instances of every training instance type, regardless of the documented defaults."""


@dataclass(frozen=True, kw_only=True)
class Quota:
    """A quota per account and Region.

    Attributes:
        service: Service code in Service Quotas.
        service_name: The service's full name.
        default: AWS's documented default.
        young: Value in the profile `young`.
        grown: Value in the profile `grown`.
        sources: Sources of the default and the young value.
        adjustable: True if AWS accepts requests for an increase.
    """

    service: str
    service_name: str
    code: str
    name: str
    default: float
    young: float
    grown: float
    sources: tuple[str, ...]
    adjustable: bool = True

    def value(self, profile: AccountProfile) -> float:
        """Return the initial value in an account with a profile."""
        return self.young if profile == "young" else self.grown


def _builds(code: str, size: str, young: float, source: str) -> Quota:
    return Quota(
        service="codebuild",
        service_name="AWS CodeBuild",
        code=code,
        name=f"Concurrently running builds for Linux/{size} environment",
        default=60,
        young=young,
        grown=60,
        sources=(_CODEBUILD, source),
    )


FARGATE_VCPUS = Quota(
    service="fargate",
    service_name="AWS Fargate",
    code="L-3032A538",
    name="Fargate On-Demand vCPU resource count",
    default=6,
    young=6,
    grown=4000,
    sources=(_ECS,),
)
LAMBDA_CONCURRENCY = Quota(
    service="lambda",
    service_name="AWS Lambda",
    code="L-B99A9384",
    name="Concurrent executions",
    default=1000,
    young=10,
    grown=1000,
    sources=(_LAMBDA, _TEN_CONCURRENT),
)
VPCS = Quota(
    service="vpc",
    service_name="Amazon Virtual Private Cloud (Amazon VPC)",
    code="L-F678F1CE",
    name="VPCs per Region",
    default=5,
    young=5,
    grown=100,
    sources=(_VPC,),
)
BUILDS = {
    "BUILD_GENERAL1_SMALL": _builds("L-9D07B6EF", "Small", 1, _ONE_BUILD),
    "BUILD_GENERAL1_MEDIUM": _builds("L-2DC20C30", "Medium", 1, _ONE_BUILD),
    "BUILD_GENERAL1_LARGE": _builds("L-4DDC4A99", "Large", 0, _NO_BUILDS),
    "BUILD_GENERAL1_2XLARGE": _builds("L-0397D009", "2XLarge", 0, _LARGE_BUILDS),
}
"""Quotas on concurrent builds, by the compute type of a build environment of type LINUX_CONTAINER."""

QUOTAS: tuple[Quota, ...] = (FARGATE_VCPUS, LAMBDA_CONCURRENCY, VPCS, *BUILDS.values())
"""Every quota except those on training instances, which exist for each instance type."""
