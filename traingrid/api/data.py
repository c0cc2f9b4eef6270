"""Data: uploads folders to the data buckets of Regions, and downloads models."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid import names
from traingrid.aws.clients import client
from traingrid.aws.error_codes import PERMISSION_CODES
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri, prefix_of
from traingrid.errors import TraingridError, UsageError
from traingrid.job.backend_traits import TRAITS
from traingrid.job.data_layout import OWN_PROGRAM, LayoutError, file_of_other_format, layout_of
from traingrid.threads import map_in_order
from traingrid.transfers.model_download import DownloadedModel, ModelDownload, other_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from traingrid.grid.deployment import Deployment
    from traingrid.submission.status import JobStatus

_MODELS_AT_ONCE = 4


def upload_folder(
    deployment: Deployment, folder: Path, region: str, name: str | None = None, files: Sequence[Path] | None = None
) -> S3Uri:
    """Upload a folder into a Region's data bucket.

    Args:
        folder: The folder to upload, whose content determines its channels (docs/input.md).
        region: One of the grid's training Regions.
        name: The name of the data set; by default the folder's name.
        files: The files below the folder if the caller has listed it.

    Returns:
        The URI of the data, for a manifest line.

    Raises:
        UsageError: The Region is not in the grid, the name is not a valid key, or the folder is empty or has a broken
            link.
    """
    if region not in deployment.grid.regions:
        regions = ", ".join(deployment.grid.regions)
        raise UsageError(f"{region} is not a training Region of this grid.", f"Its Regions are {regions}.")
    files = list(files_below(folder)) if files is None else files
    if not files:
        raise UsageError(f"{folder} has no files.", "Give a folder with data.")
    bucket = names.data_bucket(deployment.grid.name, deployment.account_of(region), region)
    name = name or folder.resolve().name
    try:
        target = S3Uri.parse(f"s3://{bucket}/{name}")
    except ValueError as error:
        raise UsageError(f"Invalid name of a data set {name!r}: {error}.", "Give another --name.") from error
    s3 = client("s3", region, deployment.acting_role_in(region))
    marker = folder / names.DATASET_MARKER
    for path in sorted(files, key=marker.__eq__):  # a marker last, because it ends the upload
        s3.upload_file(str(path), bucket, (target / path.relative_to(folder).as_posix()).key)
    return target


def channels_sentence(deployment: Deployment, region: str, folder: S3Uri) -> str:
    """Return a sentence about the channels that a line on a folder would have, or about the reason that it has none."""
    objects = Storage(region, role=deployment.acting_role_in(region))
    try:
        layout = layout_of(objects, folder, deployment.grid.job.channels)
        files = [file_of_other_format(objects, prefix_of(f"{folder}/{part}")) for part in layout.parts.values()]
    except LayoutError as error:
        return f"A line on this folder would fail: {error}"
    except ClientError as error:
        return f"The channels of this folder are not known, because it cannot be listed: {error}"
    sentence = f"A line on this folder has the {layout}."
    if file := next(filter(None, files), None):
        sentence += f" The image's own trainer does not read {file.key.rpartition('/')[2]}. {OWN_PROGRAM}"
    return sentence


def other_objects(deployment: Deployment, region: str, uploaded: Iterable[str], target: S3Uri) -> list[str]:
    """Return the paths of data below the URI of an uploaded folder that the folder does not have.

    They are those of an earlier upload, and a training reads them, too. Return none if the caller may not list the
    bucket.

    Args:
        uploaded: The paths of the uploaded files in the folder.
    """
    storage = Storage(region, role=deployment.acting_role_in(region))
    try:
        paths = [key.removeprefix(f"{target.key}/") for key, _ in storage.sizes(S3Uri(target.bucket, f"{target.key}/"))]
    except ClientError as error:
        if error.response["Error"]["Code"] not in PERMISSION_CODES:
            raise
        return []
    own_paths = frozenset(uploaded)
    return [path for path in paths if path not in own_paths and names.is_data(path)]


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


def download_models(  # noqa: PLR0913  # one keyword for each option
    deployment: Deployment,
    submission: str,
    jobs: Sequence[JobStatus],
    target_of: Callable[[JobStatus], Path],
    progress: Callable[[JobStatus, int, int], object] = lambda _job, _done, _size: None,
    *,
    unlimited: bool = False,
) -> Iterator[DownloadedModel]:
    """Download the models of several jobs, some at once, and yield them in the order of the jobs.

    An error of one model does not prevent the others. If the caller stops, for example at Ctrl-C, all downloads end;
    the same call continues them.

    Args:
        target_of: Returns the folder for the files of a job's model.
        progress: Receives a job, the number of bytes that have arrived, and the size of its archive.
        unlimited: If true, archives of any size are unpacked.

    Raises:
        TraingridError: Some models could not be downloaded; the others were.
    """
    stop = threading.Event()

    def download(job: JobStatus) -> DownloadedModel | TraingridError | ClientError:
        if not job.artifact:
            return _no_model(submission, job)
        options = {"folder": target_of(job), "progress": partial(progress, job), "stop": stop, "unlimited": unlimited}
        try:
            return _download(deployment, submission, job, **options)
        except ClientError as error:
            return _no_model(submission, job) if error.response["Error"]["Code"] == "404" else error
        except TraingridError as error:
            return error

    errors: list[TraingridError | ClientError] = []
    for result in map_in_order(download, jobs, _MODELS_AT_ONCE, stop):
        if isinstance(result, DownloadedModel):
            yield result
        else:
            errors.append(result)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        text = " ".join(str(error) for error in errors)
        raise TraingridError(
            f"{len(errors)} models could not be downloaded. {text}", "Then run the same command again."
        )


def _download(deployment: Deployment, submission: str, job: JobStatus, **options: Any) -> DownloadedModel:
    """Download the model of a job, with the parts of a cluster's other hosts."""
    source = S3Uri.parse(job.artifact)
    s3 = client("s3", job.region, deployment.acting_role_in(job.region))
    download = ModelDownload(s3=s3, submission=submission, source=source, **options)
    model = download.run(job.index)
    parts = other_parts(s3, source) if TRAITS[job.backend].archives_each_host else {}
    for host, part in parts.items():
        replace(download, source=part, host=host, progress=ModelDownload.progress).run(job.index)
    return model


def _no_model(submission: str, job: JobStatus) -> TraingridError:
    """Return the error for a job without a model.

    SageMaker also returns an artifact's URI for a stopped job, but uploads none if the training wrote no model.
    """
    text = f"Job {job.index} of {submission} has no model: the job is {job.state}."
    if job.artifact:
        text = f"There is no model in {job.artifact}: the job is {job.state}."
    return TraingridError(text, f"`traingrid status {submission}` shows the reason.")
