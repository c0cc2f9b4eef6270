"""`traingrid shell`: opens a shell in a container of a running training job, through Session Manager.

This program starts the session, and session-manager-plugin, which the AWS CLI uses, too, transports it. The arguments
are those of `aws ssm start-session` (StartSessionCaller in
https://github.com/aws/aws-cli/blob/v2/awscli/customizations/sessionmanager.py). The reply of StartSession, which has
the token of the session, is passed in an environment variable, because all users of a machine can see arguments.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click
from botocore.exceptions import ClientError

from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client
from traingrid.cli.parameter_types import SUBMISSION
from traingrid.errors import TraingridError, UsageError
from traingrid.grid.model import GridSettings
from traingrid.submission.status import JobStatus

PLUGIN = "session-manager-plugin"
INSTALL = (
    "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html"
)
_REPLY_VARIABLE = "AWS_SSM_START_SESSION_RESPONSE"
_LAST_WITHOUT_VARIABLE = (1, 2, 497, 0)
"""The last version of the plugin that does not read the reply from a variable (LAST_PLUGIN_VERSION_WITHOUT_ENV_VAR in
the source above)."""
_DOCUMENTATION = "docs/security.md, Remote debugging"


@click.command()
@click.argument("submission", type=SUBMISSION)
@click.argument("index", type=click.IntRange(min=0), default=0)
@click.option("--host", type=click.IntRange(min=1), default=1, show_default=True, help="Number of the host.")
@click.pass_obj
def shell(grid_file: Path, submission: str, index: int, host: int) -> None:
    """Open a shell in a running container.

    The job is line INDEX of SUBMISSION, counted from 0, and its hosts are algo-1, algo-2 and so on. It requires
    `training: {remote_debug: true}` in grid.yaml when the job starts, and session-manager-plugin.
    """
    plane = ControlPlane.of(grid_file)
    submission = plane.submission_id(submission)
    status = plane.job(submission, index)
    grid = plane.deployment.grid
    if status.backend == "eks":
        raise _eks_error(status, grid)
    if status.region in grid.other_accounts():
        text = f"{status.region} is in another account, where `traingrid shell` cannot open sessions."
        raise UsageError(text, f"Use credentials of that account: aws ssm start-session ({_DOCUMENTATION}).")
    _check(status, client("sagemaker", status.region), host)
    plugin = _plugin()
    target = f"sagemaker-training-job:{status.training_job}_algo-{host}"
    session = start_session(status.region, target, f"traingrid shell {submission} {index} --host {host}")
    sys.stdout.flush()
    session.run(plugin)


def _eks_error(status: JobStatus, grid: GridSettings) -> UsageError:
    """Return the error for a job on EKS, with the commands of kubectl that open a shell."""
    settings = grid.regions[status.region].eks if status.region in grid.regions else None
    namespace = settings.namespace if settings else "NAMESPACE"
    pods = f"kubectl get pods -n {namespace} | grep ^{status.training_job or 'NAME'}-"  # a person may change labels
    text = f"Job {status.index} trains on EKS, where `traingrid shell` cannot open sessions."
    return UsageError(text, f"Use kubectl: {pods}, then kubectl exec -it -n {namespace} POD -c train -- sh.")


def _check(status: JobStatus, sagemaker: Any, host: int) -> None:
    """Raise an error unless a host of a job accepts sessions: it trains, with remote debugging, and has this number."""
    if not status.training_job or status.ended:
        text = f"Job {status.index} has no running training job: it is {status.state}."
        raise TraingridError(text, "A shell is only possible while a job trains. See: traingrid status")
    description = sagemaker.describe_training_job(TrainingJobName=status.training_job)
    if description["SecondaryStatus"] != "Training":
        text = f"{status.training_job} does not train: its status is {description['SecondaryStatus']}."
        raise TraingridError(text, "A shell is only possible while SageMaker's status is Training.")
    if not description.get("RemoteDebugConfig", {}).get("EnableRemoteDebug"):
        text = f"{status.training_job} was started without remote debugging."
        step = "Set `training: {remote_debug: true}` in grid.yaml, deploy, and submit the job again"
        raise UsageError(text, f"{step}. Algorithms of AWS do not support it ({_DOCUMENTATION}).")
    hosts = description["ResourceConfig"]["InstanceCount"]
    if host > hosts:
        raise UsageError(f"{status.training_job} has no host {host}.", f"Use --host with a number from 1 to {hosts}.")


def _plugin() -> str:
    """Return the path of an installed plugin.

    Raises:
        TraingridError: It is not installed, or is too old to receive the reply in a variable.
    """
    path = shutil.which(PLUGIN)
    if path is None:
        raise TraingridError(f"{PLUGIN} is not installed.", f"Install it: {INSTALL}")
    ran = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    text = ran.stdout.strip()
    parts = text.split(".")
    version = tuple(map(int, parts)) if all(part.isascii() and part.isdigit() for part in parts) else ()
    if version <= _LAST_WITHOUT_VARIABLE:
        raise TraingridError(f"{PLUGIN} {text!r} is too old, or has no version.", f"Install a new one: {INSTALL}")
    return path


@dataclass(frozen=True, kw_only=True)
class Session:
    """A started session.

    Attributes:
        reply: The plugin's part of the reply: SessionId, TokenValue and StreamUrl.
    """

    region: str
    endpoint: str
    parameters: Mapping[str, str]
    reply: Mapping[str, str]

    def arguments(self) -> list[str]:
        """Return the plugin's arguments: its variable, Region, operation, profile, parameters and endpoint."""
        parameters = json.dumps(dict(self.parameters))
        return [PLUGIN, _REPLY_VARIABLE, self.region, "StartSession", "", parameters, self.endpoint]

    def run(self, plugin: str) -> NoReturn:
        """Replace this process with the plugin, which then receives the signals of the terminal."""
        environment = {**os.environ, _REPLY_VARIABLE: json.dumps(dict(self.reply))}
        os.execve(plugin, self.arguments(), environment)  # noqa: S606  # a program with arguments, not a shell


def start_session(region: str, target: str, reason: str) -> Session:
    """Start a session with a container.

    Args:
        target: The container, in Session Manager's form.
        reason: The reason, which Session Manager records.

    Raises:
        TraingridError: The agent of the container is not connected.
    """
    ssm = client("ssm", region)
    parameters = {"Target": target, "Reason": reason}
    try:
        reply = ssm.start_session(**parameters)
    except ClientError as error:
        if error.response["Error"]["Code"] != "TargetNotConnected":
            raise
        text = f"The agent of {target} is not connected to Session Manager."
        step = "Wait a minute after the start of the training. The host's log stream that ends with /ssm has its errors"
        raise TraingridError(text, f"{step}; in a VPC, it needs access to ssmmessages.") from error
    plain = {name: reply[name] for name in ("SessionId", "TokenValue", "StreamUrl")}
    return Session(region=region, endpoint=ssm.meta.endpoint_url, parameters=parameters, reply=plain)
