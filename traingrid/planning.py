"""What a manifest would do if it were submitted: checked and filled in as the intake does, and nothing written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid.channels import by_rank
from traingrid.clients import client
from traingrid.manifest_line import iter_jobs
from traingrid.rank_manifests import data_objects
from traingrid.s3_uri import prefix_of
from traingrid.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traingrid.deployment import Deployment
    from traingrid.job import Job
    from traingrid.manifest_line import Line

# The submission's id is a hash of the object's version, which does not exist yet.
_NO_SUBMISSION = "00000000"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What one line would become.

    Attributes:
        job: The job, every default filled in.
        trouble: Why it would fail as things are now; empty where nothing is known to be in its way.
    """

    job: Job
    trouble: str

    @property
    def outcome(self) -> str:
        """What would happen, in words."""
        if self.trouble:
            return f"would fail: {self.trouble}"
        elsewhere = ", ".join(self.job.regions[1:])
        return "would train" + (f"; without capacity there: {elsewhere}" if elsewhere else "")


def planned(
    lines: Sequence[Line], deployment: Deployment, missing: Callable[[Job], str] | None = None
) -> Iterator[Planned]:
    """Yield what the lines of a manifest would become, by index.

    Args:
        lines: The manifest's lines, checked.
        deployment: The grid.
        missing: Says what a job would not find; `not_found` where none is given.
    """
    missing = missing or not_found()
    for job in iter_jobs(lines, deployment, _NO_SUBMISSION):
        yield Planned(job=job, trouble=missing(job))


def not_found() -> Callable[[Job], str]:
    """Return a function that asks S3 and ECR, once for each data set and image, what of a job does not exist.

    What the caller may not see is not said to be missing: roles of the grid see other things than a person does.
    """
    s3, ecr = cache(lambda region: client("s3", region)), cache(lambda region: client("ecr", region))

    @cache
    def data_is_there(region: str, uri: str) -> bool:
        prefix = prefix_of(uri)
        return _seen(lambda: s3(region).list_objects_v2(Bucket=prefix.bucket, Prefix=prefix.key, MaxKeys=1)["KeyCount"])

    @cache
    def image_is_there(region: str, uri: str) -> bool:
        registry, _, name = uri.partition("/")
        repository, tag = name.partition("@")[::2] if "@" in name else name.rpartition(":")[::2]
        wanted = {"imageDigest" if "@" in name else "imageTag": tag}
        account = registry.partition(".")[0]
        request: dict[str, Any] = {"registryId": account, "repositoryName": repository, "imageIds": [wanted]}
        return _seen(lambda: ecr(region).describe_images(**request)["imageDetails"])

    @cache
    def has_objects(region: str, uri: str, number: int) -> bool:
        return _seen(lambda: len(list(islice(data_objects(Storage(region), prefix_of(uri)), number))) == number)

    def missing(job: Job) -> str:
        if job.image and not image_is_there(job.region, job.image):
            return f"there is no image {job.image}"
        empty = [channel.uri for channel in job.inputs.values() if not data_is_there(job.region, channel.uri)]
        if empty:
            return f"there is no data under {', '.join(empty)}"
        uris = [job.inputs[name].uri for name in by_rank(job.inputs, job.streams)]
        few = [uri for uri in uris if not has_objects(job.region, uri, job.ranks)]
        return f"there are fewer objects than the {job.ranks} ranks under {', '.join(few)}" if few else ""

    return missing


def _seen(look: Callable[[], Any]) -> bool:
    """Return whether something is there, as far as the caller may know."""
    try:
        return bool(look())
    except ClientError as error:
        return error.response["Error"]["Code"] not in (
            "NoSuchBucket",
            "ImageNotFoundException",
            "RepositoryNotFoundException",
        )
