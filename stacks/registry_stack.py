"""A training Region's image repositories, which must be there before an image is replicated to it."""

from aws_cdk import Environment, Stack
from constructs import Construct

from stacks.registry import registry
from traingrid import names
from traingrid.grid import Grid


class RegistryStack(Stack):
    """The repositories of a training Region other than the home Region.

    ECR would make them by itself when it replicates an image, with tags that move and without scans
    (https://docs.aws.amazon.com/AmazonECR/latest/userguide/replication.html).
    """

    def __init__(self, scope: Construct, *, grid: Grid, region: str) -> None:
        super().__init__(
            scope,
            names.registry_stack(grid.name, region),
            env=Environment(region=region),
            description=f"traingrid {grid.name}: image repositories in {region}",
        )
        for short in grid.repositories():
            registry(self, f"Repository-{short}", name=names.repository(grid.name, short))
