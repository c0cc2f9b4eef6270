"""`traingrid upload` and `traingrid download`: uploads data to a Region's data bucket, and downloads models."""

import csv
import sys
from pathlib import Path
from typing import Any

import click

from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import channels_sentence, download_models, files_below, other_objects, upload_folder
from traingrid.api.deployed import find_deployment
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.columns import Column, Schema
from traingrid.cli.console import progress_bars
from traingrid.cli.datasets import marker_of, register, registered_sentences
from traingrid.cli.export import Output, output_option, write_rows
from traingrid.cli.parameter_types import REGION, SUBMISSION
from traingrid.datasets.marker import parse_marker
from traingrid.errors import TraingridError, UsageError, interrupted
from traingrid.submission.status import JobStatus
from traingrid.text import counted, printable

_MAX_SHOWN = 5
_UPLOADED: Schema[Any] = Schema(
    "folder, always one",
    Column("region", "string: The Region."),
    Column("s3_uri", "string: The S3 URI, for a manifest."),
)

_DOWNLOADED: Schema[Any] = Schema(
    "model",
    Column("submission", "string: The submission's id."),
    Column("index", "integer: The array index."),
    Column("source", "string: The S3 URI of the archive."),
    Column("folder", "string: The folder with its files."),
    Column("bytes", "integer: The size of the archive."),
    Column("result", "string: downloaded, or kept if the folder already had this model."),
)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("region", type=REGION)
@click.option("--name", help="Name of the data set [default: the folder's name].")
@click.option("--version", help="Register the data set under this version.")
@click.option("--campaign", help="Its campaign, with --version.")
@click.option("--format", "format_", help="Its format, with --version.")
@click.option("--attribute", "attributes", metavar="NAME=VALUE", multiple=True, help="Another fact, with --version.")
@output_option(_UPLOADED)
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
    output: Output,
) -> None:
    """Upload FOLDER to REGION's data bucket.

    Prints the manifest line for the data set, and the channels that the line would have. With --version, the data set
    is registered in the ledger, and rules of grid.yaml may start training.
    """
    deployment = find_deployment(grid_file)
    name = name or folder.resolve().name
    if version is None and (campaign or format_ or attributes):
        raise UsageError("--campaign, --format and --attribute require --version.", "Give --version, for example 1.")
    files = list(files_below(folder))
    if version is None:
        target = upload_folder(deployment, folder, region, name, files)
    else:
        options = {"dataset": name, "version": version, "campaign": campaign, "format": format_}
        marker = marker_of(options, attributes, _unmarked(folder, files))
        parse_marker(marker, S3Uri("", f"{name}/{names.DATASET_MARKER}"))  # nothing is uploaded for a wrong marker
        target = upload_folder(deployment, folder, region, f"{name}/{version}", files)
        for sentence in registered_sentences(register(deployment, region, target, marker)):
            click.echo(printable(sentence), err=True)
    uploaded = [path.relative_to(folder).as_posix() for path in files]
    if earlier_paths := other_objects(deployment, region, uploaded, target):
        click.echo(printable(_earlier_objects_sentence(target, earlier_paths)), err=True)
    click.echo(printable(channels_sentence(deployment, region, target)), err=True)
    if output == "table":
        csv.writer(sys.stdout, lineterminator="\n").writerow([region, str(target)])
    else:
        write_rows([{"region": region, "s3_uri": str(target)}], _UPLOADED, output)


def _earlier_objects_sentence(target: S3Uri, earlier_paths: list[str]) -> str:
    """Return a warning about objects of an earlier upload that the folder does not have."""
    names_shown = ", ".join(earlier_paths[:_MAX_SHOWN])
    more = f" and {len(earlier_paths) - _MAX_SHOWN:,} more" if len(earlier_paths) > _MAX_SHOWN else ""
    return (
        f"warning: {target} also has {counted(len(earlier_paths), 'object')} that the folder does not have: "
        f"{names_shown}{more}. A training reads them, too. Delete them with `aws s3 rm`, or upload the folder under "
        "another --name."
    )


def _unmarked(folder: Path, files: list[Path]) -> list[Path]:
    """Return the files of a folder, which must have no marker."""
    if folder / names.DATASET_MARKER in files:
        text = f"{folder} has a marker, {names.DATASET_MARKER}, and --version would add another one."
        raise UsageError(text, "Remove one of the two.")
    return files


@click.command()
@click.argument("submission", type=SUBMISSION)
@click.argument("index", type=click.IntRange(min=0), required=False)
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the model [default: SUBMISSION-INDEX]; without INDEX, of all those folders [default: .].",
)
@click.option("--unlimited", is_flag=True, help="Unpack archives of any size; by default a hundred times theirs.")
@output_option(_DOWNLOADED)
@click.pass_obj
def download(  # noqa: PLR0913  # the options of the command
    grid_file: Path, submission: str, index: int | None, folder: Path | None, *, unlimited: bool, output: Output
) -> None:
    """Download and unpack models.

    Downloads the models of all jobs of SUBMISSION, or of line INDEX, counted from 0. Running an interrupted command
    again continues it, from a hidden .part beside the model's folder. In the folder, .traingrid-model names the archive
    that it has, so that no model is downloaded twice or mixed with another one; without it, the files stay usable.
    """
    plane = ControlPlane.of(grid_file)
    submission = plane.submission_id(submission)
    if index is None:
        jobs = [job for job in plane.status(submission).jobs if job.artifact]
        parent = folder or Path()
    else:
        jobs = [plane.job(submission, index)]
    if not jobs:
        raise TraingridError(f"No job of {submission} has a model yet.", f"See: traingrid status {submission}")

    def target_of(job: JobStatus) -> Path:
        folder_name = Path(f"{submission}-{job.index}")
        return parent / folder_name if index is None else folder or folder_name

    try:
        with progress_bars() as progress:
            models = download_models(plane.deployment, submission, jobs, target_of, progress, unlimited=unlimited)
            rows = ({**vars(model), "submission": submission} for model in models)
            if output == "table":
                for row in rows:
                    note = " (already there)" if row["result"] == "kept" else ""
                    click.echo(printable(f"{row['source']} -> {row['folder']}/{note}"))
            else:
                write_rows(rows, _DOWNLOADED, output, at_once=True)
    except KeyboardInterrupt:
        raise interrupted("Run the same command again; it continues.") from None
