"""Images stack: the image repositories of the home Region, and the replication of images to the other Regions."""

from aws_cdk import Stack
from constructs import Construct

from stacks.accounts import home_environment
from stacks.eks_access import accounts_with_clusters, let_nodes_pull
from stacks.keys import stack_key
from stacks.log_keeping import log_keeping
from stacks.registry import registry
from stacks.replication import Replication
from traingrid import names
from traingrid.grid.model import GridSettings


class ImagesStack(Stack):
    """The repositories of the home Region, and the log group of the builds that push to them.

    The builds are in a separate stack (`BuildsStack`). CloudFormation deletes all resources of a stack whose creation
    failed, so a failed first build would delete the images and logs, too.
    """

    def __init__(self, scope: Construct, *, grid: GridSettings) -> None:
        super().__init__(
            scope,
            names.images_stack(grid.name),
            env=home_environment(grid),
            description=f"traingrid {grid.name}: image repositories",
        )
        self.key = stack_key(self, "ImagesKey", grid=grid, region=grid.home, alias=names.images_key(grid.name))
        log_keeping(grid, self.key).log_group(self, "BuildLog", names.build_log(grid.name))
        orchestrator = registry(self, "Orchestrator", name=names.orchestrator_repository(grid.name))
        if accounts := accounts_with_clusters(grid):
            let_nodes_pull(orchestrator, accounts)
        for short in grid.repositories():
            registry(self, f"Repository-{short}", name=names.repository(grid.name, short))
        if grid.replicas():
            Replication(self, "Replication", grid=grid)
