"""Published images: the images of AWS's built-in algorithms in AWS's own registries, and the metrics that they define.

Each is a process of this installation, `python -m localcloud.sagemaker.algorithms.stand_in NAME VERSION`.
"""

import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from localcloud.ecr import pulls
from localcloud.ecr.process_images import ProcessImage
from localcloud.sagemaker.algorithms import image_pages, xgboost_container

_CHECKOUT = Path(__file__).resolve().parents[3]
_NUMBER = r"([-+0-9.eE]+)"

# The names: https://docs.aws.amazon.com/sagemaker/latest/dg/IC-tuning.html and object-detection-tuning.html beside it.
# The regular expressions are ours, for the stand-ins' lines.
_VISION = {
    "image-classification": [{"Name": "validation:accuracy", "Regex": rf"Validation-accuracy={_NUMBER}"}],
    "object-detection": [{"Name": "validation:mAP", "Regex": rf"validation mAP <score>=\({_NUMBER}\)"}],
}


# https://docs.aws.amazon.com/sagemaker/latest/dg-ecr-paths/sagemaker-algo-docker-registry-paths.html
_REPOSITORIES = {"sagemaker-xgboost": "xgboost", **{name: name for name in image_pages.RECORDS}}


@dataclass(frozen=True, kw_only=True)
class PublishedAlgorithm:
    """A built-in algorithm in a version, which is the tag of its image."""

    name: str
    version: str


def published(image_uri: str) -> PublishedAlgorithm | None:
    """Return the built-in algorithm with an image URI, or None if no registry of AWS has this image."""
    registry, _, image = image_uri.partition("/")
    account, _, domain = registry.partition(".dkr.ecr.")
    repository, _, version = image.partition(":")
    name = _REPOSITORIES.get(repository, "")
    versions = xgboost_container.VERSIONS if name == "xgboost" else image_pages.VERSIONS
    accounts = _registries()["xgboost" if name == "xgboost" else "images"]
    if not name or version not in versions or accounts.get(domain.removesuffix(".amazonaws.com")) != account:
        return None
    return PublishedAlgorithm(name=name, version=version)


@cache
def _registries() -> dict[str, dict[str, str]]:
    """Return the account of each Region, for `images` and `xgboost`."""
    return tomllib.loads((Path(__file__).parent / "registries.toml").read_text())


def resolve(account: str, image_uri: str) -> ProcessImage:
    """Return the process of an image URI: one in a local registry, or the stand-in for a built-in algorithm.

    Args:
        account: Calling account; a repository of another account must allow it to pull.
        image_uri: ECR URI.

    Raises:
        InvalidImageError: If the URI is not an ECR URI.
        ImageNotFoundError: If the image does not exist.
    """
    try:
        return pulls.resolve(account, image_uri)
    except pulls.ImageNotFoundError:
        algorithm = published(image_uri)
        if algorithm is None:
            raise
    module = "localcloud.sagemaker.algorithms.stand_in"
    command = (sys.executable, "-m", module, algorithm.name, algorithm.version)
    return ProcessImage(command=command, working_directory=str(_CHECKOUT))


def metric_definitions(image_uri: str) -> list[dict[str, Any]]:
    """Return the metrics that the algorithm of an image defines; none for other images.

    xgboost's are those of src/sagemaker_xgboost_container/algorithm_mode/metrics.py
    (https://github.com/aws/sagemaker-xgboost-container).
    """
    algorithm = published(image_uri)
    if algorithm is None:
        return []
    if algorithm.name == "xgboost":
        return [
            {"Name": f"validation:{name}", "Regex": rf".*\[[0-9]+\].*#011validation-{name}:(\S+)"}
            for name in xgboost_container.record()["lists"]["eval_metric"]
        ]
    return _VISION[algorithm.name]
