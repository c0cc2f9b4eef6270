"""`traingrid shell`: it refuses jobs, hosts and plugins with which no session is possible, before it starts one."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from tests.support.ledger_items import SUBMISSION, job_key
from tests.support.sample_deployment import SAMPLE
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli import shell
from traingrid.cli.main import cli
from traingrid.errors import TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.job.facts import JobFacts
from traingrid.job.state import JobState
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.ledger import Ledger
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.submission.batch_children import Children
from traingrid.submission.files import jobs_key, normalised

TRAINING_JOB = f"traingrid-{SUBMISSION}-0-1"
CALLED: list[tuple[str, str, dict[str, Any]]] = []


class Service:
    """SageMaker and Systems Manager of a Region under the control of a test."""

    described: dict[str, Any]
    error = ""

    def __init__(self, service: str, region: str) -> None:
        self.service, self.region = service, region
        self.meta = type("Meta", (), {"endpoint_url": f"https://ssm.{region}.amazonaws.com"})

    def describe_training_job(self, **_: Any) -> dict[str, Any]:
        return Service.described

    def start_session(self, **request: Any) -> dict[str, Any]:
        CALLED.append((self.service, self.region, request))
        if Service.error:
            raise ClientError({"Error": {"Code": Service.error, "Message": "no"}}, "StartSession")
        return {"SessionId": "s", "TokenValue": "secret", "StreamUrl": "wss://x", "ResponseMetadata": {}}


@pytest.fixture(autouse=True)
def service(monkeypatch: pytest.MonkeyPatch) -> None:
    CALLED.clear()
    monkeypatch.setattr(shell, "client", Service)
    monkeypatch.setattr(Service, "error", "")
    described = {
        "SecondaryStatus": "Training",
        "RemoteDebugConfig": {"EnableRemoteDebug": True},
        "ResourceConfig": {"InstanceCount": 2},
    }
    monkeypatch.setattr(Service, "described", described, raising=False)


@pytest.fixture
def trains(deployment: Deployment, storage: Storage, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A submission whose first job trains."""
    made = jobs_of_lines(parse(SAMPLE.encode(), deployment), deployment, SUBMISSION)
    storage.write(S3Uri(deployment.manifest_bucket, jobs_key(SUBMISSION)), normalised(made)[0], "application/jsonl")
    ledger.claim_submission(SUBMISSION, "request-1", {"jobs": 4, "manifest": "s3://bucket/manifests/x.csv"})
    ledger.record_submitted(SUBMISSION, "array")
    ledger.open_job(SUBMISSION, made[0])
    facts: JobFacts = {"state": JobState.IN_PROGRESS, "training_job": TRAINING_JOB, "training_job_arn": "arn"}
    ledger.record_job(job_key(), facts)
    monkeypatch.setattr(Children, "of", lambda *_, **__: {})
    monkeypatch.setattr(Children, "state", lambda *_: "RUNNING")
    nothing: Any = None
    plane = ControlPlane(deployment=deployment, ledger=ledger, batch=nothing, storage=storage)
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: plane)


def plugin(folder: Path, monkeypatch: pytest.MonkeyPatch, version: str = "1.2.650.0") -> None:
    """Install a plugin that prints its version."""
    path = folder / "session-manager-plugin"
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def run(*options: str) -> Result:
    return CliRunner().invoke(cli, ["shell", SUBMISSION, "0", *options])


def refusal(*options: str) -> str:
    result = run(*options)
    assert isinstance(result.exception, TraingridError), result.output
    assert CALLED == []
    return str(result.exception)


@pytest.mark.usefixtures("trains")
def test_a_job_on_eks_is_refused_with_the_commands_of_kubectl(ledger: Ledger) -> None:
    ledger.record_job(job_key(), {"state": JobState.STOPPED})
    outcome: AttemptFacts = {"region": "us-east-1", "state": JobState.STOPPED}
    assert ledger.next_attempt(job_key(), outcome, "us-east-1", reopen="x", backend="eks")
    ledger.record_job(job_key(attempt=2), {"training_job": "traingrid-0123abcd-0-2"})
    text = refusal()
    assert "trains on EKS, where `traingrid shell` cannot open sessions" in text
    assert "kubectl get pods -n NAMESPACE | grep ^traingrid-0123abcd-0-2-" in text


@pytest.mark.usefixtures("trains")
def test_the_plugin_gets_the_arguments_of_the_aws_cli_and_the_token_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin(tmp_path, monkeypatch)
    executed: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *call: executed.append(call))
    assert run("--host", "2").exit_code == 0
    ((path, arguments, environment),) = executed
    ((service, region, request),) = CALLED
    assert (service, request["Target"]) == ("ssm", f"sagemaker-training-job:{TRAINING_JOB}_algo-2")
    assert path == str(tmp_path / "session-manager-plugin")
    assert arguments == [
        "session-manager-plugin",
        "AWS_SSM_START_SESSION_RESPONSE",
        region,
        "StartSession",
        "",
        json.dumps(request),
        f"https://ssm.{region}.amazonaws.com",
    ]
    reply = json.loads(environment["AWS_SSM_START_SESSION_RESPONSE"])
    assert reply == {"SessionId": "s", "TokenValue": "secret", "StreamUrl": "wss://x"}
    assert environment["PATH"] == os.environ["PATH"]


@pytest.mark.usefixtures("trains")
def test_a_job_that_has_ended_or_does_not_train_yet_is_refused(ledger: Ledger) -> None:
    Service.described["SecondaryStatus"] = "Downloading"
    assert f"{TRAINING_JOB} does not train: its status is Downloading." in refusal()
    ledger.record_job(job_key(), {"state": JobState.COMPLETED})
    assert "has no running training job: it is Completed." in refusal()


@pytest.mark.usefixtures("trains")
def test_a_job_without_remote_debugging_is_refused_with_the_key_of_grid_yaml() -> None:
    del Service.described["RemoteDebugConfig"]
    text = refusal()
    assert "was started without remote debugging" in text


@pytest.mark.usefixtures("trains")
def test_a_host_that_does_not_exist_is_refused() -> None:
    assert f"{TRAINING_JOB} has no host 3." in refusal("--host", "3")
    assert run("--host", "0").exit_code == 2


@pytest.mark.usefixtures("trains")
def test_a_missing_or_old_plugin_is_refused_with_the_address_of_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal() == f"session-manager-plugin is not installed. Install it: {shell.INSTALL}"
    monkeypatch.setenv("PATH", "/bin")
    for version in ("1.2.497.0", "1.2.30.0", "unknown"):
        plugin(tmp_path, monkeypatch, version)
        assert "is too old, or has no version" in refusal()


@pytest.mark.usefixtures("trains")
def test_an_agent_that_is_not_connected_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin(tmp_path, monkeypatch)
    monkeypatch.setattr(Service, "error", "TargetNotConnected")
    result = run()
    assert "is not connected to Session Manager" in str(result.exception)


@pytest.mark.usefixtures("trains")
def test_a_job_in_another_account_is_refused(deployment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = dict.fromkeys(deployment.grid.regions, "210987654321")
    monkeypatch.setattr(type(deployment.grid), "other_accounts", lambda _: elsewhere)
    assert "is in another account" in refusal()
