"""Pushes of images of this checkout to the ECR repositories of a deployment in localcloud."""

from collections.abc import Iterator
from typing import Any

import boto3
from botocore.exceptions import ClientError

from localcloud.credentials.environments import user_environment
from localcloud.ecr import process_images
from localcloud.ecr.process_images import ProcessImage
from traingrid import names
from traingrid.errors import TraingridError
from traingrid.grid.model import GridSettings
from verification.checkout import images


def push_images(endpoint: str, grid: GridSettings, secret: str = "") -> Iterator[str]:
    """Push the images that grid.yaml names by a tag. In AWS, users push these images themselves.

    Args:
        endpoint: Address of the localcloud; images are pushed only to this address.
        grid: The grid as it was deployed there.
        secret: Secret of a localcloud in another process.

    Yields:
        The images' URIs. Images that already exist are not replaced.

    Raises:
        TraingridError: If a repository does not exist, because the grid is not deployed.
    """
    if tag := grid.orchestrator.image_tag:
        repository = names.orchestrator_repository(grid.name)
        yield _push(_registry(endpoint, secret, grid.home), repository, tag, images.ORCHESTRATOR)
    for region in grid.regions:
        registry = _registry(endpoint, secret, region, grid.other_accounts().get(region, ""))
        for image in grid.images.values():
            if image.repository and image.tag:
                yield _push(registry, names.repository(grid.name, image.repository), image.tag, images.TRAINING)


def _registry(endpoint: str, secret: str, region: str, account: str = "") -> Any:
    keys = user_environment(endpoint, account_id=account, secret=secret)
    return boto3.client(
        "ecr",
        region_name=region,
        endpoint_url=endpoint,
        aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
    )


def _push(ecr: Any, repository: str, tag: str, image: ProcessImage) -> str:
    region = ecr.meta.region_name
    try:
        process_images.push(ecr, repository, tag, image)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "RepositoryNotFoundException":
            sentence = f"The local AWS has no ECR repository {repository} in {region}: the grid is not deployed there."
            raise TraingridError(sentence, "Deploy it first: npx cdk deploy --all.") from error
        if code not in ("ImageAlreadyExistsException", "ImageTagAlreadyExistsException"):
            raise
    return f"{region} {repository}:{tag}"
