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
        tag: Tag of the image; an existing tag moves, unless the repository's tags are immutable.

    Returns:
        The image's digest.
    """
    manifest = json.dumps({"schemaVersion": 2, "mediaType": MEDIA_TYPE, "process": asdict(image)}, sort_keys=True)
    try:
        reply = ecr_client.put_image(
            repositoryName=repository, imageTag=tag, imageManifest=manifest, imageManifestMediaType=MEDIA_TYPE
        )
    except ecr_client.exceptions.ImageAlreadyExistsException:  # pushed or replicated before; `docker push` succeeds
        (details,) = ecr_client.describe_images(repositoryName=repository, imageIds=[{"imageTag": tag}])["imageDetails"]
        if details["imageDigest"] != f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}":
            raise
        return str(details["imageDigest"])
    return str(reply["image"]["imageId"]["imageDigest"])
