"""Resource checks: whether the data, images and file systems of a job exist, before it is submitted."""

from __future__ import annotations

from collections.abc import Callable
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
from traingrid.job.channels import channels_split_by_rank
from traingrid.job.data_layout import LayoutError
from traingrid.job.job import job_in_region
from traingrid.job.rank_manifests import data_objects
from traingrid.manifest.folder_layouts import FolderLayouts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.grid.deployment import Deployment
    from traingrid.job.data_layout import Layout
    from traingrid.job.job import Channel, Job

# The error codes of S3 and ECR for missing resources. Other errors leave it open whether a resource exists.
_MISSING = ("NoSuchBucket", "ImageNotFoundException", "RepositoryNotFoundException")


@dataclass(frozen=True, kw_only=True)
class ResourceCheck:
    """The result of checking a job's data and images.

    Attributes:
        trouble: Why the job would fail in the present state; empty if no problem is known.
        unchecked: The resources that could not be checked, each with the reason in brackets.
        layout: The channels that the job's folder has; None if it names them one by one, or they are not known.
    """

    trouble: str = ""
    unchecked: tuple[str, ...] = ()
    layout: Layout | None = None


@dataclass(frozen=True, kw_only=True)
class _Resource:
    is_missing: bool = False
    unknown: str = ""  # why it could not be checked
    trouble: str = ""  # of a file system: why a job cannot mount it; of data: why it cannot read them


def _resource(look: Callable[[], Any]) -> _Resource:
    """Return whether a resource exists, or why the caller cannot find out."""
    try:
        return _Resource(is_missing=not look())
    except ClientError as error:
        code = error.response["Error"]["Code"]
        return _Resource(is_missing=True) if code in _MISSING else _Resource(unknown=code)


