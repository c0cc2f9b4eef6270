"""Damaged JSON: a reader of text that others can write omits unreadable text, or reports its place."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.rows import each_row
from traingrid import log
from traingrid.api.submit import known_report
from traingrid.aws.s3_uri import S3Uri
from traingrid.backends.eks.pods import Pod, Results
from traingrid.backends.queued import jobs as service_jobs
from traingrid.cli import datasets
from traingrid.datasets.record_index import stored_index
from traingrid.errors import TraingridError
from traingrid.job.job import Job
from traingrid.job.rank_manifests import write_rank_manifests
from traingrid.kubernetes.errors import error_of
from traingrid.ledger.datasets import DatasetItem
from traingrid.ledger.errors import ItemError
from traingrid.ledger.submission_item import Array, SubmissionItem
from traingrid.metrics.points import records_of_part
from traingrid.planner import plan_file
from traingrid.pod.checkpoint_upload import CheckpointRecord
from traingrid.pod.host import FILES, Host
from traingrid.submission.batch_children import Children

DAMAGED = {
    "empty": b"",
    "truncated": b'{"version": "1", "sta',
    "list": b"[]",
    "null": b"null",
    "number": b"7",
    "text": b'"text"',
    "object": b"{}",
    "members of other types": b'{"version": 1, "files": [1], "index": true, "message": 2, "timestamp": {}, "Tags": 3}',
    "nested": b"[" * 100_000,
    "nested in an object": b'{"a": ' * 100_000,
    "digits": b'{"index": ' + b"1" * 5000 + b"}",
    "html": b"<html>",
    "latin-1": b'{"version": "\xe9"}',
}
REPORT = S3Uri("manifests", "x.csv")
SUBMITTED: dict[str, Any] = {"state": "submitted", "submission": "0123abcd", "jobs": 4, "batch_job": "8c1f"}
_ERROR = {"line": 2, "field": "region", "value": "mars", "reason": "is no Region", "next_step": "Correct it."}
REJECTED: dict[str, Any] = {"state": "rejected", "errors_in_total": 1, "errors": [_ERROR]}
_TRIED = {"submission": "0123abcd", "jobs": 4, "submitted_jobs": 0, "reason": "r", "next_step": "n", "tries": 3}
FAILED: dict[str, Any] = {"state": "failed", **_TRIED}
RETRYING: dict[str, Any] = {"state": "retrying", **_TRIED}
_DATASET = {"dataset": "scans", "version": "1", "region": "us-east-1", "objects": 1, "bytes": 1}
REGISTERED: dict[str, Any] = {"state": "registered", **_DATASET, "manifests": {}, "errors": {}}
REFUSED: dict[str, Any] = {"state": "rejected", "error": "The marker is none.", "next_step": "Correct it."}


@each_row("content", DAMAGED.items())
def test_a_damaged_line_of_a_retry_belongs_to_no_child(content: bytes) -> None:
    storage: Any = SimpleNamespace(read_pinned=lambda *_: b'{"index": 4}\n' + content + b'\n{"index": 5}\n')
    children = Children(storage, "bucket", make_client=lambda *_: None)
    arrays = (Array(batch_job="again", file="retry-1.jsonl", count=3),)
    submission = SubmissionItem(
        submission="0123abcd",
        state="Submitted",
        manifest="s3://bucket/x.csv",
        jobs=6,
        claimed_at="2026-11-20T10:00:00Z",
        arrays=arrays,
    )
    assert children.ids(submission) in (
        {4: "again:0", 5: "again:2"},
        {4: "again:0", 5: "again:1"},  # no line at all
    )


@each_row("content", DAMAGED.items())
def test_damaged_attributes_are_those_of_a_damaged_dataset(content: bytes) -> None:
    item = {
        "submission": "datasets",
        "item": "scans#1",
        "bytes": 1,
        "objects": 1,
        "replicas": {"us-east-1": {"uri": "s3://b/k", "registered_at": "2026-11-20T10:00:00Z"}},
        "revision": 1,
        "attributes": content.decode("latin-1"),
    }
    if content[:1] == b"{" and content[-1:] == b"}" and len(content) < 1000:
        assert DatasetItem.from_item(item).dataset == "scans"
        return
    with pytest.raises(ItemError, match=r"'scans#1'.*'attributes'"):
        DatasetItem.from_item(item)


@each_row("content", DAMAGED.items())
def test_a_damaged_report_of_the_intake_is_named(content: bytes) -> None:
    storage: Any = SimpleNamespace(read_versions=lambda *_: [content])
    with pytest.raises(TraingridError, match=r"^s3://manifests/x\.csv\S* must be "):
        known_report(storage, REPORT, "1")


@each_row("report", {report["state"]: report for report in (SUBMITTED, REJECTED, FAILED, RETRYING)}.items())
def test_a_report_without_a_member_that_its_state_implies_is_named(report: dict[str, Any]) -> None:
    for name in report:
        for damaged in ({**report, name: None}, {key: value for key, value in report.items() if key != name}):
            content = json.dumps({"version": "1", **damaged}).encode()
            storage: Any = SimpleNamespace(read_versions=lambda *_, content=content: [content])
            with pytest.raises(TraingridError, match=rf"x\.csv\S* must be JSON whose '{name}' is "):
                known_report(storage, REPORT, "1")


def test_an_error_of_a_rejected_manifest_without_its_members_is_named() -> None:
    errors: list[Any]
    for errors in ([7], [{}], [{**REJECTED["errors"][0], "line": "two"}]):
        content = json.dumps({"version": "1", **REJECTED, "errors": errors}).encode()
        storage: Any = SimpleNamespace(read_versions=lambda *_, content=content: [content])
        with pytest.raises(TraingridError, match=r"x\.csv\S* must be JSON whose "):
            known_report(storage, REPORT, "1")


@each_row("report", {report["state"]: report for report in (REGISTERED, REFUSED)}.items())
def test_a_registration_without_a_member_that_its_state_implies_is_named(report: dict[str, Any]) -> None:
    where, sha256 = S3Uri("manifests", "marker.report.json"), "ab"
    for name in report:
        content = json.dumps({"marker_sha256": sha256, **report, name: None}).encode()
        home: Any = SimpleNamespace(current_version=lambda _: "2", read_if_exists=lambda _, content=content: content)
        with pytest.raises(TraingridError, match=rf"marker\.report\.json must be JSON whose '{name}' is "):
            datasets._report(home, where, "1", sha256)


@each_row("content", DAMAGED.items())
def test_a_report_beside_a_damaged_one_is_read(content: bytes) -> None:
    report = json.dumps({"version": "1", **SUBMITTED}).encode()
    storage: Any = SimpleNamespace(read_versions=lambda *_: [content, report])
    found = known_report(storage, REPORT, "1")
    assert found
    assert found["state"] == "submitted"


@each_row("content", DAMAGED.items())
def test_damaged_shares_of_ranks_are_named(job: Job, content: bytes) -> None:
    streams = job.model_copy(update={"streams": "rank", "processes_per_host": 2})
    train = next(iter(streams.inputs.values())).model_copy(update={"input_mode": "Pipe"})
    streams = streams.model_copy(update={"inputs": {"train": train}})
    objects: Any = SimpleNamespace(read_if_exists=lambda *_: content, write_if_none=lambda *_: pytest.fail("written"))
    with pytest.raises(TraingridError, match=r"s3://\S+train\.shares\S* must be .*Delete it"):
        write_rank_manifests(objects, streams, "traingrid-0123abcd-0-1")


def _results(content: bytes) -> object:
    ended = {"name": "results", "state": {"terminated": {"exitCode": 0, "message": content.decode("latin-1")}}}
    status = {"phase": "Failed", "initContainerStatuses": [ended]}
    return Pod({"metadata": {"name": "pod"}, "spec": {}, "status": status}).results


def _fingerprint(content: bytes) -> object:
    payload = content.decode("latin-1")
    return service_jobs.describe_service_job(
        {"serviceRequestPayload": payload, "status": "RUNNING", "jobId": "1"}, None
    ).fingerprint


LENIENT: dict[str, tuple[Callable[[bytes], object], object]] = {
    "a pod's termination message": (_results, Results()),
    "a record index": (stored_index, {}),
    "metric points": (lambda content: list(records_of_part(content)), []),
}


@each_row("reader_and_absent", LENIENT.items())
def test_damaged_text_is_as_absent_text(reader_and_absent: tuple[Callable[[bytes], object], object]) -> None:
    reader, absent = reader_and_absent
    for name, content in DAMAGED.items():
        assert reader(content) == absent, name


@each_row("content", DAMAGED.items())
def test_readers_of_a_single_text_report_it(tmp_path: Path, content: bytes) -> None:
    text = content.decode("latin-1")
    assert log.readable(text) in (text, "{} 2")
    assert _fingerprint(content) in ("", _fingerprint(b"{}"))
    assert error_of(404, content).code == 404
    file = tmp_path / "request.json"
    file.write_bytes(content)
    record = CheckpointRecord(file)
    record.load()
    assert record.copied == {}
    with pytest.raises(TraingridError):
        plan_file.read(b"{}\n" + content, "plan.jsonl")
    with pytest.raises(TraingridError, match=r"request\.json|HOSTS|not in"):
        Host.from_environment({FILES: str(tmp_path)})
