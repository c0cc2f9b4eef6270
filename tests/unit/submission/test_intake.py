"""Intake: an uploaded manifest is submitted once, or rejected with a report."""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from tests.support.module_time import replace_time
from tests.support.recording_queue import RecordingQueue
from tests.support.sample_deployment import SAMPLE
from traingrid.api.control_plane import ControlPlane
from traingrid.api.submit import known_report
from traingrid.aws.batch import SubmitFailedError
from traingrid.aws.clients import client
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import ObjectVersion, S3Uri
from traingrid.cli.main import cli
from traingrid.errors import TraingridError, UsageError
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.ledger.damage import intact
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.rejections import unresolved
from traingrid.ledger.timestamps import now, timestamp
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.parse import MAX_BYTES
from traingrid.submission.files import chunks, read_job, submission_id
from traingrid.submission.intake import BusyError, Intake, ManifestVersion


@pytest.fixture
def batch() -> RecordingQueue:
    return RecordingQueue()


@pytest.fixture
def intake(deployment: Deployment, storage: Storage, ledger: Ledger, batch: Any) -> Intake:
    return Intake(deployment=deployment, storage=storage, ledger=ledger, batch=batch)


def upload(intake: Intake, content: str, key: str = "manifests/x.csv") -> ManifestVersion:
    uri = S3Uri(intake.deployment.manifest_bucket, key)
    return ManifestVersion(uri=uri, version=intake.storage.write(uri, content.encode(), "text/csv"))


def report_of(intake: Intake, source: ManifestVersion) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(intake.storage.read(source.report))
    return report


def test_a_manifest_becomes_one_array_and_a_report(intake: Intake, batch: RecordingQueue) -> None:
    source = upload(intake, SAMPLE)
    report = intake.accept(source, owner="request-1")
    assert report == report_of(intake, source)
    assert report["state"] == "submitted"
    (array,) = batch.submitted
    assert (array.count, report["jobs"], report["submission"]) == (4, 4, array.submission)
    lines = [Job.model_validate_json(line) for line in intake.storage.read(array.jobs).splitlines()]
    assert [job.index for job in lines] == [0, 1, 2, 3]
    item = intake.ledger.submission(array.submission)
    assert item is not None
    assert (item.state, item.jobs, item.batch_job) == ("Submitted", 4, f"batch-{array.submission}")


def test_a_submission_keeps_its_budget(intake: Intake, ledger: Ledger) -> None:
    head = "region,s3_uri,budget_dollars,dollars_per_hour\n"
    report = intake.accept(upload(intake, f"{head}us-east-1,s3://ragab-ml/day1,12.5,3\n"), "request-1")
    item = ledger.submission(report["submission"])
    assert item
    assert item.budget_dollars == 12.5


