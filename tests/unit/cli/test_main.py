"""Command line: prints results, and a sentence with an exit code for each error."""

import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.support.module_time import replace_time
from tests.support.sample_deployment import REGIONS
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.api.submit import raise_unless_submitted, wait_for_report
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli import audit, data, main
from traingrid.errors import TraingridError, UsageError
from traingrid.grid.deployment import Deployment
from traingrid.job.state import JobState
from traingrid.ledger.facts import SubmissionFacts
from traingrid.ledger.ledger import Ledger
from traingrid.manifest.parse import parse
from traingrid.submission.overview import SubmissionOverview
from traingrid.submission.status import JobStatus, SubmissionStatus

GRID = Path(__file__).resolve().parents[3] / "grid.yaml"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command in this process and return its exit status."""
    monkeypatch.setattr(sys, "argv", ["traingrid", *arguments])
    try:
        main.main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.fixture
def bucket(aws: None, deployment: Deployment) -> str:
    name = names.data_bucket(deployment.grid.name, deployment.account, "us-east-1")
    boto3.client("s3").create_bucket(Bucket=name)
    return name


def keys(bucket: str) -> list[str]:
    return [item["Key"] for item in boto3.client("s3").list_objects_v2(Bucket=bucket).get("Contents", [])]


@pytest.mark.parametrize("text", [None, "name: [", "nmae: x\n", "name: 2026-02-30\n"])
def test_a_missing_or_invalid_grid_file_is_reported_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    file = tmp_path / "grid.yaml"
    if text is not None:
        file.write_text(text)
    assert run(monkeypatch, "--grid", str(file), "status") == 2
    assert capsys.readouterr().err.startswith(f"Error: {file}")


def test_the_grid_file_can_be_named_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name makes commands read the same file as `cdk`, from every folder."""
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "status") == 2
    error = "Error: grid.yaml: No such file or directory. Name the grid's file: traingrid --grid FILE, cdk -c grid=FILE"
    assert capsys.readouterr().err.startswith(error)
    monkeypatch.setenv("TRAINGRID_GRID_FILE", "mine.yaml")
    assert run(monkeypatch, "status") == 2
    assert capsys.readouterr().err.startswith("Error: mine.yaml: No such file")
    assert run(monkeypatch, "--grid", "other.yaml", "status") == 2
    assert capsys.readouterr().err.startswith("Error: other.yaml: No such file")


@pytest.mark.parametrize(
    ("code", "status", "step"),
    [
        ("InsufficientStorage", 507, "Correct the cause that AWS names"),
        ("ValidationException", 400, "Correct the cause that AWS names"),
        ("ExpiredToken", 400, "Check the credentials"),
        ("AccessDenied", 403, "Check the credentials"),
        ("InvalidAccessKeyId", 403, "Check the credentials"),
    ],
)
def test_only_an_error_about_credentials_advises_to_check_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: str, status: int, step: str
) -> None:
    response: Any = {"Error": {"Code": code, "Message": "no."}, "ResponseMetadata": {"HTTPStatusCode": status}}

    def refused(*_: object) -> None:
        raise ClientError(response, "PutObject")

    monkeypatch.setattr(main, "_run", refused)
    assert run(monkeypatch, "status") == 1
    assert f"\n{step}" in capsys.readouterr().err


def test_an_address_that_is_none_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], aws: None
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "garbage")
    assert run(monkeypatch, "--grid", str(GRID), "status") == 1
    assert capsys.readouterr().err == (
        "Error: The address of AWS is not valid: Invalid endpoint: garbage.\nCorrect AWS_ENDPOINT_URL.\n"
    )


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"AWS_PROFILE": "bogus"}, "The config profile (bogus) could not be found."),
        ({"AWS_RETRY_MODE": "bogus"}, "Could not connect to the endpoint"),
        ({"AWS_MAX_ATTEMPTS": "bogus"}, "Could not connect to the endpoint"),
        ({"AWS_MAX_ATTEMPTS": "-1"}, "Could not connect to the endpoint"),
    ],
)
def test_bogus_settings_of_the_sdk_are_an_error_or_have_no_effect(
    tmp_path: Path, variables: dict[str, str], reason: str
) -> None:
    """The number and kind of attempts are traingrid's own, so these variables do not matter."""
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    environment = {"PATH": "/usr/bin", "HOME": str(tmp_path), "PYTHONPATH": str(GRID.parent), **keys, **variables}
    program = "from traingrid.cli.main import main; main()"
    command = [sys.executable, "-c", program, "--grid", str(GRID), "status"]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    first, *steps = ended.stderr.splitlines()
    assert first.startswith("Error: ")
    assert reason in first
    assert len(steps) == 1, ended.stderr


