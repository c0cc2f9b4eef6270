"""The data and images that a manifest names, taken to be there: SageMaker refuses a job without them."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from localcloud.holdings import hold_image, hold_object
from localcloud.images import InvalidImageError
from traingrid.job import Job, Replica
from traingrid.s3_uri import S3Uri


def put_up(jobs: Iterable[Job], account: str) -> None:
    """Have the account hold what jobs read and run, in every Region that they may train in.

    An image that cannot lie in ECR is left out: its job fails here as it does in AWS.

    Args:
        jobs: The jobs.
        account: The account that they are to find it in.
    """
    wanted = list(_places(jobs))
    for region, bucket, key in dict.fromkeys(_objects(wanted)):
        hold_object(account, region, bucket, key)
    for image in dict.fromkeys(place.image for _, place in wanted if place.image):
        with suppress(InvalidImageError, KeyError):
            hold_image(account, image)


def _places(jobs: Iterable[Job]) -> Iterator[tuple[str, Job | Replica]]:
    for job in jobs:
        yield job.region, job
        yield from job.replicas.items()


def _objects(wanted: Iterable[tuple[str, Job | Replica]]) -> Iterator[tuple[str, str, str]]:
    """Yield Region, bucket and key of an object for each channel: the list of a ManifestFile, or one of a prefix."""
    for region, place in wanted:
        for channel in place.inputs.values():
            uri = S3Uri.parse(channel.uri)
            yield region, uri.bucket, (uri if channel.manifest else uri / "part-0").key
