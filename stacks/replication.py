"""Replication: ECR copies images pushed in the home Region to every training Region, under the same name."""

import json
from typing import Any

from aws_cdk import Aws, CfnOutput
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.accounts import account_root
from traingrid import names
from traingrid.grid.model import GridSettings


class Replication(Construct):
    """The replication rules of the home Region's registry. A registry has a single set of rules.

    CloudFormation cannot take over existing rules. With `replicate_images: false`, their owner adds the rule that the
    stack's output ReplicationRule contains.
    """

    def __init__(self, scope: Construct, identifier: str, *, grid: GridSettings) -> None:
        super().__init__(scope, identifier)
        rule = replication_rule(grid)
        if grid.replicate_images:
            ecr.CfnReplicationConfiguration(self, "Rules", replication_configuration={"rules": [rule]})
        else:
            CfnOutput(scope, "ReplicationRule", value=json.dumps(rule))


def replication_rule(grid: GridSettings) -> dict[str, Any]:
    """Return the replication rule in ECR's API format: all training image repositories, to all other Regions."""
    return {
        "destinations": [
            {"region": region, "registryId": grid.account_of(region, Aws.ACCOUNT_ID)} for region in grid.replicas()
        ],
        "repositoryFilters": [
            {"filter": names.repository(grid.name, short), "filterType": "PREFIX_MATCH"}
            for short in grid.repositories()
        ],
    }


def places(grid: GridSettings) -> tuple[str, ...]:
    """Return the Regions that images are replicated to, in the format REGION, or REGION/ACCOUNT for other accounts."""
    other_accounts = grid.other_accounts()
    return tuple(f"{region}/{other_accounts.get(region, '')}".rstrip("/") for region in sorted(grid.replicas()))


class ReplicationPermission(Construct):
    """The registry policy with which a registry in another account accepts images from the home Region.

    The repositories exist already, so the policy need not allow their creation
    (https://docs.aws.amazon.com/AmazonECR/latest/userguide/registry-permissions-create-replication.html). A registry
    has a single policy: with `replicate_images: false`, its owner adds the statement in the stack's output
    ReplicationPermission.
    """

    def __init__(self, scope: Construct, identifier: str, *, grid: GridSettings, region: str) -> None:
        super().__init__(scope, identifier)
        statement = {
            "Sid": "ReplicateImages",
            "Effect": "Allow",
            "Principal": {"AWS": account_root(grid.account or "")},
            "Action": ["ecr:ReplicateImage"],
            "Resource": [
                f"arn:aws:ecr:{region}:{Aws.ACCOUNT_ID}:repository/{names.repository(grid.name, short)}"
                for short in grid.repositories()
            ],
        }
        if grid.replicate_images:
            ecr.CfnRegistryPolicy(self, "Policy", policy_text={"Version": "2012-10-17", "Statement": [statement]})
        else:
            CfnOutput(scope, "ReplicationPermission", value=json.dumps(statement))


def allow_image_checks(repository: ecr.Repository, grid: GridSettings) -> None:
    """Let the home account check which images have arrived in a repository of another account.

    The principal is the whole home account, and a condition limits it to the role that checks. If the role were the
    principal, IAM would store its unique id, and a role that is created again under the same name would have no access
    (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html#principal-roles).
    """
    role = names.role_arn(grid.account or "", names.replication_role(grid.name))
    repository.add_to_resource_policy(
        iam.PolicyStatement(
            sid="BuildsLook",
            principals=[iam.ArnPrincipal(account_root(grid.account or ""))],
            actions=["ecr:DescribeImages"],
            conditions={"ArnEquals": {"aws:PrincipalArn": role}},
        )
    )
