"""Images that the account builds itself: a CodeBuild project for each, started by a deployment that changes it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aws_cdk import Aws, CustomResource, Duration, IgnoreMode
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from stacks.event_function import EventFunction, Runtime
from stacks.grants import acknowledge, grant, same_account
from stacks.log_keeping import LogKeeping
from traingrid import names

ROOT = Path(__file__).parent.parent
SCRIPT = Path(__file__).with_name("image_build.sh")

BUILD_TIMEOUT = Duration.minutes(50)
QUEUE_TIMEOUT = Duration.minutes(5)
ANSWER_TIMEOUT = Duration.minutes(59)
"""CloudFormation waits an hour at most for a custom resource
(https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-cloudformation-customresource.html);
a build has ended by then, also one that had to wait for a host."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What an image is built from.

    Attributes:
        dockerfile: Path in the checkout; the checkout's root is the build context.
        sources: Files and folders of the checkout that the Dockerfile copies.
        target: Stage of the Dockerfile; empty for its last one.
        compute: Size of the build's host, in CodeBuild's words
            (https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html).
    """

    dockerfile: str
    sources: Sequence[str]
    target: str = ""
    compute: str = "BUILD_GENERAL1_SMALL"


ORCHESTRATOR = Recipe(
    dockerfile="batch_job/Dockerfile",
    sources=("batch_job", "traingrid", "requirements-orchestrator.txt"),
)

TRAINING = {
    target: Recipe(
        dockerfile="training_container/Dockerfile",
        sources=("training_container", "setup/training.sh", "setup/cuda.sh"),
        target=target,
        compute=compute,
    )
    for target, compute in (("cpu", "BUILD_GENERAL1_MEDIUM"), ("gpu", "BUILD_GENERAL1_LARGE"))
}
"""The training image by target. Horovod is compiled for minutes, and NVIDIA's libraries are gigabytes."""


@dataclass(frozen=True, kw_only=True)
class BuiltImage:
    """An image as other stacks refer to it.

    Attributes:
        tag: Says what it was built from; known when a template is written, so that another image is another template.
        digest: Known when it is built.
    """

    tag: str
    digest: str = field(repr=False)


class ImageBuild(Construct):
    """The CodeBuild project that builds one image, and what it may do: read its sources, push to one repository.

    `replicas` are the Regions that it is replicated to, each with the account where that is another than home's, or "".

    The image's tag is the hash of all that it is made from, and of the Regions that must have it: ECR replicates what
    is pushed, and nothing that was there before
    (https://docs.aws.amazon.com/AmazonECR/latest/userguide/replication.html), so one Region more is a new push.
    """

    def __init__(
        self,
        scope: Construct,
        identifier: str,
        *,
        recipe: Recipe,
        repository: ecr.Repository,
        repository_name: str,
        replicas: Mapping[str, str],
        keeping: LogKeeping,
    ) -> None:
        super().__init__(scope, identifier)
        self.repository, self.repository_name = repository, repository_name
        self._replicas = dict(sorted(replicas.items()))
        source = s3_assets.Asset(
            self, "Source", path=str(ROOT), exclude=_all_but(recipe.sources), ignore_mode=IgnoreMode.GIT
        )
        self.tag = self._tag(recipe, source.asset_hash)
        self._log = keeping.log_group(self, "Log")
        # https://docs.aws.amazon.com/codebuild/latest/userguide/cross-service-confused-deputy-prevention.html
        builds = same_account(f"arn:aws:codebuild:{Aws.REGION}:{Aws.ACCOUNT_ID}:project/*")
        trust = iam.ServicePrincipal("codebuild.amazonaws.com", conditions=builds)
        self.role = iam.Role(self, "Role", assumed_by=trust, description=f"What the build of {repository_name} may do")
        self._grant(source)
        self.project = self._project(recipe, source)

    def _tag(self, recipe: Recipe, asset_hash: str) -> str:
        parts = [asset_hash, recipe.dockerfile, recipe.target, SCRIPT.read_text(), *self._places()]
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]
        return "-".join(filter(None, (names.BUILT_TAG, recipe.target, digest)))

    def _grant(self, source: s3_assets.Asset) -> None:
        grant(self.role, ["s3:GetObject"], [source.bucket.arn_for_objects(source.s3_object_key)])
        # https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-push-iam.html; and a look at what is there
        push = ["ecr:BatchCheckLayerAvailability", "ecr:InitiateLayerUpload", "ecr:UploadLayerPart"]
        push += ["ecr:CompleteLayerUpload", "ecr:PutImage", "ecr:BatchGetImage", "ecr:DescribeImages"]
        grant(self.role, push, [self.repository.repository_arn])
        because = "The token is the account's: the action has no resource"
        grant(self.role, ["ecr:GetAuthorizationToken"], ["*"], because=because)
        if self._replicas:
            there = [
                f"arn:aws:ecr:{region}:{account or Aws.ACCOUNT_ID}:repository/{self.repository_name}"
                for region, account in self._replicas.items()
            ]
            grant(self.role, ["ecr:DescribeImages"], there)
        self._log.grant_write(self.role)

    def _project(self, recipe: Recipe, source: s3_assets.Asset) -> codebuild.CfnProject:
        """Return the project, as the bare resource: the L2 construct lets its role write reports and other logs."""
        log = codebuild.CfnProject.CloudWatchLogsConfigProperty(status="ENABLED", group_name=self._log.log_group_name)
        project = codebuild.CfnProject(
            self,
            "Project",
            description=f"Builds {self.repository_name} of traingrid from the checkout that was deployed",
            artifacts=codebuild.CfnProject.ArtifactsProperty(type="NO_ARTIFACTS"),
            source=codebuild.CfnProject.SourceProperty(type="NO_SOURCE", build_spec=_buildspec()),
            environment=codebuild.CfnProject.EnvironmentProperty(
                type="LINUX_CONTAINER",
                compute_type=recipe.compute,
                image=codebuild.LinuxBuildImage.STANDARD_7_0.image_id,
                image_pull_credentials_type="CODEBUILD",
                privileged_mode=True,
                environment_variables=[
                    codebuild.CfnProject.EnvironmentVariableProperty(name=name, value=value)
                    for name, value in self._variables(recipe, source).items()
                    if value
                ],
            ),
            service_role=self.role.role_arn,
            logs_config=codebuild.CfnProject.LogsConfigProperty(cloud_watch_logs=log),
            timeout_in_minutes=int(BUILD_TIMEOUT.to_minutes()),
            queued_timeout_in_minutes=int(QUEUE_TIMEOUT.to_minutes()),
        )
        project.node.add_dependency(self.role)
        acknowledge(project, "AwsSolutions-CB4", "It leaves no artifacts that a key would encrypt; ECR encrypts images")
        return project

    def _variables(self, recipe: Recipe, source: s3_assets.Asset) -> dict[str, str]:
        """Return what the build's script is told."""
        return {
            "SOURCE": source.s3_object_url,
            "REGISTRY": names.registry_uri(Aws.ACCOUNT_ID, Aws.REGION),
            "REPOSITORY": self.repository_name,
            "TAG": self.tag,
            "DOCKERFILE": recipe.dockerfile,
            "TARGET": recipe.target,
            "REGIONS": " ".join(self._places()),
        }

    def _places(self) -> list[str]:
        """Return where the image is replicated to: Regions, each with a slash and its account where that is another."""
        return [f"{region}/{account}".rstrip("/") for region, account in self._replicas.items()]


