"""Images of localcloud: a tag in ECR whose manifest describes a process on this machine instead of layers.

Images are not pulled and need no container engine. The account, Region, repository and tag of an image URI have the
same meaning as in AWS: an image that was not pushed to a Region does not exist there.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from moto.ecr.exceptions import ImageNotFoundException, RepositoryNotFoundException
from moto.ecr.models import ecr_backends

from localcloud.iam.resource_policies import lets

MEDIA_TYPE = "application/vnd.traingrid.localcloud.process.v1+json"
"""Media type of a manifest that describes a process."""

# https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html: <account>.dkr.ecr.<region>.amazonaws.com
_URI = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/"
    r"(?P<repository>[a-z0-9][a-z0-9._/-]*)(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True, kw_only=True)
class ProcessImage:
    """The process that an image runs on this machine.

    Attributes:
        command: Program and first arguments, the image's entry point; a job appends its own command.
        environment: The image's ENV.
        working_directory: The image's WORKDIR, a folder on this machine.
        source: The image's source; images with different sources have different digests.
        opt_ml: The image's files below /opt/ml, by path: their texts, for example that of code/train.py.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    working_directory: str = "/"
    source: str = ""
    opt_ml: Mapping[str, str] = field(default_factory=dict)

    def write_opt_ml(self, base: Path) -> None:
        """Write the image's files below /opt/ml.

        Args:
            base: The folder that replaces /opt/ml.
        """
        for path, text in self.opt_ml.items():
            (base / path).parent.mkdir(parents=True, exist_ok=True)
            (base / path).write_text(text)


class InvalidImageError(ValueError):
    """The image URI is not an ECR URI."""


class ImageNotFoundError(LookupError):
    """The repository, tag or digest does not exist in the URI's account and Region.

    Attributes:
        repository_exists: True if the repository exists.
    """

    def __init__(self, message: str, *, repository_exists: bool) -> None:
        super().__init__(message)
        self.repository_exists = repository_exists


@dataclass(frozen=True, kw_only=True)
class ImageUri:
    """The parts of an ECR image URI."""

    account: str
    region: str
    repository: str
    tag: str | None
    digest: str | None

    @classmethod
    def parse(cls, uri: str) -> "ImageUri":
        """Parse `<account>.dkr.ecr.<region>.amazonaws.com/<repository>[:tag][@digest]`; no tag means "latest".

        Raises:
            InvalidImageError: If the URI has another form.
        """
        match = _URI.fullmatch(uri)
        if match is None:
            message = (
                f"{uri!r} is not an image URI of Amazon ECR (<account>.dkr.ecr.<region>.amazonaws.com/<name>:<tag>)"
            )
            raise InvalidImageError(message)
        parts = match.groupdict()
        if not parts["tag"] and not parts["digest"]:
            parts["tag"] = "latest"
        return cls(**parts)


def push(ecr_client: Any, repository: str, tag: str, image: ProcessImage) -> str:
    """Put a process image into an existing repository.

    Args:
        ecr_client: boto3 client of the target Region.
        repository: Name of the repository.
        tag: Tag of the image; an existing tag moves, unless the repository's tags are immutable.
        image: The process of the image.

    Returns:
        The image's digest.
    """
    manifest = json.dumps({"schemaVersion": 2, "mediaType": MEDIA_TYPE, "process": asdict(image)}, sort_keys=True)
    try:
        answer = ecr_client.put_image(
            repositoryName=repository, imageTag=tag, imageManifest=manifest, imageManifestMediaType=MEDIA_TYPE
        )
    except ecr_client.exceptions.ImageAlreadyExistsException:  # pushed or replicated before; `docker push` succeeds
        (details,) = ecr_client.describe_images(repositoryName=repository, imageIds=[{"imageTag": tag}])["imageDetails"]
        if details["imageDigest"] != f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}":
            raise
        return str(details["imageDigest"])
    return str(answer["image"]["imageId"]["imageDigest"])


def resolve(account: str, image_uri: str) -> ProcessImage:
    """Return the process of an image URI.

    Args:
        account: Calling account; a repository of another account must allow it to pull.
        image_uri: ECR URI with a tag, a digest, both or neither.

    Raises:
        InvalidImageError: If the URI is not an ECR URI.
        ImageNotFoundError: If the image does not exist, or is not a process image.
    """
    uri = ImageUri.parse(image_uri)
    if uri.account != account and not _may_pull(account, uri):
        message = f"{image_uri}: registry {uri.account} has no such repository from which {account} may pull"
        raise ImageNotFoundError(message, repository_exists=False)
    try:
        images = ecr_backends[uri.account][uri.region].batch_get_image(
            uri.repository, uri.account, [{"imageDigest": uri.digest} if uri.digest else {"imageTag": uri.tag}]
        )["images"]
    except RepositoryNotFoundException as error:
        message = f"{image_uri}: not found"
        raise ImageNotFoundError(message, repository_exists=False) from error
    except (ImageNotFoundException, KeyError) as error:  # KeyError: the Region does not exist
        message = f"{image_uri}: not found"
        raise ImageNotFoundError(message, repository_exists=False) from error
    if not images:
        message = f"{image_uri}: not found"
        raise ImageNotFoundError(message, repository_exists=True)
    return _process(image_uri, images[0].image_manifest)


def _may_pull(account: str, uri: ImageUri) -> bool:
    """Return True if another account's repository allows an account to pull (ECR, "Private repository policies")."""
    if uri.account not in ecr_backends or uri.region not in ecr_backends[uri.account]:
        return False
    repository = ecr_backends[uri.account][uri.region].repositories.get(uri.repository)
    return bool(repository) and lets_account(repository.policy, "ecr:BatchGetImage", account)


def lets_account(policy: str | None, action: str, account_id: str) -> bool:
    """Return True if a policy allows an account; conditions are ignored, because the caller's role is unknown."""
    statements = json.loads(policy or "{}").get("Statement", [])
    plain = [{**statement, "Condition": {}} for statement in statements]
    return lets({"Statement": plain}, action, f"arn:aws:iam::{account_id}:root")


def _process(image_uri: str, manifest: str) -> ProcessImage:
    process = json.loads(manifest).get("process")
    if process is None:
        message = f"{image_uri}: this image has layers; localcloud runs only images pushed by {__name__}.push"
        raise ImageNotFoundError(message, repository_exists=True)
    return ProcessImage(
        command=tuple(process["command"]),
        environment=dict(process["environment"]),
        working_directory=process["working_directory"],
        source=process["source"],
        opt_ml=dict(process["opt_ml"]),
    )
