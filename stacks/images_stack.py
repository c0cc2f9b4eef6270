"""The images of a grid: their repositories in the home Region, and the builds of those that the grid builds itself."""

from pathlib import Path

from aws_cdk import Aws, CfnOutput, Environment, Stack
from constructs import Construct

from stacks.event_function import Runtime, libraries, repository_code
from stacks.image_build import ORCHESTRATOR, BuiltImage, ImageBuild, ImageBuilder
from stacks.registry import registry
from stacks.retention import log_retention
from traingrid import names
from traingrid.grid import Grid


class ImagesStack(Stack):
    """The home Region's registry. A stack of its own, so that a build that fails takes nothing else back with it.

    `orchestrator` is the image that Batch children run.
    """

    def __init__(self, scope: Construct, *, grid: Grid, layer: Path) -> None:
        super().__init__(
            scope,
            names.images_stack(grid.name),
            env=Environment(region=grid.home),
            description=f"traingrid {grid.name}: images",
        )
        name = names.orchestrator_repository(grid.name)
        self._grid, self._repository = grid, registry(self, "Orchestrator", name=name)
        self.built: dict[str, BuiltImage] = {}
        builds = self._builds()
        if builds:
            builder = ImageBuilder(self, "Builder", builds=list(builds.values()), runtime=self._runtime(layer))
            self.built = {short: builder.image(build) for short, build in builds.items()}
        CfnOutput(self, "OrchestratorImage", value=self.orchestrator_image)

    @property
    def orchestrator_image(self) -> str:
        """Return the URI of the image that Batch children run."""
        name = names.orchestrator_repository(self._grid.name)
        if built := self.built.get("orchestrator"):
            return names.image_of_digest(Aws.ACCOUNT_ID, self._grid.home, name, built.digest)
        return names.image_uri(Aws.ACCOUNT_ID, self._grid.home, name, self._grid.orchestrator.image_tag or "")

    @property
    def orchestrator_tag(self) -> str:
        """Return the tag of that image."""
        built = self.built.get("orchestrator")
        return built.tag if built else self._grid.orchestrator.image_tag or ""

    def _builds(self) -> dict[str, ImageBuild]:
        grid, builds = self._grid, {}
        if grid.orchestrator.image_tag is None:
            builds["orchestrator"] = ImageBuild(
                self,
                "OrchestratorBuild",
                recipe=ORCHESTRATOR,
                repository=self._repository,
                repository_name=names.orchestrator_repository(grid.name),
                log_retention=log_retention(grid),
            )
        return builds

    def _runtime(self, layer: Path) -> Runtime:
        return Runtime(
            code=repository_code(),
            libraries=libraries(self, layer),
            environment={},
            log_retention=log_retention(self._grid),
        )
