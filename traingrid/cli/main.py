"""Main command: defines `traingrid` and converts all errors to messages and exit codes."""

import io
import logging
import os
import sys
from pathlib import Path

import click
from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

from traingrid import __version__
from traingrid.aws.error_codes import concerns_credentials
from traingrid.cli.command_groups import GroupedCommands
from traingrid.errors import INTERRUPTED, TraingridError
from traingrid.log import configure_cli
from traingrid.names import GRID_FILE_VARIABLE
from traingrid.text import printable

logger = logging.getLogger(__name__)


@click.group(cls=GroupedCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--grid",
    "grid_file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("grid.yaml"),
    envvar=GRID_FILE_VARIABLE,
    show_envvar=True,
    show_default=True,
    help="Grid definition file.",
)
@click.option("--verbose", is_flag=True, help="Log each step to standard error.")
@click.option("--debug", is_flag=True, help="Also log AWS requests, retries and tracebacks.")
@click.version_option(__version__, prog_name="traingrid")
@click.pass_context
def cli(context: click.Context, grid_file: Path, *, verbose: bool, debug: bool) -> None:
    """Train each line of a manifest on a cluster in the AWS Region that holds its data."""
    configure_cli(verbose=verbose, debug=debug)
    context.obj = grid_file


def main() -> None:
    """Run the command; print an error as a sentence with a next step, and exit with a code.

    0: success, 1: failure, 2: usage or manifest error, 130: interrupted.
    """
    try:
        _run()
    except click.ClickException as error:
        message = io.StringIO()
        error.show(message)
        _print_error(message.getvalue())
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted. Submitted jobs continue; `traingrid status` shows them.", err=True)
        sys.exit(INTERRUPTED)
    except TraingridError as error:
        _print_error(f"Error: {error.what}\n{error.next_step}")
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader of a pipe, for example `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    except (ClientError, BotoCoreError, Boto3Error) as error:
        click.echo(f"Error: AWS request failed: {error}", err=True)
        if isinstance(error, ClientError) and not concerns_credentials(error.response):
            click.echo("Correct the cause that AWS names, and run the command again.", err=True)
        else:
            click.echo("Check the credentials (aws sts get-caller-identity) and the Region.", err=True)
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - an error of traingrid itself
        _print_error(f"Error: unexpected {type(error).__name__}: {error}")
        click.echo("Run the command again with `traingrid --debug` for the traceback.", err=True)
        sys.exit(1)


def _run() -> None:
    """Run the command; with --debug, log the traceback of its error."""
    try:
        cli.main(standalone_mode=False)
    except Exception:
        logger.debug("The command failed.", exc_info=True)
        raise


def _print_error(text: str) -> None:
    """Print an error's lines with control characters, for example in file names, as escapes."""
    for line in text.rstrip("\n").split("\n"):
        click.echo(printable(line), err=True)