def test_missing_credentials_are_reported_with_the_next_step(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin", "HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}
    program = "from traingrid.cli.main import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, "--grid", str(GRID), "status"],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(GRID.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    reason, next_step = ended.stderr.splitlines()
    assert reason == "Error: AWS in us-east-1 cannot be called: Unable to locate credentials."
    assert next_step.startswith("Set AWS credentials as for the AWS CLI")


def test_a_manifest_with_a_reports_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.csv.report.json").write_text("{}")
    assert run(monkeypatch, "submit", str(tmp_path / "x.csv.report.json")) == 2
    assert "has the suffix of the intake's reports" in capsys.readouterr().err


def test_a_report_is_found_among_those_of_the_same_name(deployment: Deployment, storage: Storage) -> None:
    uri = S3Uri(deployment.manifest_bucket, "manifests/x.csv")
    for version in ("ours", "theirs"):
        report: dict[str, Any] = {"version": version, "state": "rejected", "errors_in_total": 0, "errors": []}
        storage.write_json(S3Uri(uri.bucket, uri.key + names.REPORT_SUFFIX), report)
    assert [wait_for_report(storage, uri, version)["version"] for version in ("theirs", "ours")] == ["theirs", "ours"]


def test_submit_waits_for_retries_and_reports_the_last_reason(
    deployment: Deployment, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = S3Uri(deployment.manifest_bucket, "manifests/x.csv")
    where = S3Uri(uri.bucket, uri.key + names.REPORT_SUFFIX)
    known = {"version": "v", "jobs": 4, "submitted_jobs": 0, "submission": "0123abcd", "tries": 3}
    refused = {
        **known,
        "reason": "role intake is not allowed to perform batch:SubmitJob.",
        "next_step": "Ask the administrator.",
    }
    storage.write_json(where, {**refused, "state": "retrying"})

    def sleep(_: float) -> None:
        storage.write_json(where, {**refused, "state": "failed"})

    replace_time(monkeypatch, "traingrid.api.submit", sleep=sleep)
    report = wait_for_report(storage, uri, "v")
    assert report["state"] == "failed"
    with pytest.raises(
        TraingridError, match=r"0 of 4 jobs .* not allowed to perform batch:SubmitJob. Ask the administrator."
    ):
        raise_unless_submitted(Path("x.csv"), report)


def test_the_targets_of_links_are_uploaded(tmp_path: Path, bucket: str, deployment: Deployment) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "campaign"
    (elsewhere / "deep").mkdir(parents=True)
    (elsewhere / "deep" / "a.tfrecord").write_bytes(b"a")
    (folder / "validation").mkdir(parents=True)
    (folder / "train").symlink_to(elsewhere)
    (folder / "validation" / "b.tfrecord").symlink_to(elsewhere / "deep" / "a.tfrecord")
    (elsewhere / "back").symlink_to(folder)
    upload_folder(deployment, folder, "us-east-1")
    assert keys(bucket) == ["campaign/train/deep/a.tfrecord", "campaign/validation/b.tfrecord"]


def test_a_broken_link_is_reported_before_anything_is_uploaded(
    tmp_path: Path, bucket: str, deployment: Deployment
) -> None:
    (tmp_path / "a.tfrecord").write_bytes(b"a")
    (tmp_path / "b.tfrecord").symlink_to(tmp_path / "nothing")
    with pytest.raises(UsageError, match=r"b\.tfrecord is a broken link"):
        upload_folder(deployment, tmp_path, "us-east-1")
    assert keys(bucket) == []


def test_the_printed_manifest_line_is_valid_for_any_folder_name(
    tmp_path: Path,
    bucket: str,
    deployment: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / 'Lyon, "spring" 2026'
    folder.mkdir()
    (folder / "a").write_bytes(b"a")
    monkeypatch.setattr(data, "find_deployment", lambda _grid: deployment)
    assert run(monkeypatch, "upload", str(folder), REGIONS[0]) == 0
    printed = capsys.readouterr()
    assert printed.err == (
        "A line on this folder has the channel train from all files of the folder; no validation, because the folder "
        "has no data for it.\n"
    )
    (line,) = parse(printed.out.encode(), deployment)
    assert str(line.data) == f"s3://{bucket}/{folder.name}"
    assert run(monkeypatch, "upload", str(folder), REGIONS[0], "--name", "a//b") == 2


def test_a_refused_upload_is_reported_in_a_sentence(
    tmp_path: Path,
    aws: None,
    deployment: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "a").write_bytes(b"a")
    monkeypatch.setattr(data, "find_deployment", lambda _grid: deployment)
    assert run(monkeypatch, "upload", str(tmp_path), "us-east-1", "--name", "x") == 1
    assert "NoSuchBucket" in capsys.readouterr().err


def archive(name: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as members:
        member = tarfile.TarInfo(name)
        member.size = 2
        members.addfile(member, io.BytesIO(b"hi"))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (archive("report.json"), ""),
        (None, "There is no model in s3://"),
        (archive("../out.txt"), "cannot be unpacked"),
        (archive("report.json")[:30], "cannot be unpacked"),
        (b"no archive", "cannot be unpacked"),
    ],
    ids=["whole", "missing", "outside of the folder", "truncated", "no archive"],
)
def test_a_model_is_downloaded_or_the_reason_is_reported(
    *,
    tmp_path: Path,
    bucket: str,
    deployment: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: bytes | None,
    reason: str,
) -> None:
    if content is not None:
        boto3.client("s3").put_object(Bucket=bucket, Key="model.tar.gz", Body=content)
    job = JobStatus(
        index=0, region="us-east-1", name="x", state=JobState.STOPPED, artifact=f"s3://{bucket}/model.tar.gz"
    )

    nothing: Any = None
    plane = ControlPlane(deployment=deployment, ledger=nothing, batch=nothing, storage=nothing)
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: plane)
    monkeypatch.setattr(ControlPlane, "job", lambda *_: job)
    assert run(monkeypatch, "download", "0123abcd", "0", "--to", str(tmp_path / "model")) == bool(reason)
    assert reason in capsys.readouterr().err
    assert (tmp_path / "model" / "report.json").exists() != bool(reason)
    assert not (tmp_path / "out.txt").exists()


