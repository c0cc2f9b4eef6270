"""Image builds: one CodeBuild project for each image, started by a deployment that changes the image."""

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
    """The inputs of an image.

    Attributes:
        dockerfile: Path in the checkout. The checkout's root is the build context.
        sources: Files and folders of the checkout that the Dockerfile copies.
        target: Stage of the Dockerfile; empty for the last one.
        arguments: Build arguments of the Dockerfile, each as NAME=VALUE without blanks.
        compute: CodeBuild's compute type
            (https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html).
    """

    dockerfile: str
    sources: Sequence[str]
    target: str = ""
    arguments: tuple[str, ...] = ()
    compute: str = "BUILD_GENERAL1_SMALL"


ORCHESTRATOR = Recipe(
    dockerfile="batch_job/Dockerfile",
    sources=("batch_job", "traingrid", "setup/requirements/orchestrator.txt"),
)

_HOROVOD = (
    "training_container",
    *(f"setup/{name}.sh" for name in ("training", "cuda", "efa")),
    *(f"setup/requirements/{group}.txt" for group in ("training", "training-dev", "training-gpu", "cuda-tools")),
)

TRAINING = {
    "cpu": Recipe(
        dockerfile="training_container/Dockerfile", sources=_HOROVOD, target="cpu", compute="BUILD_GENERAL1_MEDIUM"
    ),
    "gpu": Recipe(
        dockerfile="training_container/Dockerfile", sources=_HOROVOD, target="gpu", compute="BUILD_GENERAL1_LARGE"
    ),
    "torch": Recipe(
        dockerfile="training_container/Dockerfile.torch",
        sources=("training_container", "setup/efa.sh", "setup/requirements/training-torch.txt"),
        target="torch",
        compute="BUILD_GENERAL1_LARGE",
    ),
}
"""The training image by target. Compiling Horovod takes minutes, and NVIDIA's libraries take gigabytes."""


@dataclass(frozen=True, kw_only=True)
class BuiltImage:
    """References to a built image, for other stacks.

    Attributes:
        tag: Hash of the image's inputs. It is known at synthesis, so that a change of the image changes the template.
        digest: Known only after the build.
    """

    tag: str
    digest: str = field(repr=False)


class ImageBuild(BuildProject):
    """The CodeBuild project that builds one image. Its role may read its sources and push to one repository.

    The image's tag is the hash of its inputs and of the Regions that it is replicated to. ECR replicates an image only
    when it is pushed (https://docs.aws.amazon.com/AmazonECR/latest/userguide/replication.html), so another Region
    requires another push. `rebuild` is part of the hash, too: a new build of the same sources has a new digest, but
    only a new tag makes CloudFormation start the build, and update the stacks that use the digest.

    Args:
        repository_name: The repository that it is pushed to.
        replicas: The Regions that it is replicated to, in the format of `replication.places`.
        log_group: Name of the log group of the builds.
        rebuild: The number `rebuild` of grid.yaml.
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
        # https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-push-iam.html; DescribeImages for earlier images
        push = ["ecr:BatchCheckLayerAvailability", "ecr:InitiateLayerUpload", "ecr:UploadLayerPart"]
        push += ["ecr:CompleteLayerUpload", "ecr:PutImage", "ecr:BatchGetImage", "ecr:DescribeImages"]
        grant(self.role, push, [self.repository_arn])
        because = "The token is valid for the account: the action does not support resources"
        grant(self.role, ["ecr:GetAuthorizationToken"], ["*"], because=because)


def _tag(recipe: Recipe, asset_hash: str, replicas: Sequence[str], rebuild: int) -> str:
    """Return an image's tag: a hash of everything that can change the image or require another push."""
    parts = [asset_hash, recipe.dockerfile, recipe.target, *recipe.arguments, SCRIPT.read_text(), *sorted(replicas)]
    if rebuild:
        parts.append(f"rebuild {rebuild}")
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]
    return "-".join(filter(None, (names.BUILT_TAG, recipe.target, digest)))


def _all_but(sources: Sequence[str]) -> list[str]:
    """Return the exclude patterns of an asset, in .gitignore's syntax, that keep only `sources`."""
    patterns = ["/*"]
    for source in sources:
        folders = Path(source).parts[:-1]
        for depth in range(len(folders)):
            folder = "/".join(folders[: depth + 1])
            if f"!/{folder}" not in patterns:
                patterns += [f"!/{folder}", f"/{folder}/*"]
        patterns.append(f"!/{source}")
    return [*patterns, "__pycache__", "*.pyc"]
