"""Remote debugging: Session Manager's sessions with containers of training jobs, without the sessions' content.

StartSession answers as AWS does if a container accepts sessions, but nothing listens at the returned address: there is
no agent in a container's process. The rules are those of
https://docs.aws.amazon.com/sagemaker/latest/dg/train-remote-debugging.html; the four permissions of the execution role
are those of its agent.
"""

import re
import uuid
from typing import TYPE_CHECKING, Any

from moto.core.responses import ActionResult
from moto.sagemaker.models import sagemaker_backends
from moto.ssm.exceptions import SSMException
from moto.ssm.responses import SimpleSystemManagerResponse

from localcloud.credentials.arn import account_of_arn, name_of_arn
from localcloud.iam.evaluation import verdict
from localcloud.iam.roles import policies_of

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

_TARGET = re.compile(r"sagemaker-training-job:(?P<job>[A-Za-z0-9-]{1,63})_algo-(?P<host>[1-9][0-9]*)")
_CHANNELS = ("CreateControlChannel", "CreateDataChannel", "OpenControlChannel", "OpenDataChannel")


def install(cloud: "LocalCloud") -> None:
    """Add the operations, which moto 5.2.5 lacks, to moto's Systems Manager."""
    cloud.replace(SimpleSystemManagerResponse, start_session=_start_session, terminate_session=_terminate_session)


def _start_session(response: Any) -> ActionResult:
    target = str(response._get_param("Target") or "")
    if not is_connected(target, response.current_account, response.region):
        raise SSMException("TargetNotConnected", f"{target} is not connected.")
    session = f"session-{uuid.uuid4().hex[:17]}"
    stream = f"wss://ssmmessages.{response.region}.amazonaws.com/v1/data-channel/{session}?role=publish_subscribe"
    return ActionResult({"SessionId": session, "TokenValue": f"token-of-{session}", "StreamUrl": stream})


def _terminate_session(response: Any) -> ActionResult:
    return ActionResult({"SessionId": response._get_param("SessionId")})


def is_connected(target: str, account: str, region: str) -> bool:
    """Return True if a container of a training job accepts sessions.

    Args:
        target: `sagemaker-training-job:<name>_algo-<n>`.
        account: The account of the caller.
    """
    match = _TARGET.fullmatch(target)
    job = sagemaker_backends[account][region].training_jobs.get(match["job"]) if match else None
    if match is None or job is None:
        return False
    description = job.response_object
    is_enabled = (description.get("RemoteDebugConfig") or {}).get("EnableRemoteDebug", False)
    has_host = int(match["host"]) <= description["ResourceConfig"]["InstanceCount"]
    runs = description["SecondaryStatus"] == "Training" and not description["EnableNetworkIsolation"]
    return bool(is_enabled and has_host and runs and _agent_may_connect(description["RoleArn"]))


def _agent_may_connect(role: str) -> bool:
    """Return True if the execution role has the permissions of the agent."""
    documents = policies_of(name_of_arn(role), account_of_arn(role)) or []
    return all(verdict(documents, f"ssmmessages:{action}", "*", {}) == "Allowed" for action in _CHANNELS)