def test_more_jobs_than_an_array_holds_become_several_arrays_of_one_submission(
    intake: Intake, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chunks(20_001) == [10_000, 10_000, 1]
    monkeypatch.setattr("traingrid.submission.files.MAX_ARRAY", 100)
    source = upload(intake, "us-east-1,s3://ragab-ml/x\n" * 201)
    report = intake.accept(source, owner="request-1")
    assert [array.count for array in batch.submitted] == [100, 100, 1]
    assert [array["file"] for array in report["arrays"]] == ["jobs.jsonl", "jobs-1.jsonl", "jobs-2.jsonl"]
    last = read_job(intake.storage, batch.submitted[2].jobs, 0)
    assert (last.index, last.line) == (200, 201)
    item = intake.ledger.submission(report["submission"])
    assert item is not None
    arrays = [array.entry() for array in item.arrays]
    assert (item.batch_job, item.jobs, arrays) == (report["batch_job"], 201, report["arrays"])
    assert intake.accept(source, owner="request-2")["arrays"] == report["arrays"]
    assert len(batch.submitted) == 3


def half_submitted(intake: Intake, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch) -> ManifestVersion:
    """Upload the sample as two arrays, let Batch refuse the second, and return the manifest."""
    monkeypatch.setattr("traingrid.submission.files.MAX_ARRAY", 2)
    source = upload(intake, SAMPLE)
    batch.refuses = {1}
    with pytest.raises(SubmitFailedError):
        intake.accept(source, owner="request-1")
    return source


def test_a_retry_submits_only_the_arrays_that_were_refused(
    intake: Intake, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = half_submitted(intake, batch, monkeypatch)
    batch.refuses = set()
    intake.accept(source, owner="request-1")
    assert [array.count for array in batch.submitted] == [2, 2]


def test_children_read_the_version_that_was_submitted(intake: Intake, batch: RecordingQueue) -> None:
    intake.accept(upload(intake, SAMPLE), owner="request-1")
    (pinned,) = (array.jobs for array in batch.submitted)
    intake.storage.write(S3Uri(pinned.bucket, pinned.key), b"something else\n" * 1_000, "application/jsonl")
    parsed = ObjectVersion.parse(str(pinned))
    assert parsed == pinned
    assert read_job(intake.storage, parsed, 3).region == "eu-central-1"
    with pytest.raises(UsageError, match="differs from the submitted line"):
        read_job(intake.storage, S3Uri(pinned.bucket, pinned.key), 3)


@pytest.mark.parametrize("size", [MAX_BYTES + 1, 0])
def test_a_manifest_that_is_too_large_is_refused_before_it_is_read(
    intake: Intake, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    def pieces(*_: object) -> tuple[int, Iterator[bytes]]:
        assert not size, "its size was known before"
        return 1_000_000_000, iter(())

    monkeypatch.setattr(intake.storage, "pieces", pieces)
    source = replace(upload(intake, SAMPLE), size=size)
    (error,) = intake.accept(source, owner="request-1")["errors"]
    assert "bytes or more, and a manifest may have at most" in error["reason"]
    assert batch.submitted == []


def test_the_hash_of_a_manifest_is_that_of_its_bytes(intake: Intake) -> None:
    report = intake.accept(upload(intake, SAMPLE), owner="request-1")
    item = intake.ledger.submission(report["submission"])
    assert item is not None
    assert item.sha256 == hashlib.sha256(SAMPLE.encode()).hexdigest()


def test_a_rejected_manifest_leaves_nothing_but_its_report(intake: Intake, batch: RecordingQueue) -> None:
    source = upload(intake, SAMPLE + "mars,s3://ragab-ml/x\n")
    intake.accept(source, owner="request-1")
    (error,) = report_of(intake, source)["errors"]
    assert (error["line"], error["field"]) == (5, "region")
    assert error["reason"]
    assert error["next_step"]
    assert batch.submitted == []
    assert list(intake.ledger.submissions()) == []


def test_a_rejected_manifest_is_recorded_until_a_later_version_is_submitted(
    intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = timestamp(time.time() - 60)
    monkeypatch.setattr("traingrid.submission.intake_failure.now", lambda: earlier)
    source = upload(intake, SAMPLE + "mars,s3://ragab-ml/x\nvenus,s3://ragab-ml/x\n")
    for request in ("request-1", "request-2"):
        intake.accept(source, owner=request)
    (rejection,) = unresolved(intact(intake.ledger.rejections()), intact(intake.ledger.submissions()))
    assert (rejection.manifest, rejection.version, rejection.errors) == (str(source.uri), source.version, 2)
    assert f"{source.uri} was rejected at {rejection.at} with 2 errors; nothing was submitted. Line 5" in (
        rejection.sentence
    )
    assert rejection.sentence.endswith(f"All errors are in {source.report}.")
    intake.accept(upload(intake, SAMPLE), owner="request-3")
    assert unresolved(intact(intake.ledger.rejections()), intact(intake.ledger.submissions())) == []


def test_the_id_of_a_rejected_manifest_shows_all_of_its_errors(
    intake: Intake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plane = ControlPlane(deployment=intake.deployment, ledger=intake.ledger, batch=intake.batch, storage=intake.storage)
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: plane)
    source = upload(intake, SAMPLE + "mars,s3://ragab-ml/x\n" * 30)
    intake.accept(source, owner="request-1")
    identity = submission_id(str(source.uri), source.version)
    cli.main(["status"], standalone_mode=False)
    assert f"\n  all errors: traingrid status {identity}\n" in capsys.readouterr().out
    with pytest.raises(TraingridError) as rejected:
        cli.main(["status", identity], standalone_mode=False)
    first, *errors = str(rejected.value.what).splitlines()
    assert first == "x.csv is rejected and nothing was submitted."
    assert [error.partition(" ")[0] for error in errors] == [f"x.csv:{number}:" for number in range(5, 35)]
    with pytest.raises(TraingridError, match="There is no submission 00000000"):
        cli.main(["status", "00000000"], standalone_mode=False)


def test_a_rejection_is_shown_if_an_earlier_version_is_claimed_after_its_upload(intake: Intake) -> None:
    first, second, third = (timestamp(time.time() - seconds) for seconds in (90, 60, 30))
    accepted = replace(upload(intake, SAMPLE), uploaded_at=first)
    rejected = replace(upload(intake, SAMPLE + "mars,s3://ragab-ml/x\n"), uploaded_at=second)
    corrected = replace(upload(intake, SAMPLE), uploaded_at=third)
    intake.accept(rejected, owner="request-2")
    intake.accept(accepted, owner="request-1")
    (rejection,) = unresolved(intact(intake.ledger.rejections()), intact(intake.ledger.submissions()))
    assert (rejection.version, rejection.at) == (rejected.version, second)
    intake.accept(corrected, owner="request-3")
    assert unresolved(intact(intake.ledger.rejections()), intact(intake.ledger.submissions())) == []


def test_a_manifest_that_cannot_be_read_is_recorded_with_the_next_step(
    intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no kms:Decrypt"}}, "GetObject")

    pieces = intake.storage.pieces
    monkeypatch.setattr(intake.storage, "pieces", denied)
    source = replace(upload(intake, SAMPLE + "mars,s3://ragab-ml/x\n"), uploaded_at=now())
    for number in range(3):  # Lambda's tries of one event
        with pytest.raises(ClientError):
            intake.accept(source, owner=f"request-{number}")
    (rejection,) = intact(intake.ledger.rejections())
    assert rejection.sentence.startswith(f"{source.uri} could not be read at {rejection.at}. AWS request failed: ")
    assert "no kms:Decrypt" in rejection.sentence
    assert "The intake tries three times within four minutes." in rejection.sentence
    monkeypatch.setattr(intake.storage, "pieces", pieces)
    intake.accept(source, owner="request-3")
    (rejection,) = intact(intake.ledger.rejections())
    assert (rejection.errors, "region 'mars'" in rejection.sentence) == (1, True)


def test_repeated_events_submit_a_version_once(intake: Intake, batch: RecordingQueue) -> None:
    source = upload(intake, SAMPLE)
    reports = [intake.accept(source, owner=f"request-{n}") for n in range(5)]
    assert len(batch.submitted) == 1
    assert len({report["batch_job"] for report in reports}) == 1


def test_a_repeated_event_does_not_rewrite_the_report_whatever_the_grid_is_now(
    intake: Intake, batch: RecordingQueue
) -> None:
    source = upload(intake, SAMPLE)
    first = intake.accept(source, owner="request-1")
    written = intake.storage.current_version(source.report), intake.storage.current_version(source.own_report)
    grid = intake.deployment.grid
    smaller = grid.model_copy(update={"regions": {name: grid.regions[name] for name in list(grid.regions)[:1]}})
    changed = replace(intake, deployment=replace(intake.deployment, grid=smaller))
    with pytest.raises(ManifestError):
        changed._read(source)
    assert changed.accept(source, owner="request-2") == first
    assert written == (intake.storage.current_version(source.report), intake.storage.current_version(source.own_report))
    assert len(batch.submitted) == 1


@pytest.mark.parametrize("jobs", [4, 1])
def test_a_repeated_event_finds_the_array_of_a_submission_whose_item_a_person_deleted(
    intake: Intake, batch: RecordingQueue, jobs: int
) -> None:
    source = upload(intake, "".join(SAMPLE.splitlines(keepends=True)[-jobs:]))
    report = intake.accept(source, owner="request-1")
    key = {"submission": {"S": report["submission"]}, "item": {"S": "submission"}}
    client("dynamodb").delete_item(TableName=intake.deployment.table, Key=key)
    again = intake.accept(source, owner="request-2")
    assert (len(batch.submitted), again["batch_job"]) == (1, report["batch_job"])
    restored = intake.ledger.submission(report["submission"])
    assert restored is not None
    assert (restored.batch_job, restored.jobs) == (report["batch_job"], jobs)


@pytest.mark.parametrize("written", [0, 1, 2])
def test_reports_that_were_not_written_are_written_from_the_ledger(
    intake: Intake, batch: RecordingQueue, written: int
) -> None:
    """The intake is killed before, between and after the reports beside the manifest and of its version."""
    source, left = upload(intake, SAMPLE), iter(range(written))
    with pytest.MonkeyPatch.context() as killed:
        write = Storage.write_json

        def write_or_end(storage: Storage, uri: S3Uri, content: object) -> None:
            if next(left, None) is None:
                pytest.fail("killed")
            write(storage, uri, content)

        killed.setattr(Storage, "write_json", write_or_end)
        with suppress(pytest.fail.Exception):
            intake.accept(source, owner="request-1")
    report = intake.accept(source, owner="request-2")
    assert (report["state"], report["jobs"], len(batch.submitted)) == ("submitted", 4, 1)
    assert [json.loads(intake.storage.read(uri)) for uri in (source.report, source.own_report)] == [report] * 2


def test_each_version_of_a_manifest_has_its_own_report(intake: Intake) -> None:
    sources = [upload(intake, SAMPLE) for _ in range(20)] + [upload(intake, "mars,s3://ragab-ml/x\n")]
    reports = [intake.accept(source, owner="request-1") for source in sources]
    for source, report in zip(sources, reports, strict=True):
        assert known_report(intake.storage, source.uri, source.version) == report
        assert json.loads(intake.storage.read(source.own_report)) == report
        assert ManifestVersion.from_event(created(source.own_report)) is None


def test_the_report_of_an_intake_of_an_earlier_version_is_found(intake: Intake) -> None:
    source = upload(intake, SAMPLE)
    report = {"version": source.version, "state": "submitted", "submission": "0123abcd", "jobs": 4, "batch_job": "8c1f"}
    intake.storage.write_json(source.report, report)
    assert known_report(intake.storage, source.uri, source.version) == report
    assert known_report(intake.storage, source.uri, "another") is None


ENCODED = [
    ("manifests/a b.csv", "manifests/a+b.csv"),
    ("manifests/\u00fc+1.csv", "manifests/%C3%BC%2B1.csv"),
    ("manifests/100%25.csv", "manifests/100%2525.csv"),
]


@pytest.mark.parametrize(("key", "encoded"), ENCODED)
def test_a_manifest_is_found_by_a_plain_and_by_an_encoded_key(intake: Intake, key: str, encoded: str) -> None:
    source = upload(intake, SAMPLE, key)
    for given in (key, encoded):
        named = replace(source, uri=S3Uri(source.uri.bucket, given))
        report = intake.accept(named, owner="request-1")
        assert (report["state"], report["manifest"]) == ("submitted", str(source.uri))
    assert len(intake.batch.submitted) == 1  # type: ignore[attr-defined]  # a queue in memory


@pytest.mark.parametrize(("decoded", "key"), ENCODED)
def test_a_manifest_whose_plain_key_looks_encoded_wins(intake: Intake, decoded: str, key: str) -> None:
    upload(intake, "mars,s3://ragab-ml/x\n", decoded)
    source = upload(intake, SAMPLE, key)
    report = intake.accept(source, owner="request-1")
    assert (report["state"], report["manifest"]) == ("submitted", str(source.uri))


def created(uri: S3Uri) -> dict[str, Any]:
    return {"detail": {"bucket": {"name": uri.bucket}, "object": {"key": uri.key, "version-id": "1"}}}


def test_another_version_of_the_same_file_is_another_submission(intake: Intake, batch: RecordingQueue) -> None:
    for _ in range(2):
        intake.accept(upload(intake, SAMPLE), owner="request-1")
    assert len({array.submission for array in batch.submitted}) == 2


@pytest.mark.parametrize("retried_by", ["request-1/a", "request-1/b"], ids=["the same request", "another request"])
def test_a_retry_after_a_refusal_submits_without_a_wait(intake: Intake, batch: RecordingQueue, retried_by: str) -> None:
    source = upload(intake, SAMPLE)
    batch.refuses = {0}
    with pytest.raises(SubmitFailedError):
        intake.accept(source, owner="request-1/a")
    batch.refuses = set()
    intake.accept(source, owner=retried_by)
    assert len(batch.submitted) == 1


def test_refusals_are_reported_and_the_last_one_has_the_next_step(intake: Intake, batch: RecordingQueue) -> None:
    source = upload(intake, SAMPLE)
    batch.refuses = {0}
    states = []
    for number in range(1, 4):  # all attempts of an event have the same request id in Lambda
        with pytest.raises(SubmitFailedError):
            intake.accept(source, owner=f"request-1/{number}")
        report = report_of(intake, source)
        states.append(report["state"])
        assert (report["version"], report["tries"], report["reason"]) == (
            source.version,
            number,
            "the queue is disabled",
        )
    assert states == ["retrying", "retrying", "failed"]
    assert (report["jobs"], report["submitted_jobs"]) == (4, 0)
    assert "dead-letter queue" in report["next_step"]
    with pytest.raises(SubmitFailedError):
        intake.accept(source, owner="request-2/1")
    assert report_of(intake, source)["state"] == "retrying", "a redelivered dead letter also gets three attempts"
    batch.refuses = set()
    assert intake.accept(source, owner="request-2/2") == report_of(intake, source)
    assert report_of(intake, source)["state"] == "submitted"


def test_a_report_counts_the_jobs_of_accepted_arrays(
    intake: Intake, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = report_of(intake, half_submitted(intake, batch, monkeypatch))
    assert (report["jobs"], report["submitted_jobs"]) == (4, 2)


def test_a_retry_after_a_death_between_submit_and_record_finds_the_job(
    intake: Intake, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = upload(intake, SAMPLE)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "record_submitted", dies)
        with pytest.raises(KeyboardInterrupt):
            intake.accept(source, owner="request-1")
    (pinned,) = (array.jobs for array in batch.submitted)
    report = intake.accept(source, owner="request-1")
    assert len(batch.submitted) == 1
    assert report["state"] == "submitted"
    assert len(list(intake.storage.read_versions(S3Uri(pinned.bucket, pinned.key), 5))) == 1, (
        "the files that children read are unchanged"
    )


class KilledError(BaseException):
    """Ends a function like a kill or a timeout: no code of it runs afterwards."""


def test_a_request_takes_over_when_a_concurrent_one_must_have_ended(
    intake: Intake, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, start = upload(intake, SAMPLE), time.time()
    with monkeypatch.context() as patch:
        patch.setattr(batch, "submit", _killed)
        with pytest.raises(KilledError):
            intake.accept(source, owner="request-1/a", within=50.0)
    for seconds in (0, 49):
        _it_is(start + seconds, monkeypatch)
        with pytest.raises(BusyError):
            intake.accept(source, owner="request-1/b")  # Lambda may run one request twice at once
    assert batch.submitted == []
    _it_is(start + 52, monkeypatch)
    intake.accept(source, owner="request-2/a")
    assert len(batch.submitted) == 1


def test_a_request_that_took_over_holds_the_claim(
    intake: Intake, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, start = upload(intake, SAMPLE), time.time()
    monkeypatch.setattr(batch, "submit", _killed)
    for seconds, owner in ((0, "request-1/a"), (61, "request-1/b")):
        _it_is(start + seconds, monkeypatch)
        with pytest.raises(KilledError):
            intake.accept(source, owner=owner)
    _it_is(start + 100, monkeypatch)
    with pytest.raises(BusyError):
        intake.accept(source, owner="request-2/a")


def test_no_request_submits_an_array_that_batch_may_have_accepted(
    intake: Intake, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, start = upload(intake, SAMPLE), time.time()
    batch.refuses, batch.loses_replies = {0}, True  # the reply was lost, and the array is not listed yet
    with pytest.raises(SubmitFailedError):
        intake.accept(source, owner="request-1/a")
    batch.refuses = set()
    with pytest.raises(BusyError):
        intake.accept(source, owner="request-1/b")
    _it_is(start + 62, monkeypatch)
    batch.listed[submission_id(str(source.uri), source.version), 0] = "batch-job"
    assert intake.accept(source, owner="request-1/c")["batch_job"] == "batch-job"
    assert batch.submitted == []


@pytest.mark.parametrize("chunks_taken", [0, 1])
def test_batch_has_a_minute_to_list_an_array_after_a_lost_reply(
    intake: Intake, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch, chunks_taken: int
) -> None:
    monkeypatch.setattr("traingrid.submission.files.MAX_ARRAY", 2)
    source, start = upload(intake, SAMPLE), time.time()
    submit = batch.submit

    def late(*arguments: Any, **more: Any) -> str:
        _it_is(start + 58, monkeypatch)
        return submit(*arguments, **more)

    batch.refuses, batch.loses_replies = {chunks_taken}, True
    with monkeypatch.context() as patch:
        patch.setattr(batch, "submit", late)
        with pytest.raises(SubmitFailedError):
            intake.accept(source, owner="request-1/a")
    batch.refuses = set()
    for seconds in (62, 116):
        _it_is(start + seconds, monkeypatch)
        with pytest.raises(BusyError):
            intake.accept(source, owner="request-1/b")
    _it_is(start + 58 + 60, monkeypatch)  # which is when Lambda tries it again
    intake.accept(source, owner="request-1/c")
    assert [array.count for array in batch.submitted] == [2, 2]


def test_an_unanswered_claim_is_not_waited_for(intake: Intake, batch: RecordingQueue) -> None:
    claim, source = intake.ledger.claim_submission, upload(intake, SAMPLE)

    def unanswered(*arguments: Any) -> Any:
        claim(*arguments)
        raise EndpointConnectionError(endpoint_url="dynamodb")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intake.ledger, "claim_submission", unanswered)
        with pytest.raises(EndpointConnectionError):
            intake.accept(source, owner="request-1/a")
    intake.accept(source, owner="request-1/b")
    assert len(batch.submitted) == 1


def _it_is(moment: float, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_time(monkeypatch, "traingrid.submission.intake", time=lambda: moment)


def _killed(*_: Any, **__: Any) -> str:
    raise KilledError


def test_two_manifests_whose_ids_collide_are_two_submissions(
    intake: Intake, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "traingrid.submission.intake.submission_id", lambda *identity: "00000000" if len(identity) == 2 else "00000001"
    )
    intake.accept(upload(intake, SAMPLE, "manifests/a.csv"), owner="request-1")
    intake.accept(upload(intake, SAMPLE, "manifests/b.csv"), owner="request-2")
    assert [array.submission for array in batch.submitted] == ["00000000", "00000001"]


def event(key: str, version: str | None = "v1") -> dict[str, Any]:
    detail: dict[str, Any] = {"bucket": {"name": "bucket"}, "object": {"key": key}}
    if version:
        detail["object"]["version-id"] = version
    return {"detail": detail}


KEYS = [
    "my file+1 %41.csv",
    "a?versionId=x.csv",
    "a#b.jsonl",
    "日本.csv",
    "..csv",
    "a//b.csv",
    "=1+1.csv",
    "%2e%2e/x.csv",
]


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_decoded_exactly(intake: Intake, name: str) -> None:
    source = ManifestVersion.from_event(event(f"manifests/{name}"))
    assert source is not None
    assert source.uri.key == f"manifests/{name}"
    uploaded = upload(intake, SAMPLE, source.uri.key)
    assert intake.accept(uploaded, owner="request-1")["state"] == "submitted"
    assert report_of(intake, uploaded)["manifest"] == f"s3://{intake.deployment.manifest_bucket}/manifests/{name}"


def test_a_key_with_control_characters_reaches_no_report_raw(intake: Intake) -> None:
    source = upload(intake, SAMPLE, "manifests/a\x1b[2J\u202evsc.exe")
    report = intake.accept(source, owner="request-1")
    assert report["state"] == "submitted"
    assert report["manifest"].endswith("/manifests/a\\x1b[2J\\u202evsc.exe")


def test_a_too_large_size_in_an_event_is_refused_without_reading() -> None:
    received = event("manifests/x.csv")
    received["detail"]["object"]["size"] = 10**9
    source = ManifestVersion.from_event(received)
    assert source is not None
    assert source.size == 10**9


@pytest.mark.parametrize(
    ("time", "uploaded_at"),
    [
        ("2026-11-01T09:00:00Z", "2026-11-01T09:00:00Z"),
        ("2026-11-01T09:00:00.123Z", ""),
        ("2026-11-01T09:00:00+00:00", ""),
        ("2199-01-01T00:00:00Z", ""),
        (["now"], ""),
    ],
)
def test_an_event_with_another_time_leaves_a_readable_item(intake: Intake, time: Any, uploaded_at: str) -> None:
    uploaded = upload(intake, SAMPLE)
    source = ManifestVersion.from_event(event(uploaded.uri.key, uploaded.version) | {"time": time})
    assert source is not None
    submission = intake.accept(replace(source, uri=uploaded.uri), owner="request-1")["submission"]
    item = intake.ledger.submission(submission)
    assert item is not None
    assert item.uploaded_at == uploaded_at


@pytest.mark.parametrize("key", ["manifests/", "manifests/x.csv.report.json"])
def test_folders_and_reports_are_not_manifests(key: str) -> None:
    assert ManifestVersion.from_event(event(key)) is None


def test_a_bucket_without_versions_is_refused() -> None:
    with pytest.raises(UsageError, match="is not versioned"):
        ManifestVersion.from_event(event("manifests/x.csv", version=None))
