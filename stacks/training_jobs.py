"""Which training jobs are a grid's: what a permission for them names, and what IAM lets be asked for in them."""

from collections.abc import Iterable
from typing import Any

from aws_cdk import Aws

from traingrid import names
from traingrid.grid import Grid

WHOSE = "The jobs of this grid: their names begin with its name and a submission, in its Regions"
"""Why a permission for `training_jobs` has wildcards."""

TAGS_OF_A_LINE = (names.TAG_SUBMISSION, names.TAG_JOB, names.TAG_FINGERPRINT)
"""What every training job says of its line; the values are its own."""

Conditions = dict[str, dict[str, Any]]
"""IAM's operators, the keys that each compares, and with what."""


def training_jobs(grid: Grid, regions: Iterable[str]) -> list[str]:
    """Return the ARN patterns of a grid's training jobs in the role's own account, one for each of `regions`."""
    prefix = f"training-job/{names.training_job_pattern(grid.name)}"
    return [f"arn:aws:sagemaker:{region}:{Aws.ACCOUNT_ID}:{prefix}" for region in regions]


def alike(grid: Grid, regions: Iterable[str]) -> list[list[str]]:
    """Return Regions of the grid in groups in which IAM holds a training job to the same conditions.

    Those with a VPC are one group, whatever subnets they have: a subnet lies in one Region, and SageMaker looks for it
    in the job's. A statement for each of twelve Regions would not fit into a role.
    """
    groups = ([name for name in regions if bool(grid.regions[name].subnets) is own] for own in (False, True))
    return [group for group in groups if group]


def creation_conditions(grid: Grid, regions: Iterable[str]) -> Conditions:
    """Return what must be true of a CreateTrainingJob in `regions`, a group of `alike`.

    Every ForAllValues has a Null beside it, because it is true of a key that is not in the request
    (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-single-vs-multi-valued-context-keys.html).
    A line may have tags of its own, so which keys there are besides ours is not limited (aws:TagKeys). IAM has no keys
    for the image, nor for the number of hosts or GPUs: those the manifest check limits (docs/security.md). The keys:
    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsagemaker.html.
    """
    training, listed = grid.training, [grid.regions[region] for region in regions]
    subnets = [subnet for region in listed for subnet in region.subnets]
    groups = [group for region in listed for group in region.security_groups]
    one_of = {"sagemaker:InstanceTypes": list(grid.allowed_instance_types())}
    absent = dict.fromkeys(("sagemaker:InstanceTypes", *(f"aws:RequestTag/{tag}" for tag in TAGS_OF_A_LINE)), "false")
    network = {"sagemaker:VpcSubnets": subnets, "sagemaker:VpcSecurityGroupIds": groups}
    one_of |= network if subnets else {}
    absent |= dict.fromkeys(network, "false" if subnets else "true")
    conditions: Conditions = {
        "StringEquals": {f"aws:RequestTag/{names.TAG_GRID}": grid.name},
        "ForAllValues:StringEquals": one_of,
        "Null": absent,
        "NumericLessThanEquals": {"sagemaker:MaxRuntimeInSeconds": str(training.max_runtime)},
    }
    asked = {
        "sagemaker:InterContainerTrafficEncryption": training.encrypt_traffic,
        "sagemaker:NetworkIsolation": training.network_isolation,
    }
    if any(asked.values()):
        conditions["Bool"] = {key: "true" for key, wanted in asked.items() if wanted}
    return conditions


NEVER: tuple[tuple[tuple[str, ...], Conditions | None], ...] = (
    (("sagemaker:UpdateTrainingJob", "sagemaker:DeleteTrainingJob"), None),
    (("sagemaker:CreateTrainingJob",), {"Bool": {"sagemaker:EnableRemoteDebug": "true"}}),
    (("sagemaker:CreateTrainingJob",), {"NumericGreaterThan": {"sagemaker:KeepAlivePeriod": "0"}}),
)
"""What no child may do, whatever else it is allowed: change a training job; delete one, and so make its name, which is
what keeps a line from being trained twice, free again; open a shell in its containers; keep its hosts, at their full
price, when it has ended."""
