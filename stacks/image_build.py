"""Images that the account builds itself: a CodeBuild project for each, started by a deployment that changes it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aws_cdk import Aws, IgnoreMode
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from stacks.build_project import BuildProject
from stacks.grants import grant
from traingrid import names

ROOT = Path(__file__).parent.parent
SCRIPT = Path(__file__).with_name("image_build.sh")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What an image is built from.

    Attributes:
        dockerfile: Path in the checkout; the checkout's root is the build context.
        sources: Files and folders of the checkout that the Dockerfile copies.
        target: Stage of the Dockerfile; empty for its last one.
        arguments: Build arguments of the Dockerfile, each as NAME=VALUE without blanks.
        compute: Size of the build's host, in CodeBuild's words
            (https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html).
    """

    dockerfile: str
    sources: Sequence[str]
    target: str = ""
    arguments: tuple[str, ...] = ()
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
        tag: Hash of its inputs; known when a template is written, so that another image is another template.
        digest: Known when it is built.
    """

    tag: str
    digest: str = field(repr=False)


class ImageBuild(BuildProject):
    """The CodeBuild project that builds one image, and its permissions: read its sources, push to one repository.

    `replicas` are the Regions that the image is replicated to, as `replication.places` writes them.

    The image's tag is the hash of everything that it is built from, and of the Regions that must have it: ECR
    replicates an image when it is pushed, and none that was pushed earlier
    (https://docs.aws.amazon.com/AmazonECR/latest/userguide/replication.html), so another Region is a new push.
    `rebuild` is a part of it, too: a build of the same sources has another digest, and only another tag makes
    CloudFormation start it and update the stacks that name the digest.
    """

    def __init__(
        self,
        scope: Construct,
        identifier: str,
        *,
        recipe: Recipe,
        repository_name: str,
        replicas: Sequence[str],
        log_group: str,
        rebuild: int = 0,
    ) -> None:
        source = s3_assets.Asset(
            scope, f"{identifier}Source", path=str(ROOT), exclude=_all_but(recipe.sources), ignore_mode=IgnoreMode.GIT
        )
        self.tag = _tag(recipe, source.asset_hash, replicas, rebuild)
        super().__init__(
            scope,
            identifier,
            description=f"Builds {repository_name} of traingrid from the checkout that was deployed",
            script=SCRIPT,
            variables={
                "SOURCE": source.s3_object_url,
                "REGISTRY": names.registry_uri(Aws.ACCOUNT_ID, Aws.REGION),
                "REPOSITORY": repository_name,
                "TAG": self.tag,
                "DOCKERFILE": recipe.dockerfile,
                "TARGET": recipe.target,
                "ARGUMENTS": " ".join(recipe.arguments),
            },
            repository_name=repository_name,
            log_group=log_group,
            compute=recipe.compute,
            privileged=True,
        )
        grant(self.role, ["s3:GetObject"], [source.bucket.arn_for_objects(source.s3_object_key)])
        # https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-push-iam.html; and a look for earlier images
        push = ["ecr:BatchCheckLayerAvailability", "ecr:InitiateLayerUpload", "ecr:UploadLayerPart"]
        push += ["ecr:CompleteLayerUpload", "ecr:PutImage", "ecr:BatchGetImage", "ecr:DescribeImages"]
        grant(self.role, push, [self.repository_arn])
        because = "The token is the account's: the action has no resource"
        grant(self.role, ["ecr:GetAuthorizationToken"], ["*"], because=because)


def _tag(recipe: Recipe, asset_hash: str, replicas: Sequence[str], rebuild: int) -> str:
    """Return the tag of an image: everything that can change the image, or make another push necessary, is in it."""
    parts = [asset_hash, recipe.dockerfile, recipe.target, *recipe.arguments, SCRIPT.read_text(), *sorted(replicas)]
    parts += [f"rebuild {rebuild}"] if rebuild else []
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]
    return "-".join(filter(None, (names.BUILT_TAG, recipe.target, digest)))


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
