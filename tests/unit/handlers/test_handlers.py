"""The Lambda functions, imported by name as AWS does."""

import importlib
import json
import logging
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from tests.support.ledger_items import existing, job_key
from tests.support.sample_deployment import SAMPLE
from tests.support.supervised_job import NAME
from tests.support.training_jobs import COMPLETED, FakeBackend
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.reconciler import reconciler as reconciling

CONTEXT = SimpleNamespace(aws_request_id="request-1", get_remaining_time_in_millis=lambda: 60_000)


@pytest.fixture(autouse=True)
def _environment(aws: None, deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINGRID_GRID", deployment.grid.to_environment())
    monkeypatch.setenv("TRAINGRID_ACCOUNT", deployment.account)
    monkeypatch.setenv("TRAINGRID_TABLE", deployment.table)
    monkeypatch.setenv("TRAINGRID_MANIFEST_BUCKET", deployment.manifest_bucket)
    monkeypatch.setenv("TRAINGRID_JOB_QUEUE", deployment.job_queue)
    monkeypatch.setenv("TRAINGRID_JOB_DEFINITION", deployment.job_definition)


def fresh(name: str) -> ModuleType:
    """Import a handler's module, as in a cold start."""
    return importlib.reload(importlib.import_module(name))


def object_created(bucket: str, key: str, version: str) -> dict[str, Any]:
    return {
        "source": "aws.s3",
        "detail-type": "Object Created",
        "detail": {"bucket": {"name": bucket}, "object": {"key": key, "version-id": version}},
    }


def test_an_invalid_manifest_gets_a_report_and_a_log_line(
    deployment: Deployment, storage: Storage, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = S3Uri(deployment.manifest_bucket, "manifests/my file+1.csv")
    version = storage.write(uri, b"mars,s3://ragab-ml/x\n", "text/csv")
    event = object_created(uri.bucket, uri.key, version)
    report = fresh("lambda.accept_manifest").handler(event, CONTEXT)
    assert report["state"] == "rejected"
    written = json.loads(storage.read(S3Uri(uri.bucket, "manifests/my file+1.csv.report.json")))
    record = json.loads(capsys.readouterr().out)
    assert (record["event"], record["message"]) == ("manifest", f"{uri}: rejected")
    assert written == report
    assert record.items() >= report.items()
    assert list(ledger.submissions()) == []


def test_libraries_log_only_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    fresh("lambda")
    logging.getLogger("botocore.credentials").info("Found credentials in environment variables.")
    assert capsys.readouterr().out == ""
    logging.getLogger("botocore.credentials").warning("Refreshing temporary credentials failed.")
    assert json.loads(capsys.readouterr().out)["level"] == "WARNING"


def test_a_report_is_not_treated_as_a_manifest(deployment: Deployment) -> None:
    event = object_created(deployment.manifest_bucket, "manifests/x.csv.report.json", "v1")
    assert fresh("lambda.accept_manifest").handler(event, CONTEXT)["state"] == "ignored"


def test_only_a_marker_is_registered_as_a_data_set() -> None:
    event = {**object_created("a-data-bucket", "oslo-1/train/0.tfrecord", "1"), "region": "us-east-1"}
    report = fresh("lambda.register_dataset").handler(event, CONTEXT)
    assert report == {"state": "ignored", "key": "oslo-1/train/0.tfrecord"}


def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch, deployment: Deployment) -> None:
    monkeypatch.delenv("TRAINGRID_TABLE")
    handler = fresh("lambda.accept_manifest").handler
    with pytest.raises(Exception, match="TRAINGRID_TABLE is not set"):
        handler(object_created(deployment.manifest_bucket, "manifests/x.csv", "v1"), CONTEXT)


def test_an_event_for_an_unknown_training_job_changes_nothing(
    deployment: Deployment, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    (job, *_) = jobs_of_lines(parse(SAMPLE.encode(), deployment), deployment, "0123abcd")
    ledger.open_job("0123abcd", job)
    event = {"region": "us-west-2", "detail": {"TrainingJobName": "traingrid-0123abcd-0-1"}}
    answer = fresh("lambda.record_job_event").handler(event, CONTEXT)
    assert answer == {"training_job": "traingrid-0123abcd-0-1", "region": "us-west-2", "changed": False}
    record = json.loads(capsys.readouterr().out)
    assert (record["event"], record["submission"], record["index"], record["attempt"]) == ("recorded", "0123abcd", 0, 1)
    assert record.items() >= answer.items()
    item = ledger.job("0123abcd", 0)
    assert item is not None
    assert item.state == "Pending"


def test_an_event_records_the_current_state_of_its_training_job(
    deployment: Deployment, ledger: Ledger, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.open_job("0123abcd", job)
    backend = FakeBackend(COMPLETED)
    backend.created = [NAME]
    module = fresh("lambda.record_job_event")
    monkeypatch.setattr(module, "_backend", lambda _region: backend)
    event = {"region": "us-west-2", "detail": {"TrainingJobName": NAME, "TrainingJobStatus": "InProgress"}}
    assert module.handler(event, CONTEXT)["changed"]
    item = existing(ledger.job("0123abcd", 0))
    assert (item.state, item.training_job, item.artifact) == ("Completed", NAME, COMPLETED.artifact)


def test_events_share_a_client_only_within_a_region(deployment: Deployment, ledger: Ledger) -> None:
    module = fresh("lambda.record_job_event")
    for region in ("us-west-2", "us-west-2", "eu-west-1"):
        module.handler({"region": region, "detail": {"TrainingJobName": "traingrid-0123abcd-0-1"}}, CONTEXT)
    assert module._backend.cache_info().misses == 2


def test_a_pass_of_an_empty_grid_reports_that_it_found_nothing(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    done = fresh("lambda.reconcile").handler({"source": "aws.events", "detail-type": "Scheduled Event"}, CONTEXT)
    assert done == {
        "recorded": [],
        "closed": [],
        "stopped": [],
        "released": [],
        "unreachable": {},
        "over_budget": [],
        "notified": [],
        "unsent": {},
        "left": 0,
        "lines": {},
        "running": 0,
        "history": done["history"],
    }
    assert done["history"].startswith("complete: 1 pages, 0 submissions added, begun at ")
    record = json.loads(capsys.readouterr().out)
    assert record.items() >= done.items()
    assert (record["event"], record["message"].startswith("swept: 0 recorded, 0 closed, 0 stopped")) == ("sweep", True)


def test_a_pass_reports_waiting_and_training_lines_as_metrics(
    deployment: Deployment, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = list(jobs_of_lines(parse(SAMPLE.encode(), deployment), deployment, "0123abcd"))
    ledger.claim_submission("0123abcd", "test", {"jobs": len(jobs), "manifest": "s3://x/y", "version": "1"})
    for job in jobs:
        ledger.open_job("0123abcd", job)
    ledger.record_job(job_key(), {"state": JobState.WAITING})
    fresh("lambda.reconcile").handler(None, CONTEXT)  # without a payload, as in docs/reconciler.md
    record = json.loads(capsys.readouterr().out)
    (described,) = record["_aws"]["CloudWatchMetrics"]
    assert (described["Namespace"], described["Dimensions"]) == ("traingrid", [["grid"]])
    values = {metric["Name"]: record[metric["Name"]] for metric in described["Metrics"]}
    assert record["grid"] == deployment.grid.name
    assert (values["Swept"], values["LinesWaiting"], values["LinesPending"]) == (1, 1, len(jobs) - 1)


def test_a_pass_ends_within_its_functions_timeout(deployment: Deployment, ledger: Ledger) -> None:
    (job, *_) = jobs_of_lines(parse(SAMPLE.encode(), deployment), deployment, "0123abcd")
    ledger.claim_submission("0123abcd", "test", {"jobs": 1, "manifest": "s3://x/y", "version": "1"})
    ledger.open_job("0123abcd", job)
    late = SimpleNamespace(get_remaining_time_in_millis=lambda: 0)
    assert fresh("lambda.reconcile").handler({}, late)["left"] == 1


def test_an_unreachable_region_fails_the_pass_after_all_others(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = fresh("lambda.reconcile")
    asked = []

    class Unreachable:
        def __init__(self, _grid: Any, region: str, _make: Any) -> None:
            self.region = region

        def listed(self, state: str = "", **_: Any) -> list[Any]:
            asked.append((self.region, state))
            if self.region == "us-west-2":
                raise EndpointConnectionError(endpoint_url="https://api.sagemaker.us-west-2.amazonaws.com")
            return []

        def ended(self) -> list[Any]:
            return []

    monkeypatch.setattr(reconciling, "inventory_of", Unreachable)
    with pytest.raises(Exception, match=r"The pass is incomplete: us-west-2: Could not connect"):
        module.handler({}, CONTEXT)
    assert {region for region, _ in asked} == set(deployment.grid.regions)
    assert list(json.loads(capsys.readouterr().out)["unreachable"]) == ["us-west-2"]
