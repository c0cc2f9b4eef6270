"""Orchestrator: the exit code of a child in every situation."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.snapshots import a_line
from traingrid.aws.s3 import Storage
from traingrid.child import main as orchestrator
from traingrid.child.main import exit_code, run_child
from traingrid.job.state import JobState
from traingrid.kubernetes.errors import ApiError, UnavailableError
from traingrid.ledger.items import JobItem


def test_a_permanent_refusal_by_aws_is_left_to_batch(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "PutItem")

    monkeypatch.setattr(orchestrator, "with_stored_jobs", fails)
    assert run_child(environment) == 75


@pytest.mark.parametrize("error", [ApiError(403, "Forbidden", "cannot get"), UnavailableError(401, "", "")])
def test_an_error_of_a_cluster_is_left_to_batch(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(orchestrator, "with_stored_jobs", fails)
    assert run_child(environment) == 75


def test_an_unexpected_error_does_not_count_as_a_failed_training(environment: dict[str, str]) -> None:
    program = "import os; from traingrid.child import main as o; o.with_stored_jobs = None; o.run_child(os.environ)"
    ended = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 75
    (line,) = ended.stderr.splitlines()  # each line of a multi-line trace would become a separate log event
    record = json.loads(line)
    assert (record["level"], record["failure"], record["exit_code"]) == ("ERROR", "TypeError", 75)
    assert any("run_child" in where for where in record["stack_trace"])


@pytest.mark.parametrize("name", ["S3_ARRAY_FILE", "AWS_BATCH_JOB_ID", "TRAINGRID_TABLE"])
def test_a_missing_variable_is_named(
    environment: dict[str, str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    del environment[name]
    assert run_child(environment) == 2
    assert f"{name} is not set" in capsys.readouterr().err


def test_an_unknown_log_level_is_refused_with_the_permitted_ones(
    environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_child(environment | {"TRAINGRID_LOG_LEVEL": "LOUD"}) == 2
    record = json.loads(capsys.readouterr().err)
    assert (record["level"], record["exit_code"], record["batch_child"]) == ("ERROR", 2, "11111111-2222:3")
    for word in ("TRAINGRID_LOG_LEVEL", "'LOUD'", "DEBUG, INFO, WARNING, ERROR"):
        assert word in record["message"]


def test_a_grid_of_another_version_is_refused_with_the_next_step(
    environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_child(environment | {"TRAINGRID_GRID": '{"name": "traingrid"}'}) == 2
    assert "Deploy it with this version" in capsys.readouterr().err


def test_a_missing_manifest_is_not_retried(
    storage: Storage, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_child(environment) == 2
    assert "by-hand/x.csv cannot be read: NoSuchKey" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ({"state": JobState.COMPLETED, "failure": ""}, 0),
        ({"state": JobState.IN_PROGRESS}, 0),
        ({"state": JobState.FAILED, "failure": "algorithm"}, 1),
        ({"state": JobState.FAILED, "failure": "capacity"}, 1),
        ({"state": JobState.FAILED, "failure": "image"}, 2),
        ({"state": JobState.FAILED}, 1),
        ({"state": JobState.STOPPED, "failure": "stopped_by_user"}, 143),
        ({"state": JobState.STOPPED, "failure": "max_runtime"}, 1),
        ({"state": JobState.STOPPED}, 143),
    ],
)
def test_the_exit_code_reports_how_the_job_ended(item: dict[str, Any], code: int) -> None:
    assert exit_code(JobItem.from_item(a_line(0) | item)) == code


def test_a_child_ends_on_sigterm_even_inside_a_finalizer(
    environment: dict[str, str],
) -> None:
    program = """
import os, signal, time
from traingrid.child import main as orchestrator

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)

def with_stored_jobs(*_):
    Finalized()
    time.sleep(60)

orchestrator.with_stored_jobs = with_stored_jobs
raise SystemExit(orchestrator.run_child(os.environ))
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert "Exception ignored" in ended.stderr
    assert (ended.returncode, "received SIGTERM" in ended.stdout) == (75, True)


class _Throttling(BaseHTTPRequestHandler):
    """AWS during an outage: it accepts every request, waits and then throttles it."""

    asked = threading.Event()

    def do_GET(self) -> None:
        self.asked.set()
        time.sleep(0.5)
        self.send_error(503, "SlowDown")

    do_POST = do_GET  # noqa: N815  # the name that http.server calls

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_a_child_ends_on_sigterm_while_it_waits_for_aws(environment: dict[str, str]) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Throttling)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    aws = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "batch_job"], env=os.environ | environment | aws, stdout=subprocess.PIPE, text=True
    )
    assert _Throttling.asked.wait(120)
    time.sleep(1.5)  # long enough for botocore to wait before a retry
    child.send_signal(signal.SIGTERM)
    try:
        output, _ = child.communicate(timeout=25)  # Batch kills it after 30 s
    finally:
        child.kill()
        server.shutdown()
        server.server_close()
    assert child.returncode == 75
    assert "received SIGTERM" in output
    assert "this child's own cost: 0.25 vCPU, 512 MiB" in output


def test_a_child_ends_on_sigterm_during_imports_and_is_retried() -> None:
    deaf = """trap '' TERM; exec "$0" -m batch_job"""  # like a container's first process
    child = subprocess.Popen(["sh", "-c", deaf, sys.executable])
    while not _catches(child.pid, signal.SIGTERM):
        assert child.poll() is None, "the child ended before it could handle a signal"
        time.sleep(0.001)
    child.send_signal(signal.SIGTERM)
    assert child.wait(120) == 75  # and not 2, the code for missing variables of Batch


def _catches(pid: int, number: signal.Signals) -> bool:
    """Return True if a process has a handler (proc(5), SigCgt)."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)
