"""Planning: shows the jobs that a manifest would create, validated as by the intake; writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid import names
from traingrid.algorithms.built_in import is_known_image
from traingrid.aws import file_systems
from traingrid.aws.clients import client
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri, prefix_of
from traingrid.job.backend_traits import DEFAULT_BACKEND, TRAITS
from traingrid.job.candidates import candidates_of, place
from traingrid.job.channels import by_rank
from traingrid.job.initial_model import needs_model_copy
from traingrid.job.job import in_region
from traingrid.job.rank_manifests import data_objects
from traingrid.manifest.hardware_warnings import line_warnings
from traingrid.manifest.line import in_order, iter_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Channel, Job
    from traingrid.manifest.line import Line

# The submission's id is a hash of the object's version, which does not exist yet.
NO_SUBMISSION = "00000000"


# The error codes of S3 and ECR for missing resources. Other errors leave it open whether a resource exists.
_MISSING = ("NoSuchBucket", "ImageNotFoundException", "RepositoryNotFoundException")


@dataclass(frozen=True, kw_only=True)
class ResourceCheck:
    """The result of checking a job's data and images.

    Attributes:
        trouble: Why the job would fail in the present state; empty if no problem is known.
        unchecked: The resources that could not be checked, each with the reason in brackets.
    """

    trouble: str = ""
    unchecked: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The job that one line would create.

    Attributes:
        job: The job with the grid's defaults.
        found: The result of checking its data and images.
        warnings: How its image does not use its instances, each a sentence.
    """

    job: Job
    found: ResourceCheck
    warnings: tuple[str, ...] = ()

    @property
    def would_fail(self) -> bool:
        """True if a problem is known."""
        return bool(self.found.trouble)

    @property
    def is_unchecked(self) -> bool:
        """True if no problem is known, but some resources could not be checked."""
        return bool(self.found.unchecked) and not self.would_fail

    @property
    def outcome(self) -> str:
        """The expected outcome as text."""
        if self.would_fail:
            return f"would fail: {self.found.trouble}"
        if self.is_unchecked:
            return f"not checked: {', '.join(self.found.unchecked)}"
        if self.job.launch == "queued":
            share = f" of {self.job.share}" if self.job.share else ""
            return f"would wait in the queue of {self.job.region}{share}, with priority {self.job.priority}"
        model = self.job.init_from
        copied = f" after a copy of the model from {model.region}" if model and needs_model_copy(self.job) else ""
        first, *alternatives = candidates_of(self.job)
        elsewhere, service = (
            ", ".join(place(*candidate) for candidate in alternatives),
            f" on {TRAITS[first.backend].title}" * (first.backend != DEFAULT_BACKEND),
        )
        return f"would train{service}" + copied + (f"; without capacity there: {elsewhere}" if elsewhere else "")


def planned(
    lines: Sequence[Line], deployment: Deployment, look: Callable[[Job], ResourceCheck] | None = None
) -> Iterator[Planned]:
    """Yield the jobs that the lines of a manifest would create, by index.

    Args:
        lines: The manifest's validated lines.
        look: Checks a job's data and images; by default the function that `looking` returns.
    """
    look = look or looking(deployment)
    for line, job in zip(in_order(lines), iter_jobs(lines, deployment, NO_SUBMISSION), strict=True):
        yield Planned(job=job, found=look(job), warnings=line_warnings(line, deployment.grid))


def image_request(uri: str) -> dict[str, Any]:
    """Return the arguments of DescribeImages for an image in ECR, given by its URI with a tag or a digest."""
    registry, _, name = uri.partition("/")
    repository, tag = name.partition("@")[::2] if "@" in name else name.rpartition(":")[::2]
    image_id = {"imageDigest" if "@" in name else "imageTag": tag}
    return {"registryId": registry.partition(".")[0], "repositoryName": repository, "imageIds": [image_id]}


