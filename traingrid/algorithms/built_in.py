"""Built-in algorithms: finds the rules and the image of one of SageMaker's own algorithms by name and version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.algorithms import xgboost
from traingrid.algorithms.image_classification import IMAGE_CLASSIFICATION
from traingrid.algorithms.object_detection import OBJECT_DETECTION
from traingrid.algorithms.registries import VISION, XGBOOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.algorithms.algorithm import Algorithm


@dataclass(frozen=True, kw_only=True)
class BuiltIn:
    """A built-in algorithm whose rules are known.

    Attributes:
        repository: The name of its repository in ECR.
        version: The version, which is the image's tag.
        registries: The account that owns the repository, by Region.
    """

    algorithm: Algorithm
    repository: str
    version: str
    registries: Mapping[str, str]

    @property
    def image(self) -> str:
        """The repository and tag."""
        return f"{self.repository}:{self.version}"

    def uri(self, region: str) -> str:
        """Return the URI of the image in a Region.

        Raises:
            KeyError: The Region does not offer the algorithm.
        """
        return f"{self.registries[region]}.dkr.ecr.{region}.amazonaws.com/{self.image}"


NAMES = ("image-classification", "object-detection", "xgboost")
"""The algorithms whose rules are known."""


def built_in(name: str, version: str) -> BuiltIn | None:
    """Return an algorithm, or None if the rules of this algorithm or version are not known."""
    vision = {"image-classification": IMAGE_CLASSIFICATION, "object-detection": OBJECT_DETECTION}
    if name in vision and version == "1":
        return BuiltIn(algorithm=vision[name], repository=name, version=version, registries=VISION)
    if name == "xgboost" and version in xgboost.VERSIONS:
        rules = xgboost.xgboost(version)
        return BuiltIn(algorithm=rules, repository="sagemaker-xgboost", version=version, registries=XGBOOST)
    return None


def of_image(image: str) -> BuiltIn | None:
    """Return the algorithm with an image, given by its repository and tag."""
    repository, _, version = image.partition(":")
    name = "xgboost" if repository == "sagemaker-xgboost" else repository
    algorithm = built_in(name, version)
    return algorithm if algorithm and algorithm.repository == repository else None


def is_known_image(uri: str) -> bool:
    """Return True if a URI is that of a known algorithm's image, in its registry of one Region."""
    registry, _, image = uri.partition("/")
    account, _, suffix = registry.partition(".dkr.ecr.")
    algorithm, region = of_image(image), suffix.removesuffix(".amazonaws.com")
    return algorithm is not None and algorithm.registries.get(region) == account
