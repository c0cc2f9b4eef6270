"""`traingrid report`: writes a submission as one HTML file."""

from pathlib import Path

import click

from traingrid.api.grid import Grid
from traingrid.cli.parameter_types import SUBMISSION
from traingrid.submission.series import Series
from traingrid.text import byte_size, printable


@click.command()
@click.argument("submission", type=SUBMISSION)
@click.option(
    "-o",
    "--to",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write [default: report-SUBMISSION.html].",
)
@click.pass_obj
def report(grid_file: Path, submission: str, file: Path | None) -> None:
    """Write a submission as one HTML file.

    SUBMISSION is also sweep:NAME, for all trials, or rounds:NAME, with the table and the curve of the rounds.

    The file has the runs, best first, their curves, the Regions and their cost, failures with the recommended action,
    and everything that repeats the runs. It has no scripts and loads nothing. An earlier report is replaced.
    """
    grid = Grid.load(grid_file)
    name = submission if Series.named(submission) else grid.plane.submission_id(submission)
    path = grid.report(name, file or Path(f"report-{name.replace(':', '-')}.html"))
    click.echo(f"{printable(str(path))}: {byte_size(path.stat().st_size)}. Open it in a browser.")
