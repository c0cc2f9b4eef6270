"""Catalog cluster: the database of `catalog: dsql` in grid.yaml, in Aurora DSQL."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dsql as dsql
from constructs import Construct, IConstruct


class CatalogCluster(Construct):
    """A cluster in the home Region, without a VPC: users connect over TLS with a login token of IAM.

    Campaigns and prices that users imported exist only in it. So it is protected from accidental deletion and retained
    when its stack is deleted. CloudFormation cannot delete a protected cluster
    (https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-dsql-cluster.html), and a
    deployment that fails later would otherwise not be rolled back: the cluster is retained then, too. It is created
    after the other parts of the stack (`create_after`); an empty one costs nothing.

    Only the function that follows the ledger connects to it (`CatalogFollower`), which is created after it.

    Attributes:
        endpoint: Its host name.
    """

    def __init__(self, scope: Construct, identifier: str) -> None:
        super().__init__(scope, identifier)
        self._cluster = dsql.CfnCluster(self, "Cluster", deletion_protection_enabled=True)
        self._cluster.apply_removal_policy(RemovalPolicy.RETAIN)
        self.endpoint = self._cluster.attr_endpoint
        self.arn = self._cluster.attr_resource_arn

    def create_after(self, *parts: IConstruct) -> None:
        """Create the cluster after these parts of the stack."""
        self.node.add_dependency(*parts)
