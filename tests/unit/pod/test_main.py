"""Main: exit codes, termination messages and signals of the two commands."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.unit.pod.conftest import NAME, channel, request
from traingrid.aws.clients import renew
from traingrid.pod.main import run
from traingrid.pod.results import UNFINISHED

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def environment(tmp_path: Path, logging_as_before: None) -> dict[str, str]:
    (tmp_path / "request.json").write_text(json.dumps(request(channel())))
    (tmp_path / "log").touch()
    return {
        "AWS_REGION": "us-east-1",
        "HOSTNAME": f"{NAME}-0",
        "SAGEMAKER_BASE_DIR": str(tmp_path / "ml"),
        "TRAINGRID_HOSTS": f"{NAME}-0.{NAME}",
        "TRAINGRID_POD_FILES": str(tmp_path),
        "TRAINGRID_TERMINATION_LOG": str(tmp_path / "log"),
    }


def test_prepare_succeeds_without_a_message(
    environment: dict[str, str], put: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put("set/a", "A")
    assert run(["prepare"], environment, threading.Event()) == 0
    assert (tmp_path / "log").read_text() == ""
    assert (tmp_path / "ml/input/data/train/a").read_text() == "A"
    lines = [json.loads(line)["message"] for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == "Channel train: downloading s3://data/set/"
    assert lines[2].startswith("Channel train: 1 object with 1 byte in ")


def test_a_failure_of_prepare_is_one_line(environment: dict[str, str], s3: Any, tmp_path: Path) -> None:
    assert run(["prepare"], environment, threading.Event()) == 1
    text = (tmp_path / "log").read_text()
    assert text.startswith("ClientError: Data download failed:No S3 objects found")
    assert "\n" not in text


@pytest.mark.parametrize("content", ["", "[", "{}"])
def test_a_wrong_request_is_an_internal_error(
    environment: dict[str, str], s3: Any, tmp_path: Path, content: str
) -> None:
    (tmp_path / "request.json").write_text(content)
    assert run(["prepare"], environment, threading.Event()) == 1
    assert (tmp_path / "log").read_text().startswith("InternalServerError: ")


def test_an_error_of_results_is_json(environment: dict[str, str], s3: Any, tmp_path: Path) -> None:
    (tmp_path / "request.json").unlink()
    assert run(["results"], environment, threading.Event()) == 1
    message = json.loads((tmp_path / "log").read_text())
    assert message["artifact"] == message["failure"] == ""
    assert message["error"].startswith("InternalServerError: The request of the training job cannot be read")


def test_an_unknown_command_is_refused(environment: dict[str, str], tmp_path: Path) -> None:
    assert run(["serve"], environment, threading.Event()) == 1
    assert "must be one of prepare, results" in (tmp_path / "log").read_text()


def test_a_termination_log_that_cannot_be_written_is_no_error(
    environment: dict[str, str], put: Callable[..., None], tmp_path: Path
) -> None:
    ended = threading.Event()
    ended.set()
    missing = {**environment, "TRAINGRID_TERMINATION_LOG": str(tmp_path / "missing/log")}
    assert run(["results"], missing, ended) == 0


class Agent(BaseHTTPRequestHandler):
    """An EKS Pod Identity Agent that is not ready for the first requests."""

    refusals = 0

    def do_GET(self) -> None:
        Agent.refusals -= 1
        ready = Agent.refusals < 0
        credentials = {"AccessKeyId": "x", "SecretAccessKey": "x", "Token": "x", "Expiration": "2099-01-01T00:00:00Z"}
        self.send_response(200 if ready else 403)
        self.end_headers()
        self.wfile.write(json.dumps(credentials if ready else {}).encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def agent(put: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Agent]]:
    """Credentials that only the agent has."""
    put("set/a", "A")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Agent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{server.server_port}/v1/credentials")
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
    monkeypatch.setattr("traingrid.transfers.retries.backoff_seconds", lambda *_: 0.0)
    renew()
    yield Agent
    renew()
    server.shutdown()
    server.server_close()


def test_credentials_that_are_not_ready_are_waited_for(
    environment: dict[str, str], agent: type[Agent], tmp_path: Path
) -> None:
    agent.refusals = 8
    assert run(["prepare"], environment, threading.Event()) == 0
    assert (tmp_path / "ml/input/data/train/a").read_text() == "A"


@pytest.mark.parametrize("command", ["prepare", "results"])
def test_missing_credentials_name_the_role(
    environment: dict[str, str], agent: type[Agent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    agent.refusals = 1000
    monkeypatch.setattr("traingrid.pod.main.patiently", lambda call: call())
    assert run([command], environment, threading.Event()) == 1
    text = (tmp_path / "log").read_text()
    assert "Could not assume role arn:aws:iam::123456789012:role/training: " in text
    assert "Pod Identity" in text


def test_sigterm_during_the_start_is_not_lost(environment: dict[str, str], tmp_path: Path) -> None:
    """The handler exists before the libraries are imported, because PID 1 ignores signals without a handler."""
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "traingrid.pod", "results"],
        env={**environment, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr
    for line in process.stderr:  # boto3 is imported long before the end of the imports
        if "| " in line and line.split("|")[-1].strip().startswith("botocore"):
            break
    process.send_signal(signal.SIGTERM)
    process.stderr.read()
    assert process.wait(timeout=120) == 0
    process.stderr.close()
    assert json.loads((tmp_path / "log").read_text()) == {"artifact": "", "failure": "", "error": ""}


def test_a_killed_upload_leaves_the_reason(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "ml/model").mkdir(parents=True)
    (tmp_path / "ml/model/weights").write_text("w")
    unreachable = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    process = subprocess.Popen(
        [sys.executable, "-m", "traingrid.pod", "results"],
        env={**environment, **unreachable, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    process.stdout.readline()
    deadline = time.monotonic() + 30
    while not (tmp_path / "log").read_text() and time.monotonic() < deadline:
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    process.kill()
    process.wait()
    process.stdout.close()
    assert json.loads((tmp_path / "log").read_text())["error"] == UNFINISHED


def test_the_program_loads_neither_the_control_plane_nor_its_libraries() -> None:
    code = "import sys, traingrid.pod.main; print(*sys.modules)"
    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])}
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()
    packages = {name.split(".")[1] for name in loaded if name.startswith("traingrid.")}
    assert packages == {
        "aws",
        "backoff",
        "errors",
        "late_request",
        "log",
        "pod",
        "strict_json",
        "text",
        "threads",
        "transfers",
    }
    assert not {"pydantic", "click", "sqlalchemy"} & set(loaded)
