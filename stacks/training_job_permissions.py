"""Training jobs of a grid: the resources of permissions for them, and the conditions on creating them."""

from collections.abc import Iterable
from typing import Any

from aws_cdk import Aws

from traingrid import names
from traingrid.grid.model import GridSettings
from traingrid.grid.region import Region

WHOSE = "Training jobs of this grid in its Regions: their names begin with the grid's name and a submission"
"""Reason for the wildcards in permissions for `training_jobs`."""

TAGS_OF_A_LINE = (names.TAG_SUBMISSION, names.TAG_JOB, names.TAG_FINGERPRINT)
"""Tags that every training job has for its line; their values differ."""

_FILE_SYSTEM = "sagemaker:FileSystemId"

Conditions = dict[str, dict[str, Any]]
"""IAM's condition block: operator, condition key, value."""


def training_jobs(grid: GridSettings, regions: Iterable[str]) -> list[str]:
    """Return the ARN patterns of a grid's training jobs in the role's own account, one for each of `regions`."""
    prefix = f"training-job/{names.training_job_pattern(grid.name)}"
    return [f"arn:aws:sagemaker:{region}:{Aws.ACCOUNT_ID}:{prefix}" for region in regions]


def training_plans(grid: GridSettings, regions: Iterable[str]) -> list[str]:
    """Return the ARNs of the training plans that lines may use, and the patterns of their reserved capacities.

    CreateTrainingJob with a plan is authorized on both
    (https://docs.aws.amazon.com/sagemaker/latest/dg/training-plan-iam-permissions.html).
    """
    arns: list[str] = []
    for region in regions:
        service = f"arn:aws:sagemaker:{region}:{Aws.ACCOUNT_ID}"
        plans = grid.regions[region].training_plans
        if plans:
            arns += [*(f"{service}:training-plan/{plan}" for plan in plans), f"{service}:reserved-capacity/*"]
    return arns


def alike(grid: GridSettings, regions: Iterable[str]) -> list[list[str]]:
    """Return the Regions in groups that have the same IAM conditions on training jobs.

    All Regions with a VPC form one group, even if their subnets differ: a subnet belongs to one Region, and SageMaker
    only finds it there. A statement for each of twelve Regions would exceed the size limit of a role's policies.
    """
    groups = (
        [name for name in regions if bool(grid.regions[name].subnets) is has_network] for has_network in (False, True)
    )
    return [group for group in groups if group]


def creation_conditions(grid: GridSettings, regions: Iterable[str]) -> Conditions:
    """Return the conditions on CreateTrainingJob in `regions`, a group of `alike`.

    ForAllValues also matches a key that is missing in the request, so each has a Null beside it
    (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-single-vs-multi-valued-context-keys.html).
    A line may have custom tags, so aws:TagKeys is not limited. IAM has no condition keys for the image or the number of
    hosts or GPUs; the manifest check limits those (docs/security.md). The keys:
    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsagemaker.html.
    """
    training = grid.training
    region_settings = [grid.regions[region] for region in regions]
    subnets = [subnet for region in region_settings for subnet in region.subnets]
    groups = [group for region in region_settings for group in region.security_groups]
    one_of = {"sagemaker:InstanceTypes": list(grid.allowed_instance_types())}
    absent = dict.fromkeys(("sagemaker:InstanceTypes", *(f"aws:RequestTag/{tag}" for tag in TAGS_OF_A_LINE)), "false")
    network = {"sagemaker:VpcSubnets": subnets, "sagemaker:VpcSecurityGroupIds": groups}
    if subnets:
        one_of |= network
    absent |= dict.fromkeys(network, "false" if subnets else "true")
    file_system_condition = _file_system_condition(region_settings)
    conditions: Conditions = {
        "StringEquals": {f"aws:RequestTag/{names.TAG_GRID}": grid.name},
        "ForAllValues:StringEquals": one_of,
        **({"StringEqualsIfExists": file_system_condition} if file_system_condition else {}),
        "Null": absent if file_system_condition else {**absent, _FILE_SYSTEM: "true"},
        "NumericLessThanEquals": {"sagemaker:MaxRuntimeInSeconds": str(training.max_runtime)},
    }
    required_settings = {
        "sagemaker:InterContainerTrafficEncryption": training.encrypt_traffic,
        "sagemaker:NetworkIsolation": training.network_isolation,
    }
    if any(required_settings.values()):
        conditions["Bool"] = {key: "true" for key, is_required in required_settings.items() if is_required}
    return conditions


def _file_system_condition(regions: Iterable[Region]) -> dict[str, Any]:
    """Return the condition on requests with a file system; empty if the grid lists none in these Regions.

    Each key has one value: AWS's example has one statement for each folder of a request
    (https://docs.aws.amazon.com/sagemaker/latest/dg/security_iam_id-based-policy-examples.html, "Control Access to
    SageMaker AI Resources by Using File System Condition Keys"), so SageMaker compares each channel separately. As with
    subnets, the file systems of all Regions are listed together, because a file system is in one Region.
    """
    file_systems = [file_system for region in regions for file_system in region.file_systems]
    return {_FILE_SYSTEM: file_systems, "sagemaker:FileSystemAccessMode": "ro"} if file_systems else {}


def never(grid: GridSettings) -> list[tuple[tuple[str, ...], Conditions | None]]:
    """Return the actions that are denied to every child, even if other policies allow them.

    They are: to update a training job; to delete one, which would free its name, although the name prevents training a
    line twice; to keep its hosts, at full price, after it has ended, for longer than `max_keep_alive`
    (https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsagemaker.html#amazonsagemaker-policy-keys);
    and, without `remote_debug`, to start it with an agent for shells.
    """
    longest = str(grid.training.max_keep_alive or 0)
    denials: list[tuple[tuple[str, ...], Conditions | None]] = [
        (("sagemaker:UpdateTrainingJob", "sagemaker:DeleteTrainingJob"), None),
        (("sagemaker:CreateTrainingJob",), {"NumericGreaterThan": {"sagemaker:KeepAlivePeriod": longest}}),
    ]
    if not grid.training.remote_debug:
        denials.append((("sagemaker:CreateTrainingJob",), {"Bool": {"sagemaker:EnableRemoteDebug": "true"}}))
    return denials
