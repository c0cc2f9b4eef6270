"""What a manifest would do if it were submitted: checked and filled in as the intake does, and nothing written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid.channels import by_rank
from traingrid.clients import client
from traingrid.job import in_region
from traingrid.manifest_line import iter_jobs
from traingrid.rank_manifests import data_objects
from traingrid.s3_uri import prefix_of
from traingrid.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from traingrid.deployment import Deployment
    from traingrid.job import Job
    from traingrid.manifest_line import Line

# The submission's id is a hash of the object's version, which does not exist yet.
NO_SUBMISSION = "00000000"


# What S3 and ECR answer where something does not exist; whatever else they answer says nothing of it.
_MISSING = ("NoSuchBucket", "ImageNotFoundException", "RepositoryNotFoundException")


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a look at a job's data and images has found.

    Attributes:
        trouble: Why it would fail as things are now; empty where nothing is known to be in its way.
        unchecked: What could not be looked at, and in brackets why.
    """

    trouble: str = ""
    unchecked: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What one line would become.

    Attributes:
        job: The job, every default filled in.
        found: What is known of its data and images.
    """

    job: Job
    found: Found

    @property
    def would_fail(self) -> bool:
        """Whether something is known to be in its way."""
        return bool(self.found.trouble)

    @property
    def is_unchecked(self) -> bool:
        """Whether nothing is known to be in its way only because it could not be looked at."""
        return bool(self.found.unchecked) and not self.would_fail

    @property
    def outcome(self) -> str:
        """What would happen, in words."""
        if self.would_fail:
            return f"would fail: {self.found.trouble}"
        if self.is_unchecked:
            return f"not checked: {', '.join(self.found.unchecked)}"
        if self.job.launch == "queued":
            share = f" of {self.job.share}" if self.job.share else ""
            return f"would wait in the queue of {self.job.region}{share}, with priority {self.job.priority}"
        elsewhere = ", ".join(self.job.regions[1:])
        return "would train" + (f"; without capacity there: {elsewhere}" if elsewhere else "")


def planned(
    lines: Sequence[Line], deployment: Deployment, look: Callable[[Job], Found] | None = None
) -> Iterator[Planned]:
    """Yield what the lines of a manifest would become, by index.

    Args:
        lines: The manifest's lines, checked.
        deployment: The grid.
        look: Says what a job would find; that of `looking` where none is given.
    """
    look = look or looking(deployment)
    for job in iter_jobs(lines, deployment, NO_SUBMISSION):
        yield Planned(job=job, found=look(job))


def image_request(uri: str) -> dict[str, Any]:
    """Return the arguments of ECR's DescribeImages for an image in ECR, given by its URI with a tag or a digest."""
    registry, _, name = uri.partition("/")
    repository, tag = name.partition("@")[::2] if "@" in name else name.rpartition(":")[::2]
    wanted = {"imageDigest" if "@" in name else "imageTag": tag}
    return {"registryId": registry.partition(".")[0], "repositoryName": repository, "imageIds": [wanted]}


def looking(deployment: Deployment) -> Callable[[Job], Found]:
    """Return a function that asks S3 and ECR what of a job does not exist, in all of its Regions.

    Each data set and image is asked for once. What the caller may not see is neither there nor missing: roles of the
    grid see other things than a person does.
    """

    def asking(service: str) -> Callable[[str], Any]:
        return cache(lambda region: client(service, region, deployment.acting_in(region)))

    s3, ecr = asking("s3"), asking("ecr")
    storage = cache(lambda region: Storage(region, role=deployment.acting_in(region)))

    @cache
    def data(region: str, uri: str) -> _Seen:
        prefix = prefix_of(uri)
        return _seen(lambda: s3(region).list_objects_v2(Bucket=prefix.bucket, Prefix=prefix.key, MaxKeys=1)["KeyCount"])

    @cache
    def image(region: str, uri: str) -> _Seen:
        return _seen(lambda: ecr(region).describe_images(**image_request(uri))["imageDetails"])

    @cache
    def objects(region: str, uri: str, number: int) -> _Seen:
        return _seen(lambda: len(list(islice(data_objects(storage(region), prefix_of(uri)), number))) == number)

    def look(job: Job) -> Found:
        troubles, unchecked = [], list[str]()
        for region in job.regions:
            here = in_region(job, region)
            images = {here.image: image(region, here.image)} if here.image else {}
            uris = {channel.uri: data(region, channel.uri) for channel in here.inputs.values()}
            shared = [here.inputs[name].uri for name in by_rank(here.inputs, here.streams)]
            many = {uri: objects(region, uri, here.ranks) for uri in shared}
            trouble = _trouble(images, uris, many, here.ranks)
            if trouble:
                troubles.append(trouble if region == job.region else f"in {region}, without capacity before: {trouble}")
            seen = {**many, **uris, **images}
            unchecked += [f"{what} ({one.unknown})" for what, one in seen.items() if one.unknown]
        return Found(trouble="; ".join(troubles), unchecked=tuple(unchecked))

    return look


def _trouble(images: Mapping[str, _Seen], data: Mapping[str, _Seen], many: Mapping[str, _Seen], ranks: int) -> str:
    """Return what of a job in one Region is missing, in words."""
    if absent := [uri for uri, seen in images.items() if seen.is_missing]:
        return f"there is no image {', '.join(absent)}"
    if empty := [uri for uri, seen in data.items() if seen.is_missing]:
        return f"there is no data under {', '.join(empty)}"
    few = [uri for uri, seen in many.items() if seen.is_missing]
    return f"there are fewer objects than the {ranks} ranks under {', '.join(few)}" if few else ""


@dataclass(frozen=True, kw_only=True)
class _Seen:
    is_missing: bool = False
    unknown: str = ""  # why it is not known


def _seen(look: Callable[[], Any]) -> _Seen:
    """Return whether something is there, as far as the caller may know."""
    try:
        return _Seen(is_missing=not look())
    except ClientError as error:
        code = error.response["Error"]["Code"]
        return _Seen(is_missing=True) if code in _MISSING else _Seen(unknown=code)
