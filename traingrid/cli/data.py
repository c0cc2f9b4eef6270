"""`traingrid upload` and `traingrid download`: uploads data to a Region's data bucket, and downloads models."""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from botocore.exceptions import ClientError

from traingrid import names
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.control_plane import ControlPlane
from traingrid.cli.datasets import marker_of, register, registered_sentences
from traingrid.cli.deployed import find_deployment
from traingrid.datasets.marker import parse_marker
from traingrid.errors import TraingridError, UsageError
from traingrid.safe_tarfile import tarfile
from traingrid.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid.deployment import Deployment


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("region")
@click.option("--name", help="Name of the data set [default: the folder's name].")
@click.option("--version", help="Register the data set under this version.")
@click.option("--campaign", help="Its campaign, with --version.")
@click.option("--format", "format_", help="Its format, with --version.")
@click.option("--attribute", "attributes", metavar="NAME=VALUE", multiple=True, help="Another fact, with --version.")
@click.pass_obj
def upload(  # noqa: PLR0913  # the options of the command
    grid_file: Path,
    folder: Path,
    region: str,
    *,
    name: str | None,
    version: str | None,
    campaign: str | None,
    format_: str | None,
    attributes: tuple[str, ...],
) -> None:
    """Upload FOLDER to REGION's data bucket.

    Prints the manifest line for the data set. With --version, the data set is registered in the ledger, and rules of
    grid.yaml may start training.
    """
    deployment, name = find_deployment(grid_file), name or folder.resolve().name
    if version is None and (campaign or format_ or attributes):
        raise UsageError("--campaign, --format and --attribute require --version.", "Give --version, for example 1.")
    if version is None:
        target = upload_folder(deployment, folder, region, name)
    else:
        options = {"dataset": name, "version": version, "campaign": campaign, "format": format_}
        marker = marker_of(options, attributes, _unmarked(folder))
        parse_marker(marker, S3Uri("", f"{name}/{names.DATASET_MARKER}"))  # nothing is uploaded for a wrong marker
        target = upload_folder(deployment, folder, region, f"{name}/{version}")
        for sentence in registered_sentences(register(deployment, region, target, marker)):
            click.echo(printable(sentence), err=True)
    csv.writer(sys.stdout, lineterminator="\n").writerow([region, str(target)])


def _unmarked(folder: Path) -> list[Path]:
    """Return the files of a folder, which must have no marker."""
    files = list(_files(folder))
    if folder / names.DATASET_MARKER in files:
        what = f"{folder} has a marker, {names.DATASET_MARKER}, and --version would add another one."
        raise UsageError(what, "Remove one of the two.")
    return files


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
    files = list(_files(folder))
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


def _files(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """Yield the files below a folder, in order; follow links, except links to a parent folder."""
    above |= {folder.resolve()}
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.resolve() not in above:
            yield from _files(path, above)
        elif path.is_file():
            yield path
        elif path.is_symlink() and not path.exists():
            raise UsageError(f"{path} is a broken link.", "Fix or remove it.")


@click.command()
@click.argument("submission")
@click.argument("index", type=click.IntRange(min=0), default=0)
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Destination folder [default: SUBMISSION-INDEX].",
)
@click.pass_obj
def download(grid_file: Path, submission: str, index: int, folder: Path | None) -> None:
    """Download the model of one job.

    The job is line INDEX of SUBMISSION, counted from 0. The model is unpacked.
    """
    plane = ControlPlane.of(grid_file)
    job = plane.job(submission, index)
    why = f"`traingrid status {submission}` shows the reason."
    if not job.artifact:
        raise TraingridError(f"Job {index} of {submission} has no model: the job is {job.state}.", why)
    source = S3Uri.parse(job.artifact)
    target = folder or Path(f"{submission}-{index}")
    try:
        _unpack(source, client("s3", job.region, plane.deployment.acting_in(job.region)), target)
    except ClientError as error:
        if error.response["Error"]["Code"] != "404":
            raise
        # SageMaker also returns an artifact's URI for a stopped job, but uploads none if the training wrote no model.
        raise TraingridError(f"There is no model in {source}: the job is {job.state}.", why) from error
    except (tarfile.TarError, EOFError) as error:
        raise TraingridError(f"{source} cannot be unpacked: {error}.", "Inspect it with `aws s3 cp`.") from error
    click.echo(f"{source} -> {target}/")


def _unpack(source: S3Uri, s3: Any, target: Path) -> None:
    with tempfile.TemporaryFile() as archive:
        s3.download_fileobj(source.bucket, source.key, archive)
        archive.seek(0)
        with tarfile.open(fileobj=archive, mode="r:gz") as members:
            members.extractall(target, filter="data")  # rejects links and paths outside of the folder
