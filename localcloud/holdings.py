"""What is there before anything begins: data in S3 and images in ECR, put into the account without anybody's call.

For whoever tries something that needs them to exist and looks into none, as a training stub does.
"""

import json
from contextlib import suppress
from dataclasses import asdict

from moto.ecr.exceptions import RepositoryAlreadyExistsException
from moto.ecr.models import ecr_backends
from moto.s3.exceptions import MissingBucket
from moto.s3.models import s3_backends

from localcloud.images import MEDIA_TYPE, ImageUri, ProcessImage

_NOTHING = {"schemaVersion": 2, "mediaType": MEDIA_TYPE, "process": asdict(ProcessImage(command=("true",)))}
# As the repositories of AWS's own deep-learning containers have it: other accounts may pull.
_EVERYBODY_PULLS = json.dumps(
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


def hold_object(account: str, region: str, bucket: str, key: str, content: bytes = b"") -> None:
    """Have an object, and the bucket that it lies in; nobody is told by an event.

    Args:
        account: The account.
        region: Region of the bucket, if there is none of its name yet.
        bucket: The bucket.
        key: The object.
        content: What is in it.
    """
    s3 = s3_backends[account]["aws"]
    try:
        s3.get_bucket(bucket)
    except MissingBucket:
        s3.create_bucket(bucket, region)
    s3.put_object(bucket, key, content, disable_notification=True)


def hold_image(account: str, image_uri: str) -> None:
    """Have an image, and its repository, which in another account's registry lets everybody pull.

    An image that is there is left as it is.

    Args:
        account: The account that is to find it.
        image_uri: Where.

    Raises:
        InvalidImageError: The URI is not one of ECR.
        KeyError: Its Region does not exist.
    """
    uri = ImageUri.parse(image_uri)
    registry = ecr_backends[uri.account][uri.region]
    with suppress(RepositoryAlreadyExistsException):
        registry.create_repository(uri.repository, uri.account, {"encryptionType": "AES256"}, None, "MUTABLE", [])
        if uri.account != account:
            registry.set_repository_policy(uri.account, uri.repository, _EVERYBODY_PULLS)
    wanted = {"imageDigest": uri.digest} if uri.digest else {"imageTag": uri.tag}
    if not registry.batch_get_image(uri.repository, uri.account, [wanted])["images"]:
        # ECR takes what was pushed for one image where its manifest is the same; this one is to have a name of its own.
        manifest = json.dumps({**_NOTHING, "annotations": wanted})
        registry.put_image(uri.repository, manifest, uri.tag, MEDIA_TYPE, uri.digest)
