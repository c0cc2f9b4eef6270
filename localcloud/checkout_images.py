"""The checkout's own images, put into the ECR repositories that a deployment in localcloud has made.

In AWS an image is built from a Dockerfile and pushed. Here the same repository and tag get a process of this checkout:
the orchestrator in the control-plane environment, the training entry in the training environment.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError

from localcloud import images
from localcloud.images import ProcessImage
from localcloud.isolation import user_environment
from traingrid import names
from traingrid.errors import TraingridError
from traingrid.grid import Grid

_CHECKOUT = Path(__file__).resolve().parent.parent

ORCHESTRATOR = ProcessImage(
    command=(str(_CHECKOUT / ".venv/bin/python"), "-m", "batch_job"),
    environment={"AWS_DATA_PATH": str(_CHECKOUT / "build/models")},  # as in batch_job/Dockerfile
    working_directory=str(_CHECKOUT),
)
TRAINING = ProcessImage(
    command=(str(_CHECKOUT / "training_container/train"),),
    environment={
        "PYTHON": str(_CHECKOUT / ".venv-training/bin/python"),
        "TRAINGRID_ALLOW_CPU": "1",  # whatever the instance type, its hosts are processes of this machine
    },
    working_directory=str(_CHECKOUT),
)

IMAGES = {"batch_job/Dockerfile": ORCHESTRATOR, "training_container/Dockerfile": TRAINING}
"""What stands for the image that is built from each Dockerfile."""


def push_images(endpoint: str, grid: Grid, secret: str = "") -> Iterator[str]:
    """Push the images that grid.yaml names by a tag: what somebody pushes by hand in AWS.

    Args:
        endpoint: Address of the localcloud; nothing else is ever pushed to.
        grid: The grid as it was deployed there.
        secret: Secret of a localcloud in another process.

    Yields:
        The images' URIs. An image that is there already is left as it is.

    Raises:
        TraingridError: There is no such repository: the grid is not deployed.
    """
    if tag := grid.orchestrator.image_tag:
        repository = names.orchestrator_repository(grid.name)
        yield _push(_registry(endpoint, secret, grid.home), repository, tag, ORCHESTRATOR)
    for region in grid.regions:
        registry = _registry(endpoint, secret, region, grid.elsewhere().get(region, ""))
        for image in grid.images.values():
            if image.repository and image.tag:
                yield _push(registry, names.repository(grid.name, image.repository), image.tag, TRAINING)


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
        images.push(ecr, repository, tag, image)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "RepositoryNotFoundException":
            what = (
                f"There is no ECR repository {repository} in {region} of the local AWS: the grid is not deployed there."
            )
            raise TraingridError(what, "Deploy it first: npx cdk deploy --all.") from error
        if code not in ("ImageAlreadyExistsException", "ImageTagAlreadyExistsException"):
            raise
    return f"{region} {repository}:{tag}"
