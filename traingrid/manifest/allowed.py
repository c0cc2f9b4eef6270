"""Manifest rules: the allow-lists of Regions, buckets, instance types, images and algorithms of one deployment.

A manifest cannot specify roles, networks or keys.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.aws.s3_uri import MAX_KEY_BYTES, S3Uri
from traingrid.manifest.limits import limit_problem, most
from traingrid.manifest.problem import RefusedError

if TYPE_CHECKING:
    from traingrid.grid.deployment import Deployment
    from traingrid.grid.model import GridSettings

_IMAGE = re.compile(
    r"[a-z0-9{][A-Za-z0-9._{}-]*(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:[A-Za-z0-9_][A-Za-z0-9._-]*)?(@sha256:[0-9a-f]{64})?"
)
_ECR_REGION = re.compile(r"\d{12}\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com")
# Encoded dots and slashes: real keys do not contain them, and a reader that decodes them would leave the folder.
_ENCODED = re.compile(r"%2e|%2f|%5c|%00", re.IGNORECASE)
_VERSION = re.compile(r"\?versionId=", re.IGNORECASE)
# Both are correct keys, but hardly any object has such a key.
_STORED = "Remove ?versionId=. To train with an older version, copy it to another key."
_WITHOUT_WILDCARD = "Remove the *: a prefix includes every object whose key begins with it."


@cache
def _most_output_bytes() -> int:
    """Return the maximum length of an output folder: SageMaker stores the model below it and the training job's name.

    With the name of a bucket, it is also shorter than the S3OutputPath of a request may be.
    """
    name_bytes = most("TrainingJobName")
    return MAX_KEY_BYTES - len("/") - name_bytes - len("/output/model.tar.gz")


@lru_cache(maxsize=4096)
def _suggestion(word: str, choices: tuple[str, ...]) -> str:
    similar_words = difflib.get_close_matches(word.lower()[:80], choices, n=1)
    return f"Did you mean {similar_words[0]}? " if similar_words else ""


@dataclass(frozen=True)
class Rules:
    """The allow-lists of a deployment. Every method raises RefusedError for a value that is not on its list."""

    deployment: Deployment

    @property
    def grid(self) -> GridSettings:
        """The grid that defines the lists."""
        return self.deployment.grid

    @cached_property
    def regions(self) -> tuple[str, ...]:
        """The training Regions."""
        return tuple(self.grid.regions)

    @cached_property
    def buckets(self) -> dict[str, str]:
        """The Region of every bucket that a manifest may reference."""
        return self.deployment.bucket_regions()

    @cached_property
    def _instance_types(self) -> tuple[str, ...]:
        return self.grid.allowed_instance_types()

    def region(self, region: object) -> str:
        """Return a training Region."""
        if isinstance(region, str) and region in self.grid.regions:
            return region
        suggestion = _suggestion(str(region), self.regions)
        raise RefusedError(
            "not a training Region of this grid",
            f"{suggestion}The grid has {', '.join(self.regions)}; add other Regions in grid.yaml.",
        )

    def data(self, uri: object, region: str, next_step: str) -> S3Uri:
        """Return the URI of data that jobs in `region` may read; accept any bucket if `region` is not in the grid."""
        parsed = _parse_uri(uri, next_step)
        actual = self.buckets.get(parsed.bucket)
        if actual == region or region not in self.grid.regions:
            return parsed
        if actual:
            reason = f"the bucket {parsed.bucket} is in {actual}, but the line's Region is {region}"
            raise RefusedError(
                f"{reason}; SageMaker reads only from its own Region",
                f"Write {actual}, or use a copy of the data in {region}.",
            )
        own_bucket = names.data_bucket(self.grid.name, self.deployment.account_of(region), region)
        raise RefusedError(
            f"this grid may not read the bucket {parsed.bucket}",
            f"Add it to data_buckets of {region} in grid.yaml and deploy, or use the grid's own bucket, {own_bucket}.",
        )

    def file_system(self, file_system: str, region: str) -> str:
        """Return the type of a file system that jobs in `region` may mount; empty if `region` is not in the grid."""
        if region not in self.grid.regions:
            return ""
        settings = self.grid.regions[region]
        if file_system in settings.file_systems:
            return settings.file_systems[file_system]
        actual = next(
            (
                name
                for name, settings_of_region in self.grid.regions.items()
                if file_system in settings_of_region.file_systems
            ),
            None,
        )
        if actual:
            reason = f"the file system {file_system} is in {actual}, but the line's Region is {region}"
            raise RefusedError(f"{reason}; SageMaker mounts only file systems of the same Region", f"Write {actual}.")
        if not settings.subnets:
            reason = f"{region} has no VPC, through which training jobs mount a file system"
            next_step = f"Set subnets, security_groups and file_systems of {region} in grid.yaml and deploy."
            raise RefusedError(reason, next_step)
        file_systems = ", ".join(settings.file_systems) or "none"
        raise RefusedError(
            f"this grid does not allow this file system in {region}",
            f"It allows {file_systems}; add others to file_systems of {region} in grid.yaml and deploy.",
        )

    def output(self, uri: object, region: str) -> str:
        """Return the key of a URI in the output bucket of `region`."""
        bucket = names.output_bucket(self.grid.name, self.deployment.account_of(region), region)
        next_step = f"Write s3://{bucket}/folder, or omit it."
        parsed = _parse_uri(uri, next_step)
        if parsed.bucket != bucket:
            raise RefusedError(f"the execution role of {region} may write only to the bucket {bucket}", next_step)
        if not parsed.key:
            raise RefusedError("must name a folder in the bucket", next_step)
        size = len(parsed.key.encode())
        most_bytes = _most_output_bytes()
        if size > most_bytes:
            reason = f"the folder may have at most {most_bytes} bytes, because S3 limits the keys of results below it"
            raise RefusedError(f"{reason} to {MAX_KEY_BYTES:,}; got {size:,}", "Write a shorter folder.")
        return parsed.key

    def output_uri_characters(self, folder: str) -> int:
        """Return the length of the URI of a folder, with a trailing slash, in the longest-named output bucket."""
        grid, account_of = self.grid, self.deployment.account_of
        buckets = (names.output_bucket(grid.name, account_of(region), region) for region in self.regions)
        return max(len(f"s3://{bucket}/{folder}/") for bucket in buckets)

    def instance_type(self, name: object) -> str:
        """Return an instance type."""
        if isinstance(name, str) and name in self._instance_types:
            return name
        suggestion = _suggestion(str(name), self._instance_types)
        raise RefusedError(
            "this grid does not allow this instance type",
            f"{suggestion}It allows {', '.join(self._instance_types)}; add others to instance_types in grid.yaml.",
        )

    def image(self, image: object, region: str) -> str:
        """Return the URI in `region` of an image, given by its alias or by its URI in an allowed registry.

        Accept any registry if `region` is not in the grid.
        """
        aliases = tuple(self.grid.images)
        if not isinstance(image, str) or ("/" not in image and image not in aliases):
            suggestion = _suggestion(str(image), aliases)
            raise RefusedError("not an image of this grid", f"{suggestion}The grid has {', '.join(aliases)}.")
        uri = self.deployment.image_uri(image, region)
        if image in aliases:
            return uri
        problem = limit_problem("AlgorithmImage", uri)
        if problem or not _IMAGE.fullmatch(image):
            raise RefusedError(
                problem or "not the URI of an image", "Write registry/repository:tag, or an alias of grid.yaml."
            )
        if region not in self.grid.regions:
            return uri
        registry = _ECR_REGION.match(uri)
        if registry and registry[1] != region:
            reason = (
                f"the image is in {registry[1]}, but the job is in {region}; SageMaker pulls only from its own Region"
            )
            raise RefusedError(reason, "Write {region} in place of the Region.")
        if not any(
            uri.startswith((f"{allowed}/", f"{allowed}:", f"{allowed}@")) for allowed in self._registries[region]
        ):
            next_step = "Write an alias of grid.yaml, or add the registry to image_registries there and deploy."
            raise RefusedError("this grid does not allow the image's registry", next_step)
        return uri

    def algorithm(self, name: object, region: str) -> str:
        """Return an algorithm resource's name, or its ARN in `region`."""
        if isinstance(name, str) and name in self.grid.algorithms:
            return name.replace("{region}", region)
        allowed = ", ".join(self.grid.algorithms) or "none"
        next_step = f"It allows {allowed}; add others to algorithms in grid.yaml."
        raise RefusedError("this grid does not allow this algorithm", next_step)

    def training_plan(self, arn: object, region: str) -> str:
        """Return the ARN of a training plan in a Region of the grid."""
        next_step = f"Write arn:aws:sagemaker:{region}:{self.deployment.account_of(region)}:training-plan/NAME."
        if not isinstance(arn, str):
            raise RefusedError("must be an ARN, or an object with an ARN for each Region", next_step)
        if problem := limit_problem("TrainingPlanArn", arn):
            raise RefusedError(f"not the ARN of a training plan: {problem}", next_step)
        _, _, _, plan_region, owner, resource = arn.split(":", 5)
        if plan_region != region:
            reason = f"the plan is in {plan_region}, but the job is in {region}"
            raise RefusedError(f"{reason}; SageMaker uses only plans of the same Region", next_step)
        if owner != self.deployment.account_of(region):
            raise RefusedError(f"the plan is in account {owner}, but the jobs of {region} are in another", next_step)
        allowed = self.grid.regions[region].training_plans
        name = resource.removeprefix("training-plan/")
        if name not in allowed:
            plans = ", ".join(allowed) or "none"
            reason = f"this grid does not allow this training plan in {region}"
            raise RefusedError(
                reason, f"{_suggestion(name, allowed)}It allows {plans}; add others to training_plans in grid.yaml."
            )
        return arn

    @cached_property
    def _registries(self) -> dict[str, tuple[str, ...]]:
        name = self.grid.name
        return {
            region: (
                names.repository_uri(self.deployment.account_of(region), region, name),
                *(registry.replace("{region}", region) for registry in self.grid.image_registries),
            )
            for region in self.regions
        }


def _parse_uri(uri: object, next_step: str) -> S3Uri:
    """Return an S3 URI, and refuse a version, a wildcard and encoded characters in it."""
    if not isinstance(uri, str):
        raise RefusedError("must be text", next_step)
    try:
        parsed = S3Uri.parse(uri)
    except ValueError as error:
        raise RefusedError(str(error), next_step) from None
    if _VERSION.search(parsed.key):
        raise RefusedError(
            "a line reads the current version of an object, so ?versionId= is a part of its key", _STORED
        )
    if parsed.key.endswith("*"):
        raise RefusedError("a prefix has no wildcards, so * is a part of the key", _WITHOUT_WILDCARD)
    if _ENCODED.search(parsed.key):
        raise RefusedError("the key must not contain an encoded dot or slash", next_step)
    return parsed
