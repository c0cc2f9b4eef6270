"""Service-linked roles of ECS and AWS Batch: a new account has none until the first use of the service.

While ECS creates the first cluster of an account, it creates AWSServiceRoleForECS and assumes it at once, before IAM
has propagated it. Therefore, the first cluster fails and the second succeeds
(https://github.com/aws-cloudformation/cloudformation-coverage-roadmap/issues/818,
https://github.com/1Password/scim-examples/issues/356). AWS Batch creates an ECS cluster for each compute environment
(https://docs.aws.amazon.com/batch/latest/userguide/compute_environments.html). That this fails in the same way is our
assumption; no record of it was found.
"""

from typing import TYPE_CHECKING, Any

from moto.iam.exceptions import NotFoundException
from moto.iam.models import SERVICE_NAME_CONVERSION, iam_backends

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

SERVICES = {"AWSServiceRoleForECS": "ecs.amazonaws.com", "AWSServiceRoleForBatch": "batch.amazonaws.com"}
"""Services by the names of their roles
(https://docs.aws.amazon.com/AmazonECS/latest/developerguide/using-service-linked-roles.html,
https://docs.aws.amazon.com/batch/latest/userguide/using-service-linked-roles.html)."""

NOT_YET = "Unable to assume the service linked role. Please verify that the ECS service linked role exists."
"""ECS's message in the sources above."""


def install(cloud: "LocalCloud") -> None:
    """Create the roles in the server's account, unless it is young; moto 5.2.5 uses different role names."""
    cloud.extend(SERVICE_NAME_CONVERSION, {"ecs": "ECS", "batch": "Batch"})
    if cloud.limits.profile != "young":
        for service in SERVICES.values():
            _create(cloud.settings.account, service)


def create_missing(account: str) -> str:
    """Create the roles that an account lacks, as AWS Batch and ECS do for a compute environment.

    Returns:
        The reason for which the compute environment is INVALID; empty if both roles existed.
    """
    missing = [name for name in SERVICES if not exists(account, name)]
    for name in missing:
        _create(account, SERVICES[name])
    return NOT_YET if "AWSServiceRoleForECS" in missing else ""


def exists(account: str, name: str) -> bool:
    """Return True if a role exists."""
    try:
        _iam(account).get_role(name)
    except NotFoundException:
        return False
    return True


def arn(account: str, name: str) -> str:
    """Return the ARN of a role."""
    return f"arn:aws:iam::{account}:role/aws-service-role/{SERVICES[name]}/{name}"


def _create(account: str, service: str) -> None:
    _iam(account).create_service_linked_role(service, "", "")


def _iam(account: str) -> Any:
    return iam_backends[account]["aws"]
