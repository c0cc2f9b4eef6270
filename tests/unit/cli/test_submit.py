"""Submitting: `traingrid submit` uploads a manifest once, and explains the possible results of an error."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from tests.support.module_time import replace_time
from tests.support.sample_deployment import SAMPLE
from traingrid import names
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli import main, submit
from traingrid.grid.deployment import Deployment
from traingrid.submission.files import submission_id
from traingrid.submission.intake import ANSWERED_WITHIN, WITHIN_SECONDS

THROTTLED = ClientError({"Error": {"Code": "SlowDown", "Message": "slower"}}, "ListObjectVersions")
DENIED = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ListObjectVersions")
LOST = ReadTimeoutError(endpoint_url="https://s3.us-east-1.amazonaws.com")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that advances only while the command sleeps."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    replace_time(monkeypatch, "traingrid.api.submit", monotonic=lambda: now[0], sleep=sleep)
    return now


@pytest.fixture
def manifest(tmp_path: Path, deployment: Deployment, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(submit, "find_deployment", lambda _grid: deployment)
    (tmp_path / "x.csv").write_text(SAMPLE)
    return tmp_path / "x.csv"


def run(monkeypatch: pytest.MonkeyPatch, manifest: Path) -> int:
    monkeypatch.setattr(sys, "argv", ["traingrid", "submit", str(manifest)])
    try:
        main.main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def versions(deployment: Deployment, storage: Storage) -> list[str]:
    listed = storage._s3.list_object_versions(Bucket=deployment.manifest_bucket, Prefix="manifests/x.csv")
    return [version["VersionId"] for version in listed.get("Versions", [])]


def polls(monkeypatch: pytest.MonkeyPatch, *answers: Exception | type[BaseException] | None) -> None:
    """Let the reads of the report return these answers in turn, and then the real report."""
    coming, look = iter(answers), Storage.read_versions

    def read(self: Storage, uri: S3Uri, most: int) -> Iterator[bytes]:
        answer = next(coming, None)
        if answer is not None:
            raise answer
        return look(self, uri, most)

    monkeypatch.setattr(Storage, "read_versions", read)


def test_submit_waits_as_long_as_lambda_may_retry() -> None:
    tries = 3
    assert tries * WITHIN_SECONDS + 60 + 120 <= ANSWERED_WITHIN


def test_a_missing_report_warns_against_submitting_again(
    *,
    manifest: Path,
    deployment: Deployment,
    storage: Storage,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    clock: list[float],
) -> None:
    assert run(monkeypatch, manifest) == 1
    assert clock[0] >= ANSWERED_WITHIN
    (version,) = versions(deployment, storage)
    submission = submission_id(f"s3://{deployment.manifest_bucket}/manifests/x.csv", version)
    output = capsys.readouterr()
    assert f"(version {version}) as submission {submission}\n" in output.out
    assert "Track it with" not in output.out, "nothing has accepted it"
    assert f"Submission {submission} may continue: do not submit the manifest again." in output.err
    assert f"traingrid status {submission}" in output.err
    assert f"traingrid cancel {submission}" in output.err
    assert "dead-letter queue" in output.err


@pytest.mark.parametrize(("error", "code"), [(DENIED, 1), (KeyboardInterrupt, 130)])
def test_an_error_after_the_upload_warns_of_a_possible_submission(
    manifest: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Any,
    code: int,
) -> None:
    polls(monkeypatch, error)
    assert run(monkeypatch, manifest) == code
    output = capsys.readouterr().err
    assert "do not submit the manifest again" in output
    assert "traingrid cancel " in output
    assert "Check the credentials" not in output


def test_a_failed_read_of_the_report_is_retried(
    manifest: Path,
    deployment: Deployment,
    storage: Storage,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_new = Storage.write_new

    def answered(self: Storage, uri: S3Uri, content: bytes, content_type: str) -> str:
        version = write_new(self, uri, content, content_type)
        report = {"version": version, "state": "submitted", "submission": "0123abcd", "jobs": 4, "batch_job": "array"}
        storage.write_json(S3Uri(uri.bucket, uri.key + names.REPORT_SUFFIX), report)
        return version

    monkeypatch.setattr(Storage, "write_new", answered)
    polls(monkeypatch, THROTTLED, LOST)
    assert run(monkeypatch, manifest) == 0
    assert "submission 0123abcd: 4 jobs, Batch job array" in capsys.readouterr().out


@pytest.mark.parametrize(("error", "reason"), [(KeyboardInterrupt, "Interrupted."), (LOST, "AWS request failed:")])
def test_an_unanswered_upload_may_have_reached_s3(
    manifest: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Any, reason: str
) -> None:
    def lost(*_: object) -> str:
        raise error

    monkeypatch.setattr(Storage, "write_new", lost)
    assert run(monkeypatch, manifest) in (1, 130)
    found = capsys.readouterr().err
    assert reason in found
    assert "S3 may have accepted the manifest: check `traingrid status` before you submit it again." in found


def test_an_upload_that_s3_refuses_has_not_reached_it(
    manifest: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object) -> str:
        raise DENIED

    monkeypatch.setattr(Storage, "write_new", refused)
    assert run(monkeypatch, manifest) == 1
    assert "may have taken it" not in capsys.readouterr().err
