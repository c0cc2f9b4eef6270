"""`traingrid register`: adds the model of a job to the SageMaker Model Registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.api.model_registry import register as register_model
from traingrid.cli.columns import Column, Schema
from traingrid.cli.export import output_option, write_rows
from traingrid.cli.parameter_types import SUBMISSION
from traingrid.text import printable

if TYPE_CHECKING:
    from pathlib import Path

    from traingrid.cli.export import Output

_ROWS: Schema[Any] = Schema(
    "version, always one",
    Column("submission", "string: The submission's id."),
    Column("index", "integer: The array index."),
    Column("region", "string: The Region of the registry, which is the job's."),
    Column("group", "string: The model group."),
    Column("version", "integer: The number of the version."),
    Column("arn", "string: The ARN of the version."),
    Column("approval", "string: PendingManualApproval, Approved or Rejected."),
    Column("model", "string: The S3 URI of the model."),
    Column("image", "string: The image of the inference container; empty for an algorithm resource."),
    Column("metadata", "object of strings: The metadata of the version."),
    Column("result", "string: registered, or kept if it was registered before."),
)


@click.command()
@click.argument("submission", type=SUBMISSION)
@click.argument("index", type=click.IntRange(min=0))
@click.option("--group", required=True, help="Model group; created if it does not exist.")
@click.option("--image", default="", help="Image of the inference container [default: the training image].")
@output_option(_ROWS)
@click.pass_obj
def register(  # noqa: PLR0913  # the options of the command
    grid_file: Path, submission: str, index: int, *, group: str, image: str, output: Output
) -> None:
    """Register a model in SageMaker's registry.

    Adds the model of job INDEX of SUBMISSION, counted from 0, to a model group of the job's Region, with its metrics.
    Registering it again changes nothing. Nothing is hosted.
    """
    plane = ControlPlane.of(grid_file)
    registration = register_model(plane, plane.submission_id(submission), index, group, image)
    if output != "table":
        write_rows([registration], _ROWS, output)
        return
    earlier = " (registered before)" if registration.result == "kept" else ""
    click.echo(
        printable(
            f"version {registration.version} of {registration.group} in {registration.region}, "
            f"{registration.approval}{earlier}"
        )
    )
    click.echo(registration.arn)
    if registration.approval != "Approved":
        approve = (
            f"aws sagemaker update-model-package --region {registration.region} --model-package-arn {registration.arn}"
        )
        click.echo(f"Approve it with: {approve} --model-approval-status Approved")
