"""Initial content of an account: objects in S3, images in ECR and algorithms, created without API calls.

For tests and tools that require them to exist but do not read their content, such as training stubs.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from moto.ecr.exceptions import RepositoryAlreadyExistsException
from moto.ecr.models import ecr_backends
from moto.s3.exceptions import MissingBucket
from moto.s3.models import s3_backends
from moto.sagemaker.models import sagemaker_backends

from localcloud.ecr.process_images import MEDIA_TYPE, ImageUri, ProcessImage

if TYPE_CHECKING:
    from localcloud.sagemaker.backend import TrainingBackend

_NO_OP_MANIFEST = {"schemaVersion": 2, "mediaType": MEDIA_TYPE, "process": asdict(ProcessImage(command=("true",)))}
"""The manifest of an image whose program does nothing."""
# As in the repositories of AWS's own deep-learning containers, other accounts may pull.
_PUBLIC_PULL_POLICY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": "*",
                "Action": ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            }
        ],
    }
)


def create_object(account: str, region: str, bucket: str, key: str, content: bytes = b"") -> None:
    """Create an object and, if necessary, its bucket, without sending an event.

    Args:
        region: Region of the bucket, if the bucket does not exist yet.
    """
    s3 = s3_backends[account]["aws"]
    try:
        s3.get_bucket(bucket)
    except MissingBucket:
        s3.create_bucket(bucket, region)
    s3.put_object(bucket, key, content, disable_notification=True)


def create_algorithm(account: str, region: str, name_or_arn: str, training: Mapping[str, Any]) -> None:
    """Create an algorithm resource, or a subscription to one.

    Args:
        account: The account that trains with it.
        name_or_arn: Its name in this account, or its ARN.
        training: Its TrainingSpecification.
    """
    cast("TrainingBackend", sagemaker_backends[account][region]).algorithms.add(name_or_arn, training)


def create_image(account: str, image_uri: str) -> None:
    """Create an image and its repository. A repository in another account's registry allows everyone to pull.

    An existing image is not replaced.

    Args:
        account: The account that uses the image.

    Raises:
        InvalidImageError: If the URI is not an ECR URI.
        KeyError: If its Region does not exist.
    """
    uri = ImageUri.parse(image_uri)
    registry = ecr_backends[uri.account][uri.region]
    encryption = {"encryptionType": "AES256"}
    with suppress(RepositoryAlreadyExistsException):
        registry.create_repository(uri.repository, uri.account, encryption, None, "MUTABLE", tags=[])
        if uri.account != account:
            registry.set_repository_policy(uri.account, uri.repository, _PUBLIC_PULL_POLICY)
    image_id = {"imageDigest": uri.digest} if uri.digest else {"imageTag": uri.tag}
    if not registry.batch_get_image(uri.repository, uri.account, [image_id])["images"]:
        # ECR treats pushes with the same manifest as one image; this annotation makes the image distinct.
        manifest = json.dumps({**_NO_OP_MANIFEST, "annotations": image_id})
        registry.put_image(uri.repository, manifest, uri.tag, MEDIA_TYPE, uri.digest)
