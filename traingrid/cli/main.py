"""The command `traingrid` and its one error boundary."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

from traingrid.cli.audit import audit
from traingrid.cli.cancel import cancel
from traingrid.cli.data import download, upload
from traingrid.cli.doctor import doctor
from traingrid.cli.local import local
from traingrid.cli.logs import logs
from traingrid.cli.pause import pause, resume
from traingrid.cli.rehearse import rehearse
from traingrid.cli.retained import retained
from traingrid.cli.retry import retry
from traingrid.cli.status import status
from traingrid.cli.submit import submit
from traingrid.errors import INTERRUPTED, TraingridError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--grid",
    "grid_file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("grid.yaml"),
    show_default=True,
    help="Says which grid is meant: its name and home Region.",
)
@click.version_option(package_name="traingrid", prog_name="traingrid")
@click.pass_context
def cli(context: click.Context, grid_file: Path) -> None:
    """Train where the data lies: one manifest, a line per training job, a Horovod cluster per line."""
    context.obj = grid_file


for command in (
    submit,
    rehearse,
    status,
    logs,
    cancel,
    retry,
    pause,
    resume,
    audit,
    doctor,
    retained,
    upload,
    download,
    local,
):
    cli.add_command(command)


def main() -> None:
    """Run the command; a failure is a sentence, a next step and an exit code (2: usage, 1: everything else)."""
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted; what was submitted goes on. `traingrid status` shows it.", err=True)
        sys.exit(INTERRUPTED)
    except TraingridError as error:
        click.echo(f"Error: {error.what}", err=True)
        if error.next_step:
            click.echo(error.next_step, err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    except (ClientError, BotoCoreError, Boto3Error) as error:
        click.echo(f"Error: AWS answers: {error}", err=True)
        click.echo("Check the credentials (aws sts get-caller-identity) and the Region.", err=True)
        sys.exit(1)
