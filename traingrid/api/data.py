"""Data: uploads folders to the data buckets of Regions, and downloads models."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid import names
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError, UsageError
from traingrid.safe_tarfile import tarfile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid.deployment import Deployment
    from traingrid.submission.status import JobStatus


def upload_folder(deployment: Deployment, folder: Path, region: str, name: str | None = None) -> S3Uri:
    """Upload a folder into a Region's data bucket.

    Args:
        deployment: The grid.
        folder: The folder to upload, which contains the channels' folders.
        region: One of the grid's training Regions.
        name: The name of the data set; by default the folder's name.

    Returns:
        The URI of the data, for a manifest line.

    Raises:
        UsageError: The Region is not in the grid, the name is not a valid key, or the folder is empty or has a broken
            link.
    """
    if region not in deployment.grid.regions:
        known = ", ".join(deployment.grid.regions)
        raise UsageError(f"{region} is not a training Region of this grid.", f"Its Regions are {known}.")
    files = list(files_below(folder))
    if not files:
        raise UsageError(f"{folder} has no files.", "Give a folder that contains train/ and validation/.")
    bucket, name = (
        names.data_bucket(deployment.grid.name, deployment.account_of(region), region),
        name or folder.resolve().name,
    )
    try:
        target = S3Uri.parse(f"s3://{bucket}/{name}")
    except ValueError as error:
        raise UsageError(f"Invalid name of a data set {name!r}: {error}.", "Give another --name.") from error
    s3 = client("s3", region, deployment.acting_in(region))
    marker = folder / names.DATASET_MARKER
    for path in sorted(files, key=marker.__eq__):  # a marker last, because it ends the upload
        s3.upload_file(str(path), bucket, (target / path.relative_to(folder).as_posix()).key)
    return target


def files_below(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """Yield the files below a folder, in order; follow links, except links to a parent folder."""
    above |= {folder.resolve()}
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.resolve() not in above:
            yield from files_below(path, above)
        elif path.is_file():
            yield path
        elif path.is_symlink() and not path.exists():
            raise UsageError(f"{path} is a broken link.", "Fix or remove it.")


def download_model(deployment: Deployment, submission: str, job: JobStatus, target: Path) -> S3Uri:
    """Download and unpack the model of a job.

    Args:
        deployment: The grid.
        submission: The submission's id.
        job: The job.
        target: The folder for the model's files.

    Returns:
        The URI of the model's archive.

    Raises:
        TraingridError: The job has no model, or its archive cannot be unpacked.
    """
    why = f"`traingrid status {submission}` shows the reason."
    if not job.artifact:
        raise TraingridError(f"Job {job.index} of {submission} has no model: the job is {job.state}.", why)
    source = S3Uri.parse(job.artifact)
    try:
        _unpack(source, client("s3", job.region, deployment.acting_in(job.region)), target)
    except ClientError as error:
        if error.response["Error"]["Code"] != "404":
            raise
        # SageMaker also returns an artifact's URI for a stopped job, but uploads none if the training wrote no model.
        raise TraingridError(f"There is no model in {source}: the job is {job.state}.", why) from error
    except (tarfile.TarError, EOFError) as error:
        raise TraingridError(f"{source} cannot be unpacked: {error}.", "Inspect it with `aws s3 cp`.") from error
    return source


def _unpack(source: S3Uri, s3: Any, target: Path) -> None:
    with tempfile.TemporaryFile() as archive:
        s3.download_fileobj(source.bucket, source.key, archive)
        archive.seek(0)
        with tarfile.open(fileobj=archive, mode="r:gz") as members:
            members.extractall(target, filter="data")  # rejects links and paths outside of the folder