def looking(deployment: Deployment) -> Callable[[Job], ResourceCheck]:
    """Return a function that checks in S3 and ECR whether a job's data and images exist, in all of its Regions.

    It checks each data set and image once. A resource that the caller may not read counts as unchecked, because the
    grid's roles have other permissions than the user.
    """

    def asking(service: str) -> Callable[[str], Any]:
        return cache(lambda region: client(service, region, deployment.acting_in(region)))

    s3, ecr = asking("s3"), asking("ecr")
    storage = cache(lambda region: Storage(region, role=deployment.acting_in(region)))

    @cache
    def data(region: str, uri: str) -> _Seen:
        keys = (key for key, _ in storage(region).sizes(prefix_of(uri)))
        return _seen(lambda: not all(names.is_record_index(key) for key in keys))

    @cache
    def mount(region: str, channel: Channel) -> _Seen:
        return _mount(region, channel, deployment)

    @cache
    def image(region: str, uri: str) -> _Seen:
        return _seen(lambda: ecr(region).describe_images(**image_request(uri))["imageDetails"])

    @cache
    def index(region: str, uri: str) -> _Seen:
        target = S3Uri.parse(uri) / names.RECORD_INDEX
        exists = _seen(
            lambda: s3(region).list_objects_v2(Bucket=target.bucket, Prefix=target.key, MaxKeys=1)["KeyCount"]
        )
        trouble = f"SageMaker would stream the index of records {target} as data; delete it, or use FastFile mode"
        return _Seen(trouble="" if exists.is_missing or exists.unknown else trouble)

    @cache
    def objects(region: str, uri: str, number: int) -> _Seen:
        return _seen(lambda: len(list(islice(data_objects(storage(region), prefix_of(uri)), number))) == number)

    def look(job: Job) -> ResourceCheck:
        troubles, unchecked = [], list[str]()
        for region in job.regions:
            regional_job = in_region(job, region)
            own = regional_job.image and not is_known_image(
                regional_job.image
            )  # SageMaker pulls images of algorithms itself
            images = {regional_job.image: image(region, regional_job.image)} if own else {}
            uris = {uri: data(place, uri) for uri, place in _places(regional_job, region).items()}
            mounted = [channel for channel in regional_job.inputs.values() if channel.file_system]
            mounts = {channel.location: mount(region, channel) for channel in mounted}
            streamed = [
                channel.uri for channel in regional_job.inputs.values() if _streams_all_objects(channel, regional_job)
            ]
            indices = {uri: index(region, uri) for uri in streamed}
            shared = [regional_job.inputs[name].uri for name in by_rank(regional_job.inputs, regional_job.streams)]
            many = {uri: objects(region, uri, regional_job.ranks) for uri in shared}
            trouble = _trouble(images, uris, many, regional_job.ranks) or _first_of(mounts) or _first_of(indices)
            if trouble:
                troubles.append(trouble if region == job.region else f"in {region}, the next Region: {trouble}")
            resources = {**many, **uris, **mounts, **images}
            unchecked += [
                f"{resource_name} ({resource.unknown})"
                for resource_name, resource in resources.items()
                if resource.unknown
            ]
        return ResourceCheck(trouble="; ".join(troubles), unchecked=tuple(unchecked))

    return look


def _places(job: Job, region: str) -> dict[str, str]:
    """Return the Region of each data set that a job reads in a Region, and of the model that it begins with."""
    region_by_uri = {channel.uri: region for channel in job.inputs.values() if channel.uri}
    if job.init_from and job.init_from.artifact:
        region_by_uri[job.init_from.artifact] = job.init_from.region
    return region_by_uri


def _trouble(images: Mapping[str, _Seen], data: Mapping[str, _Seen], many: Mapping[str, _Seen], ranks: int) -> str:
    """Return a description of the job's missing resources in one Region."""
    if absent := [uri for uri, resource in images.items() if resource.is_missing]:
        return f"the image {', '.join(absent)} does not exist"
    if empty := [uri for uri, resource in data.items() if resource.is_missing]:
        return f"no data found under {', '.join(empty)}"
    few = [uri for uri, resource in many.items() if resource.is_missing]
    return f"fewer objects than the {ranks} ranks found under {', '.join(few)}" if few else ""


def _streams_all_objects(channel: Channel, job: Job) -> bool:
    """Return True if SageMaker streams every object of a folder; the manifests of streams per rank omit the index."""
    return channel.input_mode == "Pipe" and job.streams != "rank" and not (channel.lists_objects or job.is_algorithm)


def _first_of(mounts: Mapping[str, _Seen]) -> str:
    """Return the first trouble with file systems or data; empty if no problem is known."""
    return next((resource.trouble for resource in mounts.values() if resource.trouble), "")


def _mount(region: str, channel: Channel, deployment: Deployment) -> _Seen:
    """Return whether training jobs can mount the file system of a channel, or why the caller cannot find out."""
    role, settings = deployment.acting_in(region), deployment.grid.regions[region]
    problems: list[str] = []

    def look() -> bool:
        file_system = file_systems.mountable(channel.file_system, channel.type, region, role)
        subnets = file_systems.subnets(settings.subnets, region, role) if settings.subnets else None
        if file_system is None:
            problems.append(f"{channel.file_system} of type {channel.type} does not exist in {region}")
        elif subnets is not None and (why := file_systems.out_of_reach(file_system, subnets)):
            problems.append(why)
        elif not f"{channel.path}/".startswith(f"/{file_system.mount_name}/" if file_system.mount_name else "/"):
            problems.append(
                f"{channel.location} does not begin with the mount name of the file system, /{file_system.mount_name}"
            )
        return not problems

    resource = _seen(look)
    return _Seen(trouble="the file system " + problems[0]) if problems else resource


@dataclass(frozen=True, kw_only=True)
class _Seen:
    is_missing: bool = False
    unknown: str = ""  # why it could not be checked
    trouble: str = ""  # of a file system: why a job cannot mount it; of data: why it cannot read them


def _seen(look: Callable[[], Any]) -> _Seen:
    """Return whether a resource exists, or why the caller cannot find out."""
    try:
        return _Seen(is_missing=not look())
    except ClientError as error:
        code = error.response["Error"]["Code"]
        return _Seen(is_missing=True) if code in _MISSING else _Seen(unknown=code)
