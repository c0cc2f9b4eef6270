"""`traingrid shell` in a deployed grid: Session Manager's checks, IAM, and a plugin that records its arguments."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import forbidden
from tests.e2e.submissions import submit, until
from tests.support.python_programs import write_program
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client

HOME, REGION, ACCOUNT = "us-east-1", "eu-west-1", "123456789012"
PLUGIN = """\
import json, os, sys
if sys.argv[1:] == ["--version"]:
    print("1.2.650.0")
else:
    reply = json.loads(os.environ[sys.argv[1]])
    print(json.dumps([sys.argv[1:], reply]))
    sys.exit(3)
"""
MAY_START = {
    # https://docs.aws.amazon.com/sagemaker/latest/dg/train-remote-debugging.html
    "Effect": "Allow",
    "Action": ["ssm:StartSession", "ssm:TerminateSession"],
    "Resource": "*",
    "Condition": {"StringLike": {"ssm:resourceTag/aws:ssmmessages:target-id": "sagemaker-training-job:traingrid-*"}},
}


@pytest.fixture(scope="module")
def submission(plane: ControlPlane) -> str:
    """A submission whose only job trains."""
    bucket = names.data_bucket("traingrid", plane.deployment.account, REGION)
    for channel in ("train", "validation"):
        client("s3", REGION).put_object(Bucket=bucket, Key=f"shell/{channel}/a", Body=b"a")
    manifest = f"region,s3_uri,hp.seconds\n{REGION},s3://{bucket}/shell,600\n"
    found = str(submit(plane, "shell.csv", manifest)["submission"])
    until(lambda: secondary(found) == "Training")
    until(lambda: bool(plane.status(found).jobs[0].training_job))
    return found


def secondary(submission: str) -> str:
    try:
        found = client("sagemaker", REGION).describe_training_job(TrainingJobName=f"traingrid-{submission}-0-1")
    except ClientError:
        return ""
    return str(found["SecondaryStatus"])


def shell(cloud: LocalCloud, folder: Path, submission: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run the command with a plugin that prints its arguments and the reply that it has received."""
    write_program(folder / "session-manager-plugin", PLUGIN)
    program = "import sys; from traingrid.cli.main import main; sys.exit(main())"
    grid = str(Path(cloud.data_dir) / "grid.yaml")
    command = [sys.executable, "-c", program, "--grid", grid, "shell", submission, "0", *options]
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_the_training_job_was_started_with_remote_debugging(submission: str) -> None:
    found = client("sagemaker", REGION).describe_training_job(TrainingJobName=f"traingrid-{submission}-0-1")
    assert found["RemoteDebugConfig"] == {"EnableRemoteDebug": True}


def test_the_plugin_replaces_the_command_with_a_session_of_the_host(
    cloud: LocalCloud, submission: str, tmp_path: Path
) -> None:
    ran = shell(cloud, tmp_path, submission)
    assert ran.returncode == 3, ran.stderr
    (variable, region, operation, profile, parameters, endpoint), reply = json.loads(ran.stdout)
    assert (variable, region, operation, profile) == ("AWS_SSM_START_SESSION_RESPONSE", REGION, "StartSession", "")
    target = f"sagemaker-training-job:traingrid-{submission}-0-1_algo-1"
    assert json.loads(parameters) == {"Target": target, "Reason": f"traingrid shell {submission} 0 --host 1"}
    assert endpoint == cloud.endpoint_url
    assert reply.keys() == {"SessionId", "TokenValue", "StreamUrl"}
    assert reply["StreamUrl"].startswith(
        f"wss://ssmmessages.{REGION}.amazonaws.com/v1/data-channel/{reply['SessionId']}"
    )


def test_a_host_that_the_job_does_not_have_is_refused(cloud: LocalCloud, submission: str, tmp_path: Path) -> None:
    ran = shell(cloud, tmp_path, submission, "--host", "2")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "has no host 2." in ran.stderr


def started(cloud: LocalCloud, role: str, target: str) -> str:
    """Start a session with a role; return the error's code, or an empty text."""
    found = cloud.environment_for(REGION, role, {})
    session: Any = boto3.Session(
        found["AWS_ACCESS_KEY_ID"], found["AWS_SECRET_ACCESS_KEY"], found["AWS_SESSION_TOKEN"], region_name=REGION
    )
    try:
        session.client("ssm", endpoint_url=cloud.endpoint_url).start_session(Target=target)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def test_a_role_needs_the_documented_permission_on_the_target(cloud: LocalCloud, submission: str) -> None:
    iam, target = client("iam", HOME), f"sagemaker-training-job:traingrid-{submission}-0-1_algo-1"
    trust = {"Statement": [{"Effect": "Allow", "Principal": {"AWS": ACCOUNT}, "Action": "sts:AssumeRole"}]}
    role = iam.create_role(RoleName="person", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    assert started(cloud, role, target) == "AccessDeniedException"
    document = json.dumps({"Version": "2012-10-17", "Statement": [MAY_START]})
    iam.put_role_policy(RoleName="person", PolicyName="shell", PolicyDocument=document)
    assert started(cloud, role, target) == ""
    assert started(cloud, role, target.replace("traingrid-", "other-")) == "AccessDeniedException"
    assert started(cloud, role, target.replace("algo-1", "algo-2")) == "TargetNotConnected"
    assert started(cloud, names.role_arn(ACCOUNT, names.execution_role("traingrid", REGION)), target) != ""


def test_without_the_permissions_of_the_agent_no_session_starts(
    cloud: LocalCloud, submission: str, tmp_path: Path
) -> None:
    with forbidden(names.execution_role("traingrid", REGION), "ssmmessages:OpenDataChannel"):
        ran = shell(cloud, tmp_path, submission)
    assert ran.returncode != 0
    assert "is not connected to Session Manager" in ran.stderr


def test_a_cancelled_job_is_refused(cloud: LocalCloud, plane: ControlPlane, submission: str, tmp_path: Path) -> None:
    plane.ledger.request_cancel(submission, "all", {"by": "Ada", "reason": ""})
    until(lambda: plane.status(submission).ended)
    ran = shell(cloud, tmp_path, submission)
    assert "has no running training job: it is Stopped." in ran.stderr
