"""ECR replication: what is pushed in the home Region comes to every training Region, under the same name."""

import json
from typing import Any

from aws_cdk import Aws, CfnOutput
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.accounts import account_root
from traingrid import names
from traingrid.grid import Grid


class Replication(Construct):
    """The replication rules of the home Region's registry, of which it has one set for all that lies in it.

    CloudFormation refuses to take over rules that are there already. `replicate_images: false` leaves them to their
    owner, and the stack's output ReplicationRule is the one to add.
    """

    def __init__(self, scope: Construct, identifier: str, *, grid: Grid) -> None:
        super().__init__(scope, identifier)
        rule = replication_rule(grid)
        if grid.replicate_images:
            ecr.CfnReplicationConfiguration(self, "Rules", replication_configuration={"rules": [rule]})
        else:
            CfnOutput(scope, "ReplicationRule", value=json.dumps(rule))


def replication_rule(grid: Grid) -> dict[str, Any]:
    """Return the rule in the words of ECR's API: all repositories of training images, to all other Regions."""
    return {
        "destinations": [
            {"region": region, "registryId": grid.account_of(region, Aws.ACCOUNT_ID)} for region in grid.replicas()
        ],
        "repositoryFilters": [
            {"filter": names.repository(grid.name, short), "filterType": "PREFIX_MATCH"}
            for short in grid.repositories()
        ],
    }


def places(grid: Grid) -> tuple[str, ...]:
    """Return the Regions that images are replicated to, each with a slash and its account if that is not home's."""
    elsewhere = grid.elsewhere()
    return tuple(f"{region}/{elsewhere.get(region, '')}".rstrip("/") for region in sorted(grid.replicas()))


class ReplicationPermission(Construct):
    """What lets the home Region's registry copy images into one of another account, which has one policy for all.

    The repositories are there, so nobody has to be allowed to make them
    (https://docs.aws.amazon.com/AmazonECR/latest/userguide/registry-permissions-create-replication.html).
    `replicate_images: false` leaves the registry's policy to its owner, who adds the output ReplicationPermission.
    """

    def __init__(self, scope: Construct, identifier: str, *, grid: Grid, region: str) -> None:
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


def let_builds_look(repository: ecr.Repository, grid: Grid) -> None:
    """Let the home Region's account see which images have arrived in a repository of another account.

    The condition names the one role that looks. As the principal itself it would be remembered by its id, and a new
    role of that name would not be let in
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
