"""`traingrid tensorboard`: shows the TensorBoard data of jobs in all Regions."""

import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.cli.parameter_types import SUBMISSION
from traingrid.errors import TraingridError
from traingrid.metrics.tensorboard_runs import TensorBoardRuns
from traingrid.text import counted, printable

_SYNC_SECONDS = 15.0


@click.command()
@click.argument("submissions", metavar="SUBMISSION...", nargs=-1, required=True, type=SUBMISSION)
@click.option(
    "--logdir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("tensorboard"),
    show_default=True,
    help="Local folder.",
)
@click.option("--once", is_flag=True, help="Only copy the data; do not start TensorBoard.")
@click.option("--port", type=click.IntRange(1, 65535), default=6006, show_default=True, help="Port of TensorBoard.")
@click.pass_obj
def tensorboard(grid_file: Path, submissions: tuple[str, ...], *, logdir: Path, once: bool, port: int) -> None:
    """Show jobs in TensorBoard.

    Copies the TensorBoard data of all jobs from their Regions into a folder, starts `tensorboard` if it is installed,
    and keeps the folder up to date until Ctrl-C.
    """
    plane = ControlPlane.of(grid_file)
    files = TensorBoardRuns(
        plane=plane, submissions=[plane.submission_id(submission) for submission in submissions], folder=logdir
    )
    click.echo(f"copied {counted(files.sync(), 'file')} into {printable(str(logdir))}")
    program = shutil.which("tensorboard")
    if once or program is None:
        _report(files)
        if program is None:
            click.echo(
                f"TensorBoard is not installed. Install it and run: tensorboard --logdir {printable(str(logdir))}"
            )
        return
    with subprocess.Popen([program, "--logdir", str(logdir), "--port", str(port)]) as viewer:
        try:
            printed = dict[str, str]()
            while viewer.poll() is None:
                printed = _print_new_errors(files, printed)
                time.sleep(_SYNC_SECONDS)
                files.sync()
        finally:
            viewer.terminate()
    raise TraingridError(f"TensorBoard has ended with exit code {viewer.returncode}.", "Its message is above.")


def _print_new_errors(files: TensorBoardRuns, printed: Mapping[str, str]) -> dict[str, str]:
    """Print the errors of Regions that have not been printed, and return all errors."""
    for region, error in sorted(files.errors.items()):
        if printed.get(region) != error:
            click.echo(printable(f"warning: the TensorBoard data of {region} is not up to date: {error}"), err=True)
    return dict(files.errors)


def _report(files: TensorBoardRuns) -> None:
    """Report the Regions that could not be read.

    Raises:
        TraingridError: There are some.
    """
    if files.errors:
        errors = "; ".join(f"{region}: {error}" for region, error in sorted(files.errors.items()))
        raise TraingridError(f"Some TensorBoard data could not be copied. {errors}.", "Run the command again.")
