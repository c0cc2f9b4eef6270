"""The account before anything is deployed: credentials, Regions that are switched on, and the CDK's bootstrap."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.checkup.finding import Finding, Verdict, looked
from traingrid.clients import client
from traingrid.errors import TraingridError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid import Grid

OLDEST_BOOTSTRAP = 6
"""The templates of this CDK refuse an older one (their rule CheckBootstrapVersion)."""


def caller(home: str) -> tuple[str, str]:
    """Return the account and the ARN that the credentials are of.

    Raises:
        TraingridError: There are none, or AWS does not take them.
    """
    try:
        identity: dict[str, Any] = client("sts", home).get_caller_identity()
    except (BotoCoreError, ClientError) as error:
        step = (
            'Set them as for the AWS CLI (aws sts get-caller-identity); for a local AWS: eval "$(traingrid local up)".'
        )
        raise TraingridError(f"AWS does not take these credentials: {error}.", step) from error
    return identity["Account"], identity["Arn"]


def switched_on(grid: Grid) -> Iterator[Finding]:
    """Yield for the home Region and each training Region whether the account has it switched on."""
    regions = sorted({grid.home, *grid.regions})
    statuses: dict[str, str] = {}

    def look(region: str) -> Finding:
        if not statuses:
            found = client("ec2", grid.home).describe_regions(AllRegions=True)["Regions"]
            statuses.update({it["RegionName"]: it["OptInStatus"] for it in found})
        status = statuses.get(region, "not-opted-in")
        if status == "not-opted-in":
            mend = f"aws account enable-region --region-name {region}  # or take it out of grid.yaml"
            why = "the account has not opted in to it"
            return Finding(region=region, what="Region", verdict=Verdict.WRONG, why=why, mend=mend)
        return Finding(region=region, what="Region", verdict=Verdict.GOOD, why=status)

    for region in regions:
        yield looked(region, "Region", partial(look, region), "ec2:DescribeRegions")


def bootstrapped(account: str, region: str) -> Finding:
    """Return whether a Region is bootstrapped for this CDK."""
    mend = f"npx cdk bootstrap aws://{account}/{region}"

    def look() -> Finding:
        ssm = client("ssm", region)
        try:
            version = int(ssm.get_parameter(Name=names.BOOTSTRAP)["Parameter"]["Value"])
        except ssm.exceptions.ParameterNotFound:
            why = "the CDK is not bootstrapped here"
            return Finding(region=region, what="bootstrap", verdict=Verdict.WRONG, why=why, mend=mend)
        if version < OLDEST_BOOTSTRAP:
            why = f"version {version}, and {OLDEST_BOOTSTRAP} is needed"
            return Finding(region=region, what="bootstrap", verdict=Verdict.WRONG, why=why, mend=mend)
        return Finding(region=region, what="bootstrap", verdict=Verdict.GOOD, why=f"version {version}")

    return looked(region, "bootstrap", look, "ssm:GetParameter")
