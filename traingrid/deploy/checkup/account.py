"""Account checks: verifies credentials, enabled Regions and the CDK's bootstrap, before any deployment."""

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.aws.clients import ActingRole, client
from traingrid.deploy.checkup.finding import Finding, Verdict, run_check
from traingrid.errors import TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings

OLDEST_BOOTSTRAP = 6
"""The oldest bootstrap version that this CDK's templates accept (their rule CheckBootstrapVersion)."""

TRUSTING = "--trust {} --cloudformation-execution-policies arn:aws:iam::aws:policy/AdministratorAccess"
"""The options of `cdk bootstrap` that let another account deploy into an account
(https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html)."""

UNKNOWN_PRINCIPAL = "ARN-OF-YOUR-ROLE"
"""The placeholder in commands for the ARN of the caller's role."""


def caller(home: str) -> tuple[str, str]:
    """Return the account and the ARN of the credentials.

    Raises:
        TraingridError: No credentials were found, or AWS rejected them.
    """
    try:
        identity: dict[str, Any] = client("sts", home).get_caller_identity()
    except (BotoCoreError, ClientError) as error:
        step = (
            'Set them as for the AWS CLI (aws sts get-caller-identity); for a local AWS: eval "$(traingrid local up)".'
        )
        raise TraingridError(f"AWS does not accept these credentials: {error}.", step) from error
    return identity["Account"], identity["Arn"]


def principal(home: str) -> str:
    """Return the ARN of the caller's IAM role or user; UNKNOWN_PRINCIPAL if it cannot be found.

    AWS STS returns the ARN of a role's session, which lacks the role's path. An access entry of EKS requires the ARN of
    the role, with its path (https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html).

    Args:
        home: The Region whose endpoint is used.
    """
    try:
        _, arn = caller(home)
        kind, _, name = arn.rpartition(":")[2].partition("/")
        if kind == "assumed-role":
            role = client("iam", home).get_role(RoleName=name.partition("/")[0])["Role"]
            return str(role["Arn"])
    except (BotoCoreError, ClientError, TraingridError):
        return UNKNOWN_PRINCIPAL
    return arn if kind == "user" else UNKNOWN_PRINCIPAL


def acting_as(grid: GridSettings, home: str, region: str) -> ActingRole | None:
    """Return the role that a caller of the home Region's account, `home`, assumes in another account's Region."""
    return Deployment(grid=grid, account=home, table="", manifest_bucket="").acting_role_in(region)


def reading_role(grid: GridSettings, account: str, region: str) -> ActingRole | None:
    """Return the role that a caller assumes to read a training Region; None if it is in the caller's own account."""
    home = grid.account or account
    return None if grid.account_of(region, home) == account else acting_as(grid, home, region)


def reaches(region: str, role: ActingRole) -> bool:
    """Return True if the caller can assume a role."""
    try:
        client("sts", region, role).get_caller_identity()
    except (BotoCoreError, ClientError):
        return False
    return True


def unchecked_finding(region: str, account: str) -> Finding:
    """Return the finding that a Region of another account was not checked."""
    reason = "the caller cannot assume a role there: the grid is not deployed there, or the caller lacks the permission"
    fix = f"AWS_PROFILE=<a profile of account {account}> traingrid doctor"
    return Finding(region=region, subject=f"account {account}", verdict=Verdict.UNKNOWN, reason=reason, fix=fix)


def switched_on(home: str, regions: Collection[str], role: ActingRole | None = None) -> Iterator[Finding]:
    """Check that the Regions of one account are enabled.

    Args:
        home: The Region whose endpoint is used.
    """
    statuses: dict[str, str] = {}

    def look(region: str) -> Finding:
        if not statuses:
            descriptions = client("ec2", home, role).describe_regions(AllRegions=True)["Regions"]
            statuses.update({description["RegionName"]: description["OptInStatus"] for description in descriptions})
        status = statuses.get(region, "not-opted-in")
        if status == "not-opted-in":
            fix = f"aws account enable-region --region-name {region}  # or remove it from grid.yaml"
            reason = "the account has not opted in to this Region"
            return Finding(region=region, subject="Region", verdict=Verdict.WRONG, reason=reason, fix=fix)
        return Finding(region=region, subject="Region", verdict=Verdict.GOOD, reason=status)

    for region in sorted(regions):
        yield run_check(region, "Region", partial(look, region), "ec2:DescribeRegions")


def check_bootstrap(account: str, region: str, role: ActingRole | None = None, *, trust: str = "") -> Finding:
    """Check that a Region is bootstrapped for this CDK.

    Args:
        trust: The account that deploys to the Region, if it is another one.
    """
    fix = f"npx cdk bootstrap aws://{account}/{region}{f' {TRUSTING.format(trust)}' if trust else ''}"

    def look() -> Finding:
        ssm = client("ssm", region, role)
        try:
            version = int(ssm.get_parameter(Name=names.BOOTSTRAP)["Parameter"]["Value"])
        except ssm.exceptions.ParameterNotFound:
            reason = "the CDK is not bootstrapped here"
            return Finding(region=region, subject="bootstrap", verdict=Verdict.WRONG, reason=reason, fix=fix)
        if version < OLDEST_BOOTSTRAP:
            reason = f"version {version}, but {OLDEST_BOOTSTRAP} or later is needed"
            return Finding(region=region, subject="bootstrap", verdict=Verdict.WRONG, reason=reason, fix=fix)
        return Finding(region=region, subject="bootstrap", verdict=Verdict.GOOD, reason=f"version {version}")

    return run_check(region, "bootstrap", look, "ssm:GetParameter")