class ImageBuilder(Construct):
    """lambda/build_image: starts builds for CloudFormation, and answers it with the digests when they have ended."""

    def __init__(self, scope: Construct, identifier: str, *, builds: Sequence[ImageBuild], runtime: Runtime) -> None:
        super().__init__(scope, identifier)
        projects = [build.project.ref for build in builds]
        ended = {
            "project-name": projects,
            "build-status": ["SUCCEEDED", "FAILED", "FAULT", "STOPPED", "TIMED_OUT"],
        }
        self.function = EventFunction(
            self,
            "Build",
            handler="lambda.build_image.handler",
            description="Starts builds of images for a deployment, and tells it how they ended",
            runtime=runtime,
            pattern=events.EventPattern(
                source=["aws.codebuild"], detail_type=["CodeBuild Build State Change"], detail=ended
            ),
        )
        grant(self.function.role, ["codebuild:StartBuild"], [build.project.attr_arn for build in builds])
        repositories = sorted({build.repository.repository_arn for build in builds})
        grant(self.function.role, ["ecr:DescribeImages"], repositories)

    def image(self, build: ImageBuild) -> BuiltImage:
        """Return the image of a build, which a deployment that changes its tag starts and waits for."""
        request = CustomResource(
            build,
            "Image",
            service_token=self.function.function.function_arn,
            resource_type="Custom::ContainerImage",
            service_timeout=ANSWER_TIMEOUT,
            properties={"Project": build.project.ref, "Repository": build.repository_name, "Tag": build.tag},
        )
        request.node.add_dependency(self.function, build.project)
        return BuiltImage(tag=build.tag, digest=request.get_att_string("Digest"))


def _buildspec() -> str:
    commands = [f"(\n{SCRIPT.read_text()})"]  # in a shell of its own, which may end at the first error
    return json.dumps(
        {"version": "0.2", "env": {"shell": "bash"}, "phases": {"build": {"commands": commands}}}, indent=1
    )


def _all_but(sources: Sequence[str]) -> list[str]:
    """Return what an asset leaves out, in .gitignore's language, so that only `sources` are left."""
    patterns = ["/*"]
    for source in sources:
        folders = Path(source).parts[:-1]
        for depth in range(len(folders)):
            folder = "/".join(folders[: depth + 1])
            if f"!/{folder}" not in patterns:
                patterns += [f"!/{folder}", f"/{folder}/*"]
        patterns.append(f"!/{source}")
    return [*patterns, "__pycache__", "*.pyc"]