class Resources:
    """The resources of jobs in S3 and ECR. Each data set and image is looked up once, in each Region.

    A resource that the caller may not read counts as unchecked, because the grid's roles have other permissions than
    the user.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._clients = cache(lambda service, region: client(service, region, deployment.acting_role_in(region)))
        self._storages = cache(lambda region: Storage(region, role=deployment.acting_role_in(region)))
        self._data = cache(self._look_up_data)
        self._images = cache(self._look_up_image)
        self._indices = cache(self._look_up_index)
        self._objects = cache(self._count_objects)
        self._mounts = cache(lambda region, channel: _mount(region, channel, deployment))
        self._layouts = FolderLayouts(deployment)
        self._regions = deployment.bucket_regions()

    def check(self, job: Job) -> ResourceCheck:
        """Check the resources of a job in all of its Regions."""
        troubles = list[str]()
        unchecked = list[str]()
        layouts = []
        for region in job.regions:
            regional, layout, trouble = self._with_channels(job_in_region(job, region))
            layouts.append(layout)
            other_trouble, unknown = self._check_in(region, regional)
            if trouble := other_trouble or trouble:
                troubles.append(trouble if region == job.region else f"in {region}, the next Region: {trouble}")
            unchecked += unknown
        return ResourceCheck(trouble="; ".join(troubles), unchecked=tuple(unchecked), layout=layouts[0])

    def _with_channels(self, job: Job) -> tuple[Job, Layout | None, str]:
        """Return a job with the channels of its folder, their layout, and why the folder determines none."""
        if not job.by_layout:
            return job, None, ""
        try:
            layout = self._layouts.of(job)
        except LayoutError as error:
            return job.model_copy(update={"inputs": {}}), None, str(error).removesuffix(".")
        except ClientError:  # its channels are then reported as unchecked
            return job, None, ""
        return job.model_copy(update={"inputs": layout.inputs(job.inputs)}), layout, ""

    def _check_in(self, region: str, job: Job) -> tuple[str, Iterator[str]]:
        """Return the trouble of a job in one Region, and the resources that could not be checked."""
        has_foreign_image = job.image and not is_known_image(job.image)  # SageMaker pulls images of algorithms itself
        images = {job.image: self._images(region, job.image)} if has_foreign_image else {}
        data = {uri: self._data(place, uri) for uri, place in self._region_by_uri(job, region).items()}
        mounted_channels = [channel for channel in job.inputs.values() if channel.file_system]
        mounts = {channel.location: self._mounts(region, channel) for channel in mounted_channels}
        streamed = [channel.uri for channel in job.inputs.values() if _streams_all_objects(channel, job)]
        indices = {uri: self._indices(region, uri) for uri in streamed}
        shared = [job.inputs[name].uri for name in channels_split_by_rank(job.inputs, job.streams)]
        many = {uri: self._objects(region, uri, job.ranks) for uri in shared}
        trouble = _missing_resources(images, data, many, job.ranks) or _first_problem(mounts) or _first_problem(indices)
        resources = {**many, **data, **mounts, **images}
        return trouble, (f"{name} ({resource.unknown})" for name, resource in resources.items() if resource.unknown)

    def _region_by_uri(self, job: Job, region: str) -> dict[str, str]:
        """Return the Region of each data set that a job reads or copies, and of the model that it begins with."""
        if job.copy_from:
            region_by_uri = {f"{job.copy_from}/": self._regions.get(S3Uri.parse(job.copy_from).bucket, region)}
        else:
            region_by_uri = {channel.uri: region for channel in job.inputs.values() if channel.uri}
        if job.init_from and job.init_from.artifact:
            region_by_uri[job.init_from.artifact] = job.init_from.region
        return region_by_uri

    def _look_up_data(self, region: str, uri: str) -> _Resource:
        keys = (key for key, _ in self._storages(region).sizes(prefix_of(uri)))
        return _resource(lambda: not all(names.is_record_index(key) for key in keys))

    def _look_up_image(self, region: str, uri: str) -> _Resource:
        return _resource(lambda: self._clients("ecr", region).describe_images(**image_request(uri))["imageDetails"])

    def _look_up_index(self, region: str, uri: str) -> _Resource:
        target = S3Uri.parse(uri) / names.RECORD_INDEX
        request = {"Bucket": target.bucket, "Prefix": target.key, "MaxKeys": 1}
        exists = _resource(lambda: self._clients("s3", region).list_objects_v2(**request)["KeyCount"])
        trouble = f"SageMaker would stream the index of records {target} as data; delete it, or use FastFile mode"
        return _Resource(trouble="" if exists.is_missing or exists.unknown else trouble)

    def _count_objects(self, region: str, uri: str, number: int) -> _Resource:
        def has_enough() -> bool:
            objects = data_objects(self._storages(region), prefix_of(uri))
            return len(list(islice(objects, number))) == number

        return _resource(has_enough)


def image_request(uri: str) -> dict[str, Any]:
    """Return the arguments of DescribeImages for an image in ECR, given by its URI with a tag or a digest."""
    registry, _, name = uri.partition("/")
    repository, tag = name.partition("@")[::2] if "@" in name else name.rpartition(":")[::2]
    image_id = {"imageDigest" if "@" in name else "imageTag": tag}
    return {"registryId": registry.partition(".")[0], "repositoryName": repository, "imageIds": [image_id]}


def _missing_resources(
    images: Mapping[str, _Resource], data: Mapping[str, _Resource], many: Mapping[str, _Resource], ranks: int
) -> str:
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


def _first_problem(mounts: Mapping[str, _Resource]) -> str:
    """Return the first trouble with file systems or data; empty if no problem is known."""
    return next((resource.trouble for resource in mounts.values() if resource.trouble), "")


def _mount(region: str, channel: Channel, deployment: Deployment) -> _Resource:
    """Return whether training jobs can mount the file system of a channel, or why the caller cannot find out."""
    role = deployment.acting_role_in(region)
    settings = deployment.grid.regions[region]
    problems: list[str] = []

    def look() -> bool:
        file_system = file_systems.mountable(channel.file_system, channel.type, region, role)
        subnets = file_systems.subnets(settings.subnets, region, role) if settings.subnets else None
        if file_system is None:
            problems.append(f"{channel.file_system} of type {channel.type} does not exist in {region}")
            return False
        if subnets is not None and (reason := file_systems.mount_problem(file_system, subnets)):
            problems.append(reason)
            return False
        mount_name = file_system.mount_name
        if mount_name and not f"{channel.path}/".startswith(f"/{mount_name}/"):
            problems.append(f"{channel.location} does not begin with the mount name of the file system, /{mount_name}")
        return not problems

    resource = _resource(look)
    return _Resource(trouble="the file system " + problems[0]) if problems else resource
