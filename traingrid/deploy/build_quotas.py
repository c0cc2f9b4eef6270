"""Build quotas: CodeBuild's quotas on concurrent builds, one for each Region and compute type.

Names and codes are those of ListServiceQuotas, as published by projects that request increases:
https://github.com/awslabs/landing-zone-accelerator-on-aws (getServiceQuotaCode: L-2DC20C30). CodeBuild's own page lists
the quotas without codes (https://docs.aws.amazon.com/codebuild/latest/userguide/limits.html).
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class BuildQuota:
    """The code and name of a quota in Service Quotas."""

    code: str
    name: str


CONCURRENT_BUILDS = {
    compute: BuildQuota(code=code, name=f"Concurrently running builds for Linux/{size} environment")
    for compute, size, code in (
        ("BUILD_GENERAL1_SMALL", "Small", "L-9D07B6EF"),
        ("BUILD_GENERAL1_MEDIUM", "Medium", "L-2DC20C30"),
        ("BUILD_GENERAL1_LARGE", "Large", "L-4DDC4A99"),
    )
}
"""The quotas on builds on Linux hosts, by compute type."""


def raise_command(compute: str, region: str, builds: int) -> str:
    """Return the AWS CLI command that requests a quota of `builds` concurrent builds of a compute type in a Region."""
    return (
        f"aws service-quotas request-service-quota-increase --region {region} --service-code codebuild "
        f"--quota-code {CONCURRENT_BUILDS[compute].code} --desired-value {builds}"
    )
