"""Service-linked roles: checks the roles without which the first deployment in an account fails."""

from collections.abc import Iterator
from functools import partial

from botocore.exceptions import ClientError

from traingrid.aws.clients import client
from traingrid.deploy.checkup.finding import Finding, Verdict, run_check

LINKED_ROLES = {"AWSServiceRoleForECS": "ecs.amazonaws.com", "AWSServiceRoleForBatch": "batch.amazonaws.com"}
"""Services by their roles (https://docs.aws.amazon.com/AmazonECS/latest/developerguide/using-service-linked-roles.html,
https://docs.aws.amazon.com/batch/latest/userguide/using-service-linked-roles.html)."""

_REASON = "AWS creates it at the first use but assumes it before it is available, so a first deployment fails"
# https://github.com/aws-cloudformation/cloudformation-coverage-roadmap/issues/818


def linked_roles(home: str) -> Iterator[Finding]:
    """Check that the caller's account has the service-linked roles of ECS and AWS Batch."""
    for name, service in LINKED_ROLES.items():
        yield run_check(home, f"role {name}", partial(_look, home, name, service), "iam:GetRole")


def _look(home: str, name: str, service: str) -> Finding:
    try:
        client("iam", home).get_role(RoleName=name)
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchEntity":
            raise
        fix = f"aws iam create-service-linked-role --aws-service-name {service}"
        return Finding(region=home, subject=f"role {name}", verdict=Verdict.WRONG, reason=_REASON, fix=fix)
    return Finding(region=home, subject=f"role {name}", verdict=Verdict.GOOD)
