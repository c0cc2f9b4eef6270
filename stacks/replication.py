"""ECR replication: what is pushed in the home Region comes to every training Region, under the same name."""

import json
from typing import Any

from aws_cdk import Aws, CfnOutput
from aws_cdk import aws_ecr as ecr
from constructs import Construct

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
        "destinations": [{"region": region, "registryId": Aws.ACCOUNT_ID} for region in other_regions(grid)],
        "repositoryFilters": [
            {"filter": names.repository(grid.name, short), "filterType": "PREFIX_MATCH"}
            for short in grid.repositories()
        ],
    }


def other_regions(grid: Grid) -> list[str]:
    """Return the training Regions beside the home Region, which images are pushed to."""
    return [region for region in grid.regions if region != grid.home]
