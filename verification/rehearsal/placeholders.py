"""Placeholders for the data and images that a manifest names: SageMaker refuses a job without them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from localcloud.ecr.process_images import InvalidImageError
from localcloud.sagemaker.initial_content import create_algorithm, create_image, create_object
from traingrid.aws.s3_uri import S3Uri
from traingrid.job.channels import channels_split_by_rank
from traingrid.job.job import Job, job_in_region


def create_placeholders(jobs: Iterable[Job], account_of: Callable[[str], str]) -> None:
    """Create the data, images and algorithms of jobs in localcloud, in every Region that they may train in.

    Skips an image whose name is not valid in ECR: its job fails here as it does in AWS.

    Args:
        jobs: The jobs of the deployed grid, which has resolved its own images and those of AWS.
        account_of: Returns the account of a Region, which is to own them.
    """
    jobs_by_region = [(job, region) for job in jobs for region in job.regions]
    for region, bucket, key in dict.fromkeys(_objects(jobs_by_region)):
        create_object(account_of(region), region, bucket, key, content=b".")
    for region, image in dict.fromkeys((region, job_in_region(job, region).image) for job, region in jobs_by_region):
        with suppress(InvalidImageError, KeyError):
            if image:
                create_image(account_of(region), image)
    for (region, algorithm), users in _algorithms(jobs_by_region).items():
        create_algorithm(account_of(region), region, algorithm, _training_of(users))


def _algorithms(jobs_in_regions: Iterable[tuple[Job, str]]) -> Mapping[tuple[str, str], Sequence[Job]]:
    """Return the jobs of each algorithm resource, by Region and its name or ARN."""
    jobs_by_algorithm: dict[tuple[str, str], list[Job]] = {}
    for job, region in jobs_in_regions:
        regional_job = job_in_region(job, region)
        if regional_job.algorithm:
            jobs_by_algorithm.setdefault((region, regional_job.algorithm), []).append(regional_job)
    return jobs_by_algorithm


def _training_of(users: Sequence[Job]) -> dict[str, Any]:
    """Return a TrainingSpecification that accepts some jobs: a rehearsal does not know the rules of the real one."""
    modes = ["File", "Pipe", "FastFile"]
    names = sorted({name for job in users for name in job.hyperparameters})
    channels = sorted({name for job in users for name in job.inputs})
    return {
        "TrainingImage": "",
        "SupportedHyperParameters": [{"Name": name, "Type": "FreeText"} for name in names],
        "SupportedTrainingInstanceTypes": sorted({job.instance_type for job in users}),
        "SupportsDistributedTraining": True,
        "TrainingChannels": [{"Name": name, "SupportedInputModes": modes} for name in channels],
    }


def _objects(jobs_in_regions: Iterable[tuple[Job, str]]) -> Iterator[tuple[str, str, str]]:
    """Yield Region, bucket and key of the objects that channels read: a manifest file, or objects under a prefix.

    A prefix has one object, or one per rank if every rank reads different objects. File systems need no placeholder,
    because the training jobs of a rehearsal are stubs.
    """
    for job, region in jobs_in_regions:
        inputs = job_in_region(job, region).inputs
        dealt = channels_split_by_rank(inputs, job.streams)
        for name, channel in inputs.items():
            if channel.file_system:
                continue
            uri = S3Uri.parse(channel.uri)
            for part in range(job.ranks if name in dealt else 1):
                yield region, uri.bucket, (uri if channel.manifest else uri / f"part-{part}").key
