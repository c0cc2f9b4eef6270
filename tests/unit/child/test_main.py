"""Orchestrator: the exit code of a child in every situation."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.ledger_items import existing
from tests.support.sample_deployment import SAMPLE
from tests.support.snapshots import a_line
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.child import main as orchestrator
from traingrid.child.environment import Child, find_job
from traingrid.child.main import exit_code, run_child
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.job.state import JobState
from traingrid.kubernetes.errors import ApiError, UnavailableError
from traingrid.ledger.damage import intact
from traingrid.ledger.facts import SubmissionFacts
from traingrid.ledger.items import JobItem
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.rejections import Rejection, unresolved
from traingrid.submission.batch_children import ChildStatus
from traingrid.submission.status import submission_status


@pytest.fixture
def environment(deployment: Deployment) -> dict[str, str]:
    return {
        "TRAINGRID_GRID": deployment.grid.to_environment(),
        "TRAINGRID_ACCOUNT": deployment.account,
        "TRAINGRID_TABLE": deployment.table,
        "TRAINGRID_MANIFEST_BUCKET": deployment.manifest_bucket,
        "S3_ARRAY_FILE": f"s3://{deployment.manifest_bucket}/by-hand/x.csv",
        "AWS_BATCH_JOB_ID": "11111111-2222:3",
        "AWS_BATCH_JOB_ARRAY_INDEX": "3",
        "AWS_BATCH_JOB_ARRAY_SIZE": "4",
    }


@pytest.fixture(autouse=True)
def _process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    previous = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, previous)


def test_a_permanent_refusal_by_aws_is_left_to_batch(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "PutItem")

    monkeypatch.setattr(orchestrator, "find_job", fails)
    assert run_child(environment) == 75


@pytest.mark.parametrize("error", [ApiError(403, "Forbidden", "cannot get"), UnavailableError(401, "", "")])
def test_an_error_of_a_cluster_is_left_to_batch(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(orchestrator, "find_job", fails)
    assert run_child(environment) == 75


def test_an_unexpected_error_does_not_count_as_a_failed_training(environment: dict[str, str]) -> None:
    program = "import os; from traingrid.child import main as o; o.find_job = None; o.run_child(os.environ)"
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


ONE_LINE = SAMPLE.splitlines(keepends=True)[0]


@pytest.mark.parametrize(
    "case",
    [
        (SAMPLE, "3", "4 lines, but this Batch job is an array of 3"),
        (SAMPLE, "5", "4 lines, but this Batch job is an array of 5"),
        (SAMPLE, None, "4 lines, but this Batch job is not an array"),
        (ONE_LINE, "2", "1 line, but this Batch job is an array of 2"),
    ],
)
def test_a_raw_manifest_is_refused_unless_the_array_has_a_child_for_each_line(
    storage: Storage,
    ledger: Ledger,
    environment: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    case: tuple[str, str | None, str],
) -> None:
    content, size, sentence = case
    storage.write(S3Uri.parse(environment["S3_ARRAY_FILE"]), content.encode(), "text/csv")
    for index in range(int(size or 1)):
        array = {"AWS_BATCH_JOB_ARRAY_INDEX": str(index), "AWS_BATCH_JOB_ARRAY_SIZE": size} if size else {}
        own = {name: value for name, value in environment.items() if "_ARRAY_" not in name or name == "S3_ARRAY_FILE"}
        assert run_child(own | array) == 2
        message = json.loads(capsys.readouterr().err)["message"]
        assert f"{sentence}. No job was started." in message
        fix = "with an array size of 4" if content == SAMPLE else "as a single job, without an array size"
        assert f"Submit the job definition again {fix}." in message
    assert list(ledger.submissions()) == []
    (rejection,) = ledger.rejections()  # of the first child only
    assert isinstance(rejection, Rejection)
    assert rejection.sentence.startswith(f"Batch job {environment['AWS_BATCH_JOB_ID'].partition(':')[0]} with ")
    assert f"{sentence}. No job was started. Submit the job definition again {fix}." in rejection.sentence


def test_a_raw_manifest_with_errors_is_recorded_until_it_is_submitted_again(
    deployment: Deployment, storage: Storage, ledger: Ledger, environment: dict[str, str]
) -> None:
    storage.write(S3Uri.parse(environment["S3_ARRAY_FILE"]), b"us-east-1\n" * 4, "text/csv")
    for _ in range(2):
        assert run_child(environment | {"AWS_BATCH_JOB_ID": "1111:0", "AWS_BATCH_JOB_ARRAY_INDEX": "0"}) == 2
    (rejection,) = unresolved(intact(ledger.rejections()), [])
    assert (rejection.errors, rejection.batch_job) == (4, "1111")
    assert "Batch job 1111 with " in rejection.sentence
    storage.write(S3Uri.parse(environment["S3_ARRAY_FILE"]), SAMPLE.encode(), "text/csv")
    find_job(Child.from_environment(environment), deployment, storage, ledger)
    earlier = replace(rejection, at="2026-01-01T00:00:00Z")
    assert unresolved([earlier], intact(ledger.submissions())) == []


def test_a_raw_manifest_of_one_line_needs_no_array(
    deployment: Deployment, storage: Storage, ledger: Ledger, environment: dict[str, str]
) -> None:
    storage.write(S3Uri.parse(environment["S3_ARRAY_FILE"]), ONE_LINE.encode(), "text/csv")
    own = {name: value for name, value in environment.items() if not name.startswith("AWS_BATCH_JOB_ARRAY_")}
    submission, job = find_job(Child.from_environment(own), deployment, storage, ledger)
    assert job.index == 0
    assert existing(ledger.submission(submission)).children == 1


def test_retries_of_a_batch_job_share_a_submission(
    deployment: Deployment, storage: Storage, ledger: Ledger, environment: dict[str, str]
) -> None:
    storage.write(S3Uri.parse(environment["S3_ARRAY_FILE"]), SAMPLE.encode(), "text/csv")

    def submission(batch_job: str, attempt: str) -> str:
        variables = environment | {"AWS_BATCH_JOB_ID": batch_job, "AWS_BATCH_JOB_ATTEMPT": attempt}
        return find_job(Child.from_environment(variables), deployment, storage, ledger)[0]

    assert submission("1111:0", "1") == submission("1111:3", "2") != submission("2222:0", "1")


def test_a_manifest_given_to_batch_is_a_normal_submission(
    deployment: Deployment, storage: Storage, ledger: Ledger, environment: dict[str, str]
) -> None:
    storage.write(S3Uri.parse(environment["S3_ARRAY_FILE"]), SAMPLE.encode(), "text/csv")
    for index in ("3", "1"):
        variables = environment | {"AWS_BATCH_JOB_ID": f"1111:{index}", "AWS_BATCH_JOB_ARRAY_INDEX": index}
        submission, job = find_job(Child.from_environment(variables), deployment, storage, ledger)
        ledger.open_job(submission, job)

    class RunningArray:
        def state(self, _head: Any) -> str:
            return "PENDING"

        def of(self, head: Any, lines: Any, *, is_exact: bool) -> dict[int, ChildStatus]:
            return {index: ChildStatus(id=f"{head.batch_job}:{index}", status="RUNNING") for index in lines}

    (item,) = intact(ledger.submissions())
    assert (item.submission, item.state, item.jobs) == (submission, "Submitted", 4)
    children: Any = RunningArray()
    status = submission_status(submission, deployment.manifest_bucket, ledger, children, storage)
    assert (status.batch_job, status.ended) == ("1111", False)
    assert [(job.region, job.phase) for job in status.jobs] == [
        ("", "RUNNING"),
        ("us-west-2", "RUNNING"),
        ("", "RUNNING"),
        ("eu-central-1", "RUNNING"),
    ]


def test_a_line_by_hand_without_a_child_is_shown_as_never_started(
    deployment: Deployment, storage: Storage, ledger: Ledger
) -> None:
    """An earlier version could leave such a line, because its children did not check the size of their array."""
    facts: SubmissionFacts = {"manifest": "x", "jobs": 3, "state": "Submitted", "batch_job": "1111", "children": 2}
    ledger.claim_submission("0123abcd", "1111", facts)

    class EndedArray:
        def state(self, _head: Any) -> str:
            return "FAILED"

        def of(self, head: Any, lines: Any, *, is_exact: bool) -> dict[int, ChildStatus]:
            known = {0: ChildStatus(id="1111:0"), 1: ChildStatus(id="1111:1", status="FAILED", reason="host lost")}
            return {index: known.get(index, ChildStatus()) for index in lines}

    children: Any = EndedArray()
    status = submission_status("0123abcd", deployment.manifest_bucket, ledger, children, storage)
    assert status.ended
    assert [(job.state, job.phase) for job in status.jobs] == [("Failed", "never started")] * 3
    assert "Batch gives no reason" in status.jobs[0].reason
    assert "host lost" in status.jobs[1].reason
    assert "Batch job 1111 has no child for this line" in status.jobs[2].reason


def test_a_manifest_submitted_by_the_intake_is_not_trained_twice(
    deployment: Deployment,
    storage: Storage,
    ledger: Ledger,
    environment: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri = S3Uri(deployment.manifest_bucket, "manifests/x.csv")
    version = storage.write(uri, SAMPLE.encode(), "text/csv")
    for address in (str(uri), f"{uri}?versionId={version}"):
        assert run_child(environment | {"S3_ARRAY_FILE": address}) == 2
        output = capsys.readouterr().err
        assert "manifests/x.csv" in output
        assert f"upload it below s3://{deployment.manifest_bucket}/by-hand/ instead" in output
    assert list(ledger.submissions()) == []


def test_a_raw_manifest_that_has_changed_since_the_first_child_read_it_is_refused(
    deployment: Deployment, storage: Storage, ledger: Ledger, environment: dict[str, str]
) -> None:
    uri = S3Uri.parse(environment["S3_ARRAY_FILE"])
    version = storage.write(uri, SAMPLE.encode(), "text/csv")
    variables = environment | {"S3_ARRAY_FILE": f"{uri}?versionId={version}"}
    find_job(Child.from_environment(environment), deployment, storage, ledger)
    storage.write(uri, SAMPLE.replace("resized", "other").encode(), "text/csv")
    with pytest.raises(UsageError, match="has changed since"):
        find_job(Child.from_environment(environment), deployment, storage, ledger)
    assert ledger.rejections() == []  # the submission exists, and its lines have the reasons
    find_job(Child.from_environment(variables), deployment, storage, ledger)


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

def find_job(*_):
    Finalized()
    time.sleep(60)

orchestrator.find_job = find_job
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
