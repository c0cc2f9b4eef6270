"""Built-in algorithms: finds the rules and the image of one of SageMaker's own algorithms by name and version."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from traingrid.algorithms import images, xgboost
from traingrid.algorithms.algorithm import Algorithm
from traingrid.algorithms.hyperparameter import Hyperparameter

_PAGES = "https://docs.aws.amazon.com/sagemaker/latest/dg"


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


VERSIONS = {"image-classification": ("1",), "object-detection": ("1",), "xgboost": xgboost.VERSIONS}
"""The versions of each algorithm whose rules are known."""


@cache
def built_in(name: str, version: str) -> BuiltIn | None:
    """Return an algorithm, or None if the rules of this algorithm or version are not known."""
    if version not in VERSIONS.get(name, ()):
        return None
    is_xgboost = name == "xgboost"
    algorithm = _xgboost(version) if is_xgboost else _image_algorithm(name)
    registries = {region: accounts[is_xgboost] for region, accounts in _tables()["registries"].items()}
    repository = "sagemaker-xgboost" if is_xgboost else name
    return BuiltIn(algorithm=algorithm, repository=repository, version=version, registries=registries)


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads((Path(__file__).parent / "built_in.toml").read_text())


def _xgboost(version: str) -> Algorithm:
    return Algorithm(
        name="xgboost",
        source=f"{_PAGES}/xgboost_hyperparameters.html",
        hyperparameters=tuple(_hyperparameters("xgboost", version)),
        aliases={"learning_rate": "eta", "min_split_loss": "gamma", "reg_lambda": "lambda", "reg_alpha": "alpha"},
        channels=xgboost.channels(version),
        rules=(*xgboost.RULES, *(partial(rule, version=version) for rule in xgboost.RULES_OF_VERSIONS)),
    )


def _image_algorithm(name: str) -> Algorithm:
    classifies = name == "image-classification"
    labels = "lst" if classifies else "annotation"
    further_rules = images.CLASSIFICATION_RULES if classifies else ()
    return Algorithm(
        name=name,
        source=f"{_PAGES}/{'IC-Hyperparameter' if classifies else 'object-detection-api-config'}.html",
        hyperparameters=(*_hyperparameters("images", "1"), *_hyperparameters(name, "1")),
        channels=images.channels(labels),
        instance_families=images.GPU_FAMILIES,
        rules=(partial(images.one_format, labels=labels), *further_rules),
    )


def _hyperparameters(table: str, version: str) -> Iterator[Hyperparameter]:
    order = VERSIONS.get(table, (version,))
    for name, row in _tables()[table].items():
        values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        since = values.pop("since", order[0])
        until = values.pop("until", order[-1])
        for first, choices in values.pop("more_choices", {}).items():
            if order.index(first) <= order.index(version):
                values["choices"] += tuple(choices)
        if order.index(since) <= order.index(version) <= order.index(until):
            yield Hyperparameter(name=name, **values)


def algorithm_of_image(image: str) -> BuiltIn | None:
    """Return the algorithm with an image, given by its repository and tag."""
    repository, _, version = image.partition(":")
    name = "xgboost" if repository == "sagemaker-xgboost" else repository
    algorithm = built_in(name, version)
    return algorithm if algorithm and algorithm.repository == repository else None


def is_known_image(uri: str) -> bool:
    """Return True if a URI is that of a known algorithm's image, in its registry of one Region."""
    registry, _, image = uri.partition("/")
    account, _, suffix = registry.partition(".dkr.ecr.")
    algorithm = algorithm_of_image(image)
    region = suffix.removesuffix(".amazonaws.com")
    return algorithm is not None and algorithm.registries.get(region) == account
