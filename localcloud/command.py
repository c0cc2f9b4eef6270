"""`localcloud`: starts and stops a local AWS in the background, and fills it; its files are in ./.localcloud."""

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import boto3
from botocore.exceptions import ClientError

from localcloud import __version__
from localcloud.credentials.secret import DUMMY_KEY
from localcloud.ecr import process_images
from localcloud.limits.quota import PROFILES
from localcloud.server import lifecycle
from localcloud.server.new_cluster import new_cluster
from localcloud.server.state_file import Running

_FOLDER = Path(".localcloud")


class CommandError(Exception):
    """A command cannot do its task; the text has the reason and the next step."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit code."""
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int | None] = options.run
    try:
        return run(options) or 0
    except (CommandError, lifecycle.LifecycleError, ClientError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="localcloud", description=__doc__)
    parser.add_argument("--version", action="version", version=f"localcloud {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int | None], text: str) -> argparse.ArgumentParser:
        subparser = commands.add_parser(name, help=text, description=text)
        subparser.set_defaults(run=run)
        return subparser

    up = command("up", _up, 'Start it. Use it as: eval "$(localcloud up)"')
    up.add_argument("--port", type=int, default=0, help="TCP port; any free one by default")
    up.add_argument("--account", choices=sorted(PROFILES), default="grown", help="quotas of a new or a grown account")
    up.add_argument("--training-hosts", type=int, default=0, help="training hosts at once; by default as memory allows")
    command("env", _env, 'Print the variables of the one that runs. Use it as: eval "$(localcloud env)"')
    command("status", _status, "Print where it runs; the exit code is 1 if it does not answer")
    command("down", _down, "Stop it and delete its state")
    push = command("push", _push, "Push an image that runs a command of this machine in this folder, and print its URI")
    push.add_argument("image", metavar="REPOSITORY:TAG")
    push.add_argument("--region", default=os.environ.get("AWS_REGION", "us-east-1"))
    push.add_argument("command", nargs="+", help="after --, for example: -- python train.py")
    grant = command("grant", _grant, "Grant all requested quota increases, or give a quota a value")
    grant.add_argument("quota", nargs="*", metavar="SERVICE QUOTA VALUE", help="for example: fargate L-3032A538 64")
    grant.add_argument("--region", default="*", help="Region of the quota; all by default")
    cluster = command("cluster", _cluster, "Create a Kubernetes cluster of EKS, whose administrator you are")
    cluster.add_argument("name")
    cluster.add_argument("--region", required=True)
    cluster.add_argument("--without-operator", action="store_true", help="do not install the MPI operator of Kubeflow")
    return parser


def _up(options: argparse.Namespace) -> None:
    killed = lifecycle.condition(_FOLDER).state == "killed"
    settings = ["--account-profile", options.account, "--training-hosts", str(options.training_hosts)]
    server = lifecycle.up(_FOLDER, options.port, settings)
    print(lifecycle.export_lines(server))
    if killed:
        print("The previous one was killed, and its resources are lost, because they were in memory.", file=sys.stderr)
    print(f"localcloud answers at {server.endpoint}; its files are in {_FOLDER}/", file=sys.stderr)


def _env(_: argparse.Namespace) -> None:
    print(lifecycle.export_lines(_running()))


def _status(_: argparse.Namespace) -> int:
    condition = lifecycle.condition(_FOLDER)
    endpoint = condition.server.endpoint if condition.server else ""
    print(f"{condition.state} {endpoint}".strip())
    return 0 if condition.state == "answers" else 1


def _down(_: argparse.Namespace) -> None:
    print("stopped" if lifecycle.down(_FOLDER) else "nothing was running", file=sys.stderr)


def _push(options: argparse.Namespace) -> None:
    repository, _, tag = options.image.partition(":")
    program = shutil.which(options.command[0])
    if program is None:
        message = f"There is no program {options.command[0]} on PATH. Write its path after --."
        raise CommandError(message)
    command = (str(Path(program).absolute()), *options.command[1:])
    image = process_images.ProcessImage(command=command, working_directory=str(Path.cwd()))
    server = _running()
    ecr = boto3.client(
        "ecr", region_name=options.region, endpoint_url=server.endpoint,
        aws_access_key_id=DUMMY_KEY, aws_secret_access_key=server.secret,
    )  # fmt: skip
    try:
        uri = ecr.create_repository(repositoryName=repository)["repository"]["repositoryUri"]
    except ecr.exceptions.RepositoryAlreadyExistsException:
        (described,) = ecr.describe_repositories(repositoryNames=[repository])["repositories"]
        uri = described["repositoryUri"]
    process_images.push(ecr, repository, tag or "latest", image)
    print(f"{uri}:{tag or 'latest'}")


def _grant(options: argparse.Namespace) -> None:
    names = ("service", "quota", "value")
    if len(options.quota) not in (0, len(names)):
        message = "Write SERVICE, QUOTA and VALUE together, or none of them."
        raise CommandError(message)
    quota_value: dict[str, object] = dict(zip(names, options.quota, strict=False))
    if quota_value:
        quota_value |= {"value": float(options.quota[2]), "region": options.region}
    lines = lifecycle.grant(_running(), quota_value)
    print("\n".join(lines or ["no request for an increase is pending"]))


def _cluster(options: argparse.Namespace) -> None:
    print(new_cluster(_running(), options.name, options.region, with_operator=not options.without_operator))


def _running() -> Running:
    server = lifecycle.status(_FOLDER)
    if server is None:
        message = 'No local AWS runs in this folder. Start one: eval "$(localcloud up)"'
        raise CommandError(message)
    return server


if __name__ == "__main__":
    sys.exit(main())
