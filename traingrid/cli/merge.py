"""`traingrid merge`: merges the models of a submission's jobs into one, as a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.api.merge import prepare_merge
from traingrid.cli.columns import Column, Schema
from traingrid.cli.console import console
from traingrid.cli.export import output_option, sentence_printer, write_rows
from traingrid.cli.folded_table import folded_table
from traingrid.cli.parameter_types import REGION, SUBMISSION
from traingrid.merge.line import MergeRequest
from traingrid.text import byte_size, counted, printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from traingrid.api.merge import PreparedMerge
    from traingrid.cli.export import Output
    from traingrid.merge.copies import ModelCopy

_MERGED: Schema[Any] = Schema(
    "submission",
    Column("submission", "string: The submission's id."),
    Column("region", "string: The Region in which the models are merged."),
    Column("method", "string: average, ensemble, parts or weights."),
    Column("models", "integer: The number of models."),
)
_MODELS: Schema[ModelCopy] = Schema(
    "model, with --plan",
    Column(
        "index",
        "integer: The array index of its job.",
        value=lambda copy: copy.model.job.index,
        heading="index",
        right=True,
    ),
    Column("name", "string: The job's name.", value=lambda copy: copy.model.job.name, heading="job", fit="ellipsis"),
    Column(
        "region",
        "string: The Region in which it was trained.",
        value=lambda copy: copy.model.job.region,
        heading="Region",
        fit="ellipsis",
    ),
    Column("archive", "string: The S3 URI of the model.", value=lambda copy: str(copy.model.archive)),
    Column(
        "bytes",
        "integer: The size of the archive.",
        lambda copy: byte_size(copy.head.size),
        value=lambda copy: copy.head.size,
        heading="size",
        right=True,
    ),
    Column("copy", "string: The S3 URI of its copy in the Region of the merge.", value=lambda copy: str(copy.target)),
)


@click.command()
@click.argument("submission", type=SUBMISSION)
@click.argument("indexes", metavar="[INDEX]...", nargs=-1, type=click.IntRange(min=0))
@click.option(
    "--method",
    type=click.Choice(["average", "ensemble", "parts", "weights"]),
    default="average",
    show_default=True,
    help="average: the mean of the weights; ensemble: the mean of the predictions; parts: all files in one model; "
    "weights: the mean of weights that scripts have saved.",
)
@click.option(
    "--region", default="", type=REGION, help="Where to merge [default: the Region with the most of the models]."
)
@click.option("--data", default="", help="S3 folder with train/ and validation/ [default: the data of a job there].")
@click.option("--instance-type", default="", help="Instance type [default: the grid's first without accelerators].")
@click.option("--image", default="", help="Alias of the training image [default: the grid's default].")
@click.option("--folders", is_flag=True, help="With the method parts: put each model into its own folder.")
@click.option(
    "--statistics-images",
    type=click.IntRange(1, 10**9),
    default=MergeRequest.statistics_images,
    show_default=True,
    help="With the method average: the training images for the statistics of batch norm.",
)
@click.option("--plan", is_flag=True, help="Only print the merge; copy and submit nothing.")
@output_option(_MERGED, _MODELS)
@click.pass_obj
def merge(
    grid_file: Path, /, submission: str, indexes: tuple[int, ...], *, plan: bool, output: Output, **request: Any
) -> None:
    """Merge the models of jobs into one model.

    Merges the models of the jobs of SUBMISSION, or of those with the given indexes, in one job, which compares the
    result with each of them. The same command does nothing a second time.
    """
    plane = ControlPlane.of(grid_file)
    options = MergeRequest(**request)
    prepared = prepare_merge(plane, plane.submission_id(submission), indexes, options)
    echo = sentence_printer(output)
    if plan:
        _print_plan(prepared, output, echo)
        return
    merged = prepared.run(lambda text: echo(printable(text)))
    if output != "table":
        row = {"submission": merged, "region": prepared.job.region, "method": options.method}
        write_rows([row | {"models": len(prepared.copies)}], _MERGED, output)
    echo(f"submission {merged}: merges {counted(len(prepared.copies), 'model')} in {prepared.job.region}")
    echo(f"Track it with: traingrid status {merged} --watch")


def _print_plan(prepared: PreparedMerge, output: Output, echo: Callable[[str], None]) -> None:
    """Print the models and the job that would merge them."""
    if output == "table":
        table = folded_table(_MODELS.columns, prepared.copies)
        table.header_style = ""
        console().print(table)
    else:
        write_rows(prepared.copies, _MODELS, output)
    job = prepared.job
    echo(f"One {job.instance_type} in {job.region} would merge {counted(len(prepared.copies), 'model')}.")
    for name in ("train", "validation"):
        if channel := job.inputs.get(name):
            echo(printable(f"{name}: {channel.location}"))
    if prepared.transferred:
        echo(f"{byte_size(prepared.transferred)} would be copied from other Regions, which AWS charges for.")
    echo("Nothing was written. Run it without --plan.")