def test_a_manifest_of_any_key_can_be_listed(
    deployment: Deployment,
    ledger: Ledger,
    storage: Storage,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    facts: SubmissionFacts = {
        "jobs": 1,
        "manifest": f"s3://{deployment.manifest_bucket}/manifests//a/../[red]\x1b[2J.csv",
    }
    plane = ControlPlane(deployment=deployment, ledger=ledger, batch=None, storage=storage)  # type: ignore[arg-type]  # Batch is not called
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: plane)
    assert run(monkeypatch, "status", "--watch") == 2
    error = capsys.readouterr().err
    assert "This grid has no submission yet." in error
    assert f"or put it into s3://{deployment.manifest_bucket}/manifests/; other folders start nothing." in error
    ledger.claim_submission("0123abcd", "request-1", facts)
    assert run(monkeypatch, "status") == 0
    assert " /a/../[red]\\x1b[2J.csv" in capsys.readouterr().out


def test_a_large_submission_is_shown_as_an_overview_unless_all_jobs_are_requested(
    deployment: Deployment,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ledger.claim_submission("0123abcd", "request-1", {"jobs": 501, "manifest": "s3://bucket/manifests/x.csv"})
    plane = ControlPlane(deployment=deployment, ledger=ledger, batch=None, storage=None)  # type: ignore[arg-type]  # neither is called
    complete = SubmissionStatus(submission="0123abcd", manifest="", batch_job="b", batch_state="", jobs=[])
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: plane)
    monkeypatch.setattr(ControlPlane, "status", lambda _self, _submission: complete)
    assert run(monkeypatch, "status", "0123abcd") == 0
    overview = capsys.readouterr().out
    assert "501 jobs" in overview
    assert "traingrid status 0123abcd --all" in overview
    assert run(monkeypatch, "status", "0123abcd", "--all") == 0
    assert "501 jobs" not in capsys.readouterr().out


