"""Framework images: AWS's own training images by alias, with the account that hosts them in each Region.

Deep-learning containers are in the same account in most Regions; built-in algorithms are in another account in each
Region. The accounts come from tables of the SageMaker Python SDK, which are read when the grid is deployed
(stacks/image_tables.py). They must fit into a Lambda function's environment, so the most common account of an image is
stored once, with the Regions in which it differs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

DEEP_LEARNING_CONTAINERS = "763104351884"
"""The account of AWS's deep-learning containers in most Regions
(https://docs.aws.amazon.com/sagemaker/latest/dg-ecr-paths/sagemaker-algo-docker-registry-paths.html)."""

SOME_ACCOUNT = "account-of-aws"
"""Placeholder for the account in the URI of a built-in algorithm that no deployment has resolved yet."""

_URI = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/(?P<image>.+)")


@dataclass(frozen=True, kw_only=True)
class FrameworkImage:
    """One of AWS's own training images.

    Attributes:
        image: The repository and tag.
        registry: The account of its registry in most Regions.
        other_registries: The account of its registry in the other Regions, by Region.
    """

    image: str
    registry: str
    other_registries: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_uris(cls, uris: Mapping[str, str]) -> FrameworkImage:
        """Return the image with the given URIs by Region.

        Raises:
            ValueError: The URIs are not those of one ECR image, each in its own Region.
        """
        match_by_region = {region: _URI.fullmatch(uri) for region, uri in uris.items()}
        images = {match["image"] for match in match_by_region.values() if match}
        strange = [
            uris[region] for region, match in match_by_region.items() if match is None or match["region"] != region
        ]
        if strange or len(images) != 1:
            raise ValueError(f"not one image in ECR: {', '.join(strange or sorted(images))}")
        accounts = {region: match["account"] for region, match in match_by_region.items() if match}
        registry = Counter(accounts.values()).most_common(1)[0][0]
        other_registries = {region: account for region, account in accounts.items() if account != registry}
        return cls(image=images.pop(), registry=registry, other_registries=other_registries)

    def uri(self, region: str) -> str:
        """Return the URI of the image in a Region."""
        return f"{self.other_registries.get(region, self.registry)}.dkr.ecr.{region}.amazonaws.com/{self.image}"

    def repository_arn(self, region: str) -> str:
        """Return the ARN of the image's repository in a Region."""
        account = self.other_registries.get(region, self.registry)
        repository = self.image.partition(":")[0]
        return f"arn:aws:ecr:{region}:{account}:repository/{repository}"


def to_environment(images: Mapping[str, FrameworkImage]) -> str:
    """Return images by alias as compact JSON for the environment variable TRAINGRID_FRAMEWORKS."""
    packed = {alias: [image.image, image.registry, dict(image.other_registries)] for alias, image in images.items()}
    return json.dumps(packed, separators=(",", ":"))


def from_environment(text: str) -> dict[str, FrameworkImage]:
    """Return the images by alias from the JSON of `to_environment`."""
    return {
        alias: FrameworkImage(image=image, registry=registry, other_registries=other_registries)
        for alias, (image, registry, other_registries) in json.loads(text).items()
    }
