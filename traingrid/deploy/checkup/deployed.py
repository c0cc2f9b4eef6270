"""Deployed resources: checks stacks, buckets, execution roles and the images that jobs pull."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.aws.clients import ActingRole, client
from traingrid.deploy.checkup.finding import DEPLOY as _DEPLOY
from traingrid.deploy.checkup.finding import (
    DEPLOY_THIS_FILE,
    DIFFERS,
    REVERT_DRIFT,
    Finding,
    Verdict,
    build_again,
    run_check,
)
from traingrid.deploy.region_guard import removed_by_force
from traingrid.grid.deployment import Deployment
from traingrid.grid.image import Image
from traingrid.grid.model import GridSettings
from traingrid.manifest.resource_checks import image_request
from traingrid.strict_json import json_object

NOT_DEPLOYED = "not deployed"


def stack(name: str, region: str, role: ActingRole | None = None) -> Finding:
    """Check that a stack exists and its last operation succeeded."""

    def look() -> Finding:
        try:
            status = client("cloudformation", region, role).describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
        except ClientError as error:
            if "does not exist" not in error.response["Error"].get("Message", ""):
                raise
            return Finding(
                region=region, subject=f"stack {name}", verdict=Verdict.WRONG, reason=NOT_DEPLOYED, fix=_DEPLOY
            )
        is_complete = status in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")
        fix = "" if is_complete else f"find the cause in the CloudFormation console of {region}, then {_DEPLOY}"
        if status == "DELETE_FAILED":  # a deployment cannot update this stack
            fix = (
                f"to keep the grid: {removed_by_force(name, region)}, then {_DEPLOY}; "
                "otherwise: npx cdk destroy --all again"
            )
        verdict = Verdict.GOOD if is_complete else Verdict.WRONG
        return Finding(region=region, subject=f"stack {name}", verdict=verdict, reason=status, fix=fix)

    return run_check(region, f"stack {name}", look, "cloudformation:DescribeStacks")


def built(grid: GridSettings) -> dict[str, str]:
    """Return the outputs of the builds stack: the images of the last deployment; empty if they cannot be read."""
    try:
        stacks = client("cloudformation", grid.home).describe_stacks(StackName=names.builds_stack(grid.name))["Stacks"]
    except (BotoCoreError, ClientError):  # the check of the stack reports this error
        return {}
    return {output["OutputKey"]: output["OutputValue"] for output in stacks[0].get("Outputs", [])}


def things_of(
    grid: GridSettings, account: str, region: str, training_images: str, role: ActingRole | None = None
) -> Iterator[Finding]:
    """Check the resources, other than the stack, that jobs in a training Region need.

    Args:
        training_images: The built images, as `Deployment.images` in JSON; empty if they cannot be read.
    """
    own_buckets = {names.data_bucket(grid.name, account, region), names.output_bucket(grid.name, account, region)}
    for bucket in (*grid.data_buckets(account, region), names.output_bucket(grid.name, account, region)):
        yield _bucket(bucket, region, role, own=bucket in own_buckets)
    yield _role(names.execution_role(grid.name, region), region, role)
    deployment = Deployment(
        grid=grid, account=account, table="", manifest_bucket="", images=json_object(training_images or "{}")
    )
    for alias, settings in grid.images.items():
        if settings.build and settings.target not in deployment.images:
            yield _missing_image_finding(region, alias, settings, read=bool(training_images))
            continue
        uri = deployment.image_uri(alias, region)
        if names.repository_uri(account, region, "") in uri:
            yield image(f"image {alias}", uri, region, role, rebuild=grid.rebuild)


def image(subject: str, uri: str, region: str, role: ActingRole | None = None, *, rebuild: int = 0) -> Finding:
    """Check that an image of this account is in its repository; `rebuild` is the value in grid.yaml."""
    tag = uri.rpartition("/")[2].partition("@" if "@" in uri else ":")[2]

    def look() -> bool:
        return bool(client("ecr", region, role).describe_images(**image_request(uri))["imageDetails"])

    fix = build_again(rebuild) if "@" in uri else f"build and push it as {uri} (docs/images.md)"
    absent = _absent_finding(region, f"{subject} ({tag})", fix)
    return _finding_unless_absent(
        absent, look, "ecr:DescribeImages", "ImageNotFoundException", "RepositoryNotFoundException"
    )


def _bucket(bucket: str, region: str, role: ActingRole | None, *, own: bool) -> Finding:
    def look() -> bool:
        client("s3", region, role).head_bucket(Bucket=bucket)
        return True

    place = "" if region == "us-east-1" else f" --create-bucket-configuration LocationConstraint={region}"
    create = f"aws s3api create-bucket --region {region} --bucket {bucket}{place}  # or correct its name in grid.yaml"
    absent = _absent_finding(region, f"bucket {bucket}", REVERT_DRIFT if own else create)
    return _finding_unless_absent(absent, look, "s3:ListBucket", "404", "NoSuchBucket", "301")


def _role(name: str, region: str, role: ActingRole | None) -> Finding:
    """Check that an execution role exists and, in the caller's own account, has a policy."""
    iam = client("iam", region, role)

    def look() -> bool:
        iam.get_role(RoleName=name)
        return True

    finding = _finding_unless_absent(
        _absent_finding(region, f"role {name}", REVERT_DRIFT), look, "iam:GetRole", "NoSuchEntity"
    )
    if finding.verdict is not Verdict.GOOD or role:
        return finding

    def policies() -> Finding:
        inline = iam.list_role_policies(RoleName=name)["PolicyNames"]
        if inline or iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
            return finding
        reason = "the role has no policy: training jobs cannot read data"
        return replace(finding, verdict=Verdict.WRONG, reason=reason, fix=REVERT_DRIFT)

    return run_check(region, f"role {name}", policies, "iam:ListRolePolicies and iam:ListAttachedRolePolicies")


def _missing_image_finding(region: str, alias: str, image: Image, *, read: bool) -> Finding:
    """Return the finding of an image that is not among the built ones; `read` is False if these are unknown."""
    if read:
        reason = f"{DIFFERS}: it has not built the target {image.target} of {image.build}"
        fix = DEPLOY_THIS_FILE
        return Finding(region=region, subject=f"image {alias}", verdict=Verdict.WRONG, reason=reason, fix=fix)
    reason = "the stack of builds in the home Region, whose outputs name the built images, cannot be read"
    return Finding(region=region, subject=f"image {alias}", verdict=Verdict.UNKNOWN, reason=reason)


def _absent_finding(region: str, subject: str, fix: str) -> Finding:
    return Finding(region=region, subject=subject, verdict=Verdict.WRONG, reason="does not exist", fix=fix)


def _finding_unless_absent(absent: Finding, look: Callable[[], bool], permission: str, *missing: str) -> Finding:
    """Return `absent` if `look` returns False or AWS answers with a code in `missing`; otherwise a good finding."""

    def finding() -> Finding:
        try:
            exists = look()
        except ClientError as error:
            if error.response["Error"]["Code"] not in missing:
                raise
            exists = False
        return replace(absent, verdict=Verdict.GOOD, reason="", fix="") if exists else absent

    return run_check(absent.region, absent.subject, finding, permission)
