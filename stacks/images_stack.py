"""The images of a grid: their repositories in the home Region, their builds, and their way to the other Regions."""

import json
from pathlib import Path

from aws_cdk import Aws, CfnOutput, Stack
from aws_cdk import aws_ecr as ecr
from constructs import Construct

from stacks.accounts import home_environment
from stacks.alarms import Alarms
from stacks.event_function import Runtime, libraries, repository_code
from stacks.image_build import ORCHESTRATOR, TRAINING, BuiltImage, ImageBuild, ImageBuilder
from stacks.keys import stack_key, use_key
from stacks.log_keeping import log_keeping
from stacks.registry import registry
from stacks.replication import Replication
from traingrid import names
from traingrid.grid import Grid


class ImagesStack(Stack):
    """The home Region's registry. A stack of its own, so that a build that fails takes nothing else back with it."""

    def __init__(self, scope: Construct, *, grid: Grid, layer: Path) -> None:
        super().__init__(
            scope,
            names.images_stack(grid.name),
            env=home_environment(grid),
            description=f"traingrid {grid.name}: images",
        )
        self._grid = grid
        self._key = stack_key(self, "ImagesKey", grid=grid, region=grid.home, alias=names.images_key(grid.name))
        self._orchestrator = registry(self, "Orchestrator", name=names.orchestrator_repository(grid.name))
        repositories = {
            short: registry(self, f"Repository-{short}", name=names.repository(grid.name, short))
            for short in grid.repositories()
        }
        builds = self._builds(repositories[names.TRAINING_REPOSITORY])
        if grid.replicas():
            replication = Replication(self, "Replication", grid=grid)
            for build in builds.values():  # what is pushed before there are rules stays where it is
                build.node.add_dependency(replication)
        self._built: dict[str, BuiltImage] = {}
        if builds:
            builder = ImageBuilder(self, "Builder", builds=list(builds.values()), runtime=self._runtime(layer))
            use_key(builder.function.role, self._key, region=grid.home, services=["sqs"])
            self._built = {short: builder.image(build) for short, build in builds.items()}
            alarms = Alarms(self, "Alarms", grid=grid, key=self._key)
            alarms.undelivered("image-builder", builder.function.dead_letters)
            alarms.failing("image-builder", builder.function.function)
        CfnOutput(self, "OrchestratorImage", value=self.orchestrator_image)
        CfnOutput(self, "TrainingImages", value=self.training_images)

    @property
    def orchestrator_image(self) -> str:
        """Return the URI of the image that Batch children run."""
        name = names.orchestrator_repository(self._grid.name)
        if built := self._built.get("orchestrator"):
            return names.image_of_digest(Aws.ACCOUNT_ID, self._grid.home, name, built.digest)
        return names.image_uri(Aws.ACCOUNT_ID, self._grid.home, name, self.orchestrator_tag)

    @property
    def orchestrator_tag(self) -> str:
        """Return the tag of that image."""
        built = self._built.get("orchestrator")
        return built.tag if built else self._grid.orchestrator.image_tag or ""

    @property
    def training_images(self) -> str:
        """Return what was built of the training image, as JSON: by target, the tag, "@" and the digest."""
        built = {target: self._built[target] for target in self._grid.targets()}
        return json.dumps({target: f"{image.tag}@{image.digest}" for target, image in built.items()})

    def _builds(self, training: ecr.Repository) -> dict[str, ImageBuild]:
        """Return the builds that grid.yaml asks for: the orchestrator's, and the training image's by target."""
        grid, keeping = self._grid, log_keeping(self._grid, self._key)
        builds = {}
        if grid.orchestrator.image_tag is None:
            builds["orchestrator"] = ImageBuild(
                self,
                "OrchestratorBuild",
                recipe=ORCHESTRATOR,
                repository=self._orchestrator,
                repository_name=names.orchestrator_repository(grid.name),
                replicas={},
                keeping=keeping,
            )
        for target in grid.targets():
            builds[target] = ImageBuild(
                self,
                f"TrainingBuild-{target}",
                recipe=TRAINING[target],
                repository=training,
                repository_name=names.training_repository(grid.name),
                replicas={region: grid.elsewhere().get(region, "") for region in grid.replicas()},
                keeping=keeping,
            )
        return builds

    def _runtime(self, layer: Path) -> Runtime:
        return Runtime(
            code=repository_code(),
            libraries=libraries(self, layer),
            environment={},
            keeping=log_keeping(self._grid, self._key),
            key=self._key,
        )
