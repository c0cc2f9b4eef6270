"""Registry stack: a training Region's image repositories, which must exist before an image is replicated to them."""

from aws_cdk import Stack
from constructs import Construct

from stacks.accounts import region_environment
from stacks.registry import registry
from stacks.replication import ReplicationPermission, allow_image_checks
from traingrid import names
from traingrid.grid.model import GridSettings


class RegistryStack(Stack):
    """The repositories of a training Region whose registry is not the home Region's registry.

    If they did not exist, ECR would create them at the first replication, with mutable tags and without image scans
    (https://docs.aws.amazon.com/AmazonECR/latest/userguide/replication.html).
    """

    def __init__(self, scope: Construct, *, grid: GridSettings, region: str) -> None:
        super().__init__(
            scope,
            names.registry_stack(grid.name, region),
            env=region_environment(grid, region),
            description=f"traingrid {grid.name}: image repositories in {region}",
        )
        repositories = [
            registry(self, f"Repository-{short}", name=names.repository(grid.name, short))
            for short in grid.repositories()
        ]
        if region in grid.other_accounts():
            ReplicationPermission(self, "Replication", grid=grid, region=region)
            for repository in repositories:
                allow_image_checks(repository, grid)