def test_watching_a_large_submission_prints_changed_numbers_until_all_jobs_have_ended(
    deployment: Deployment,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = [({JobState.IN_PROGRESS: 2}, 499), ({JobState.IN_PROGRESS: 2}, 499), ({JobState.COMPLETED: 501}, 0)]
    overviews = iter(
        SubmissionOverview(
            submission="0123abcd", manifest="", total=501, states={"us-east-1": states}, unopened=unopened,
            failures={}, running=[], failed=[], damaged=[],
        )
        for states, unopened in found
    )  # fmt: skip
    ledger.claim_submission("0123abcd", "request-1", {"jobs": 501, "manifest": "s3://bucket/manifests/x.csv"})
    plane = ControlPlane(deployment=deployment, ledger=ledger, batch=None, storage=None)  # type: ignore[arg-type]  # neither is called
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: plane)
    monkeypatch.setattr(ControlPlane, "overview", lambda _self, _submission: next(overviews))
    replace_time(monkeypatch, "traingrid.cli.status", sleep=lambda _seconds: None)
    assert run(monkeypatch, "status", "0123abcd", "--watch") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["2 InProgress, 499 Pending", "501 Completed", "submission 0123abcd: 501 jobs"]


_MISTYPED = [
    ("status", "00000000"),
    ("status", "--output", "json", "00000000"),
    ("logs", "00000000"),
    ("logs", "--child", "00000000"),
    ("logs", "0123abcd", "7"),
    ("describe", "00000000"),
    ("open", "0123abcd", "7"),
    ("download", "00000000"),
    ("download", "0123abcd", "7"),
    ("cancel", "00000000"),
    ("cancel", "0123abcd", "--index", "7"),
    ("retry", "00000000"),
    ("audit", "00000000"),
]


def test_a_mistyped_submission_or_index_is_a_usage_error(
    *,
    deployment: Deployment,
    ledger: Ledger,
    storage: Storage,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit code is 2, as for click's own usage errors."""
    ledger.claim_submission("0123abcd", "request-1", {"jobs": 1, "manifest": "s3://manifests/a.csv"})
    plane = ControlPlane(deployment=deployment, ledger=ledger, batch=None, storage=storage)  # type: ignore[arg-type]  # Batch is not called
    known = SubmissionStatus(
        submission="0123abcd",
        manifest="s3://manifests/a.csv",
        batch_job="",
        batch_state="",
        jobs=[JobStatus(index=0, region="us-east-1", name="a", state=JobState.FAILED)],
    )
    seen = ControlPlane.status
    monkeypatch.setattr(ControlPlane, "status", lambda self, of: known if of == "0123abcd" else seen(self, of))
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: plane)
    monkeypatch.setattr(audit, "read_world", lambda *_, **__: SimpleNamespace(submissions={}))
    for words in _MISTYPED:
        assert run(monkeypatch, *words) == 2, words
        assert re.search("There is no submission 00000000|has no job (of|with) index 7", capsys.readouterr().err), words


def test_a_shell_completes_commands_and_options() -> None:
    program = "import sys; from traingrid.cli.main import main; sys.argv = ['traingrid']; main()"
    for words, position, completed in (("traingrid stat", 1, "status"), ("traingrid logs --fol", 2, "--follow")):
        asked = {"_TRAINGRID_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)}
        environment = {"PATH": "/usr/bin", "PYTHONPATH": str(GRID.parent), **asked}
        command = [sys.executable, "-c", program]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert ended.stdout == f"plain,{completed}\n"
