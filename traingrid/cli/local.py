"""`traingrid local`: runs a local AWS on this machine, for experiments."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traingrid.cli.columns import Column, Schema
from traingrid.cli.export import output_option, sentence_printer, write_rows
from traingrid.cli.installed import LOCAL, checkout, require_checkout, require_extra
from traingrid.errors import TraingridError
from traingrid.grid.file import load_grid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcloud.server.state_file import Running
    from traingrid.cli.export import Output

_FOLDER = Path(".localcloud")
_KILLED = "The local AWS was killed, and its stacks, buckets, ledger and jobs are lost, because they were in memory."

_NEW_CLUSTER = "create a cluster: traingrid local cluster NAME --region REGION"

_SERVER: Schema[Any] = Schema(
    "local AWS, always one",
    Column("state", "string: answers, silent, killed or stopped."),
    Column("endpoint", "string: Its address; null if it is stopped."),
    Column("pid", "integer: The id of its process; null if it is stopped."),
)


@click.group()
def local() -> None:
    """Start, stop and fill a local AWS."""


@local.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="TCP port; any free one by default.")
@click.option(
    "--account",
    type=click.Choice(["young", "grown"]),
    default="grown",
    show_default=True,
    help="Quotas: those of a new AWS account, or raised ones.",
)
@click.option(
    "--training-hosts",
    type=click.IntRange(1),
    help="Training hosts that run at once; by default as many as cores and memory allow.",
)
def up(port: int, account: str, training_hosts: int | None) -> None:
    """Start a local AWS and leave it running. Use it as: eval "$(traingrid local up)"."""
    require_extra("local", LOCAL)
    from localcloud.server import lifecycle

    killed = lifecycle.condition(_FOLDER).state == "killed"
    options = ["--account-profile", account, "--training-hosts", str(training_hosts or 0)]
    with _errors_of_the_server():
        server = lifecycle.up(_FOLDER, port, options)
    click.echo(lifecycle.export_lines(server))
    if killed:
        click.echo(f"{_KILLED} The new one is empty; bootstrap and deploy the grid again.", err=True)
    click.echo(f"localcloud answers at {server.endpoint}; its files are in {_FOLDER}/", err=True)
    click.echo(f"kubectl uses {_FOLDER}/kubeconfig; {_NEW_CLUSTER}", err=True)
    if limit := _limit():
        click.echo(limit, err=True)


@contextmanager
def _errors_of_the_server() -> Iterator[None]:
    """Report an error of starting or stopping the local AWS as an error of the command."""
    from localcloud.server.lifecycle import LifecycleError

    try:
        yield
    except LifecycleError as error:
        raise TraingridError(error.reason, error.next_step) from None


def _limit() -> str:
    """Return a sentence about jobs that the local AWS cannot run with this installation, and the next step."""
    root = checkout()
    if root is None:
        return (
            "It cannot run jobs, because traingrid is installed without its checkout. "
            "To run jobs, run `make setup` in a checkout, and start it there: .venv/bin/traingrid local up."
        )
    if not (root / ".venv-training/bin/python").exists():
        setup = f"make -C {shlex.quote(str(root))} setup"
        return f"It cannot train: the training environment is not installed. Install it: {setup}."
    return ""


@local.command()
def down() -> None:
    """Stop the local AWS and delete its state."""
    require_extra("local", LOCAL)
    from localcloud.server import lifecycle

    with _errors_of_the_server():
        was_running = lifecycle.down(_FOLDER)
    click.echo("stopped" if was_running else "nothing was running", err=True)


@local.command()
@output_option(_SERVER)
def status(*, output: Output) -> None:
    """Print the address of the local AWS.

    The exit code is 1 if none runs.
    """
    require_extra("local", LOCAL)
    from localcloud.server import lifecycle

    condition = lifecycle.condition(_FOLDER)
    echo = sentence_printer(output)
    if output != "table":
        server = condition.server
        row = {"state": condition.state, "endpoint": server and server.endpoint, "pid": server and server.pid}
        write_rows([row], _SERVER, output)
    if condition.state == "answers" and condition.server:
        echo(f"localcloud answers at {condition.server.endpoint} (pid {condition.server.pid})")
        return
    if condition.state == "silent" and condition.server:
        echo(lifecycle.silence(condition.server))
    elif condition.state == "killed":
        echo(f'not running. {_KILLED} Start an empty one: eval "$(traingrid local up)"')
    else:
        echo("not running")
    raise SystemExit(1)


@local.command()
@click.argument("service", required=False)
@click.argument("quota", required=False)
@click.argument("value", required=False, type=click.FloatRange(min=0))
@click.option("--region", default="*", help="Region of the quota; all by default.")
def grant(service: str | None, quota: str | None, value: float | None, region: str) -> None:
    """Grant quota increases.

    AWS does this after a while.

    Without arguments, grant all pending requests (aws service-quotas request-service-quota-increase). With SERVICE,
    QUOTA (its code or name) and VALUE, give a quota that value without a request: fargate L-3032A538 64.
    """
    require_extra("local", LOCAL)
    from localcloud.server import lifecycle

    if service and (quota is None or value is None):
        raise click.UsageError("SERVICE, QUOTA and VALUE must be given together.")
    server = _running()
    quota_value = {"service": service, "quota": quota, "value": value, "region": region} if service else {}
    try:
        granted = lifecycle.grant(server, quota_value)
    except lifecycle.LifecycleError as error:
        step = "List the quotas: aws service-quotas list-service-quotas --service-code SERVICE."
        raise TraingridError(f"{error}.", step) from error
    for line in granted or ["no request for an increase is pending"]:
        click.echo(line)


@local.command()
@click.argument("name")
@click.option("--region", required=True, help="Region of the cluster.")
@click.option("--without-operator", is_flag=True, help="Do not install the MPI operator of Kubeflow.")
def cluster(name: str, region: str, *, without_operator: bool) -> None:
    """Create a Kubernetes cluster of EKS.

    You become its administrator, and the cluster becomes the current one of kubectl in shells that use
    eval "$(traingrid local up)".
    """
    require_extra("local", LOCAL)
    from botocore.exceptions import ClientError

    from localcloud.server.new_cluster import new_cluster

    server = _running()
    try:
        arn = new_cluster(server, name, region, with_operator=not without_operator)
    except ClientError as error:
        step = "Choose another name or Region; list the clusters: aws eks list-clusters --region REGION."
        raise TraingridError(f"The cluster was not created: {error.response['Error']['Message']}.", step) from error
    click.echo(arn)
    click.echo("kubectl uses this cluster, for example: kubectl get namespaces", err=True)


def _running() -> Running:
    """Return the server that runs here."""
    from localcloud.server import lifecycle

    server = lifecycle.status(_FOLDER)
    if server is None:
        raise TraingridError("No local AWS runs here.", 'Start it: eval "$(traingrid local up)".')
    return server


@local.command()
@click.pass_obj
def push(grid_file: Path) -> None:
    """Push this checkout's images to local ECR."""
    require_checkout("the images of a checkout")
    require_extra("local", LOCAL)
    from verification.checkout.image_pushes import push_images

    server = _running()
    for image in push_images(server.endpoint, load_grid(grid_file), server.secret):
        click.echo(image)
