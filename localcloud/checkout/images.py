"""Images of this checkout: pushes them to the ECR repositories of a deployment in localcloud.

In AWS, an image is built from a Dockerfile and pushed. Here, a process of this checkout represents the image in the
same repository and tag: the orchestrator in the control-plane environment, training in the training environment, and
PyTorch in its own.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError

from localcloud.credentials.environments import user_environment
from localcloud.ecr import process_images
from localcloud.ecr.process_images import ProcessImage
from localcloud.processes.process_group import search_path
from traingrid import names
from traingrid.errors import TraingridError
from traingrid.grid.model import Grid

_CHECKOUT = Path(__file__).resolve().parents[2]

ORCHESTRATOR = ProcessImage(
    command=(str(_CHECKOUT / ".venv/bin/python"), "-m", "batch_job"),
    environment={"AWS_DATA_PATH": str(_CHECKOUT / "build/models")},  # as in batch_job/Dockerfile
    working_directory=str(_CHECKOUT),
)


def _training_image(environment: str) -> ProcessImage:
    """Return the process of a training image whose Python environment is in a folder of the checkout.

    As in the images (`ENV PATH`), a command such as `python train.py` finds that environment's programs first.
    """
    programs = _CHECKOUT / environment / "bin"
    return ProcessImage(
        command=(str(_CHECKOUT / "training_container/train"),),
        environment={
            "PATH": search_path(programs, os.environ.get("PATH", os.defpath)),
            "PYTHON": str(programs / "python"),
            "TRAINGRID_ALLOW_CPU": "1",  # hosts of every instance type are processes here
        },
        working_directory=str(_CHECKOUT),
    )


TRAINING = _training_image(".venv-training")
TORCH = _training_image(".venv-torch")

IMAGES = {
    "batch_job/Dockerfile": ORCHESTRATOR,
    "training_container/Dockerfile": TRAINING,
    "training_container/Dockerfile.torch": TORCH,
}
"""The process that represents the image built from each Dockerfile."""


def push_images(endpoint: str, grid: Grid, secret: str = "") -> Iterator[str]:
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
        process_images.push(ecr, repository, tag, image)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "RepositoryNotFoundException":
            message = f"The local AWS has no ECR repository {repository} in {region}: the grid is not deployed there."
            raise TraingridError(message, "Deploy it first: npx cdk deploy --all.") from error
        if code not in ("ImageAlreadyExistsException", "ImageTagAlreadyExistsException"):
            raise
    return f"{region} {repository}:{tag}"
