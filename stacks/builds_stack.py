"""Builds stack: builds the grid's images one after the other during a deployment."""

import json
from dataclasses import replace
from pathlib import Path

from aws_cdk import Aws, CfnOutput, CfnWaitConditionHandle, Stack
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.accounts import home_environment
from stacks.alarms import Alarms
from stacks.build_project import BuildProject
from stacks.event_function import Runtime, libraries, repository_code
from stacks.image_build import ORCHESTRATOR, TRAINING, BuiltImage, ImageBuild
from stacks.image_builder import ImageBuilder
from stacks.images_stack import ImagesStack
from stacks.keys import use_key
from stacks.log_keeping import log_keeping
from stacks.replication import places
from stacks.replication_wait import ReplicationWait
from traingrid import names
from traingrid.grid.model import GridSettings


class BuildsStack(Stack):
    """The CodeBuild projects of the images that grid.yaml builds, and the function that starts them.

    Attributes:
        orchestrator_image: URI of the image that Batch children run.
        orchestrator_tag: Tag of that image.
        training_images: JSON object of the training images that are built: target to tag, "@" and digest.
    """

    def __init__(self, scope: Construct, *, grid: GridSettings, layer: Path, images: ImagesStack) -> None:
        super().__init__(
            scope,
            names.builds_stack(grid.name),
            env=home_environment(grid),
            description=f"traingrid {grid.name}: image builds",
        )
        self._grid = grid
        # By its ARN: a grant on another stack's key would change that key's policy, and create a circular dependency.
        self._key = kms.Key.from_key_arn(self, "ImagesKey", images.key.key_arn) if images.key else None
        builds = self._builds()
        built = self._built_images(builds, layer) if builds else {}
        if not builds:  # a template requires a resource; this one is free and has no effect
            CfnWaitConditionHandle(self, "NothingToBuild")
        repository = names.orchestrator_repository(grid.name)
        orchestrator = built.pop("orchestrator", None)
        self.orchestrator_tag = orchestrator.tag if orchestrator else grid.orchestrator.image_tag or ""
        self.orchestrator_image = (
            names.image_of_digest(Aws.ACCOUNT_ID, grid.home, repository, orchestrator.digest)
            if orchestrator
            else names.image_uri(Aws.ACCOUNT_ID, grid.home, repository, self.orchestrator_tag)
        )
        self.training_images = json.dumps({target: f"{image.tag}@{image.digest}" for target, image in built.items()})
        CfnOutput(self, "OrchestratorImage", value=self.orchestrator_image)
        CfnOutput(self, "TrainingImages", value=self.training_images)

    def _builds(self) -> dict[str, ImageBuild]:
        """Return the builds that grid.yaml requires, by name: the orchestrator's, and one for each training target."""
        grid, builds = self._grid, {}
        if grid.orchestrator.image_tag is None:
            builds["orchestrator"] = ImageBuild(
                self,
                "OrchestratorBuild",
                recipe=ORCHESTRATOR,
                repository_name=names.orchestrator_repository(grid.name),
                replicas=(),
                log_group=names.build_log(grid.name),
                rebuild=grid.rebuild,
            )
        for target in grid.targets():
            builds[target] = ImageBuild(
                self,
                f"TrainingBuild-{target}",
                recipe=replace(TRAINING[target], arguments=_arguments(grid, target)),
                repository_name=names.training_repository(grid.name),
                replicas=places(grid),
                log_group=names.build_log(grid.name),
                rebuild=grid.rebuild,
            )
        return builds

    def _built_images(self, builds: dict[str, ImageBuild], layer: Path) -> dict[str, BuiltImage]:
        """Return the built images by name. The stack is complete when all of them are replicated."""
        grid = self._grid
        wait = None
        if grid.replicas() and grid.targets():
            wait = ReplicationWait(
                self,
                "ReplicationWait",
                role_name=names.replication_role(grid.name),
                repository_name=names.training_repository(grid.name),
                replicas=places(grid),
                log_group=names.build_log(grid.name),
            )
        projects: list[BuildProject] = [*builds.values()]
        if wait:
            projects.append(wait)
        builder = ImageBuilder(self, "Builder", projects=projects, runtime=self._runtime(layer))
        use_key(builder.function.role, self._key, region=grid.home, services=["sqs"])
        built = {short: builder.image(build) for short, build in builds.items()}
        if wait:
            for target in grid.targets():
                builder.wait_for_replication(wait, builds[target])
        alarms = Alarms(self, "Alarms", grid=grid, key=self._key)
        alarms.undelivered("image-builder", builder.function.dead_letters)
        alarms.failing("image-builder", builder.function.function)
        return built

    def _runtime(self, layer: Path) -> Runtime:
        return Runtime(
            code=repository_code(),
            libraries=libraries(self, layer),
            environment={},
            keeping=log_keeping(self._grid, self._key),
            key=self._key,
        )


def _arguments(grid: GridSettings, target: str) -> tuple[str, ...]:
    """Return the build arguments of a target that grid.yaml sets; the Dockerfile has the others."""
    given = (image.build_arguments() for image in grid.images.values() if image.build and image.target == target)
    return next(given, ())  # the aliases of a target have the same ones
