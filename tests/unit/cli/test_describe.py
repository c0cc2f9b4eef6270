"""`traingrid describe` and `open`: one job with its line, its attempts, and the commands for the next steps."""

import json
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner

import traingrid as tg
from tests.support.ledger_items import job_key
from tests.support.sample_deployment import SAMPLE
from traingrid.api.control_plane import ControlPlane
from traingrid.api.description import describe
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.describe import _metrics, _retry
from traingrid.cli.main import cli
from traingrid.grid.deployment import Deployment
from traingrid.job.channels import manifest_uri
from traingrid.job.facts import JobFacts
from traingrid.job.failures import FAILURES
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.ledger import Ledger
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.submission.batch_children import Children
from traingrid.submission.files import jobs_key, normalised

CONSOLE = "https://us-west-2.console.aws.amazon.com/sagemaker/home?region=us-west-2#/jobs/traingrid-0123abcd-0-2"


@pytest.fixture
def job(deployment: Deployment, storage: Storage, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Job:
    """The first job of the submitted sample."""
    made = jobs_of_lines(parse(SAMPLE.encode(), deployment), deployment, "0123abcd")
    storage.write(S3Uri(deployment.manifest_bucket, jobs_key("0123abcd")), normalised(made)[0], "application/jsonl")
    ledger.claim_submission("0123abcd", "request-1", {"jobs": 4, "manifest": "s3://bucket/manifests/x.csv"})
    ledger.record_submitted("0123abcd", "array")
    monkeypatch.setattr(Children, "of", lambda *_, **__: {})
    monkeypatch.setattr(Children, "state", lambda *_: "PENDING")
    nothing: Any = None
    plane = ControlPlane(deployment=deployment, ledger=ledger, batch=nothing, storage=storage)
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: plane)
    return made[0]


@pytest.fixture
def failed(job: Job, ledger: Ledger) -> None:
    """The job was moved to another Region, where its script failed."""
    ledger.open_job("0123abcd", job, ["us-east-1", "us-west-2"])
    tried: AttemptFacts = {"region": "us-east-1", "state": JobState.FAILED, "failure": "capacity", "reason": "none"}
    ledger.next_attempt(job_key(), tried, "us-west-2")
    facts: JobFacts = {
        "state": JobState.FAILED,
        "phase": "Failed",
        "training_job": "traingrid-0123abcd-0-2",
        "training_job_arn": "arn:aws:sagemaker:us-west-2:123456789012:training-job/traingrid-0123abcd-0-2",
        "failure": "algorithm",
        "reason": "AlgorithmError: ValueError\n\x1b[2Jsecond line",
        "training_seconds": 90,
        "billable_seconds": 90,
        "metrics": {"loss": 0.5},
    }
    assert ledger.record_job(job_key(0, 2), facts)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, arguments)
    return result.exit_code, result.output


def test_a_failed_job_shows_its_line_attempts_and_next_steps(failed: None) -> None:
    code, output = run("describe", "0123")
    assert code == 0
    for text in (
        "job:           cats (index 0 of submission 0123abcd)"
        if "cats" in output
        else "(index 0 of submission 0123abcd)",
        "manifest:      s3://bucket/manifests/x.csv, line ",
        "state:         Failed\n",
        "reason:        AlgorithmError: ValueError\n               \\x1b[2Jsecond line",
        "failure:       algorithm. ",
        "metrics:       loss  0.5",
        "attempts:      1  us-east-1  Failed (capacity): none\n",
        "               2  us-west-2  Failed (algorithm), 1m30s billed: AlgorithmError: ValueError\n",
        f"console:       {CONSOLE}",
        "next:          traingrid logs 0123abcd 0\n               traingrid retry 0123abcd x.csv   (with ",
    ):
        assert text in output
    assert "instance_type" in output


@pytest.mark.parametrize("failure", FAILURES)
def test_only_a_failure_that_a_retry_can_repair_has_a_retry_of_the_same_line(failed: None, failure: str) -> None:
    described = replace(describe(ControlPlane.of(Path()), "0123abcd", 0), failure=failure)
    is_same_line = not _retry("0123abcd", described).partition("traingrid retry 0123abcd")[2]
    assert is_same_line is (failure not in {"algorithm", "command", "memory", "invalid_request"})


def test_a_metric_that_no_line_of_a_scripts_log_has_is_named(failed: None) -> None:
    job = describe(ControlPlane.of(Path()), "0123abcd", 0)
    fields = {"source": "s3://code/x.tar.gz", "metrics": {"loss": "loss=(.*)", "top1": "top1=(.*)"}}
    script = replace(job, fields=fields)
    assert _metrics(script) == {"loss": "0.5"}  # it ended too early to print all
    status = replace(script.status, state=JobState.COMPLETED)
    absent = "none: no line of the log has a number for its expression"
    assert _metrics(replace(script, status=status)) == {"loss": "0.5", "top1": absent}
    assert _metrics(replace(script, status=replace(status, backend="eks"))) == {"loss": "0.5"}
    (name,) = _metrics(replace(script, status=replace(status, metrics={})))
    assert name == "none"


def test_a_job_that_no_child_has_opened_shows_its_line(job: Job) -> None:
    code, output = run("describe", "0123abcd", "1")
    assert code == 0
    assert "state:         Pending" in output
    assert "attempts" not in output
    assert "traingrid logs 0123abcd 1 --child" in output


def test_json_has_the_status_the_line_and_the_attempts(failed: None, job: Job) -> None:
    (found,) = json.loads(run("describe", "0123abcd", "--output", "json")[1])
    assert (found["status"]["state"], found["failure"], found["console"]) == ("Failed", "algorithm", CONSOLE)
    assert [attempt["failure"] for attempt in found["attempts"]] == ["capacity", "algorithm"]
    assert (found["line"], found["fields"]["instance_type"]) == (job.line, job.instance_type)


def test_a_program_gets_the_advice_after_a_failure(failed: None) -> None:
    found = tg.Submission(tg.Grid(ControlPlane.of(None)), "0123abcd").describe()  # type: ignore[arg-type]  # replaced
    assert (found.failure, bool(found.advice)) == ("algorithm", True)


def test_open_prints_the_address_and_opens_it(failed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert run("open", "0123abcd") == (0, f"{CONSOLE}\n")
    assert opened == [CONSOLE]
    result = CliRunner().invoke(cli, ["open", "0123abcd", "1"])
    assert "has no training job: it is Pending" in str(result.exception)
    assert opened == [CONSOLE]


def test_the_channels_are_those_that_the_training_found_in_its_folder(
    job: Job, storage: Storage, ledger: Ledger, deployment: Deployment
) -> None:
    ledger.open_job("0123abcd", job)
    ledger.record_job(job_key(attempt=1), {"training_job": "traingrid-0123abcd-0-1"})
    plane = ControlPlane.of(Path("grid.yaml"))
    assert set(describe(plane, "0123abcd", 0).fields["inputs"]) == {"train", "validation"}, "nothing is recorded yet"
    boto3.client("s3").create_bucket(Bucket=S3Uri.parse(job.output).bucket)
    agreed = manifest_uri(job, "traingrid-0123abcd-0-1", "channels")
    storage.write(agreed, b'{"train": ""}', "application/json")
    assert list(describe(plane, "0123abcd", 0).fields["inputs"]) == ["train"]
