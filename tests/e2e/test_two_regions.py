"""End to end without stubs: a manifest in S3, an array job, a Horovod training in each Region, and the ledger.

Tests whose subject is not the training submit a small program, which trains in the same image.
"""

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import traingrid as tg
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.small_program import uploaded_program
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.api.submit import wait_for_report
from traingrid.audit.audit import audit
from traingrid.audit.read_snapshot import read_world
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.datasets import register
from traingrid.cli.main import cli
from traingrid.errors import UsageError
from traingrid.ledger.datasets import Datasets
from traingrid.ledger.moves import Moves
from traingrid.submission.files import submission_id
from traingrid.submission.status import SubmissionStatus
from verification import deployed_grid

DIGITS = Path(__file__).resolve().parents[2] / "build/digits"
REGIONS = ("us-east-1", "eu-west-1")
PATIENCE_SECONDS = 240


def submit(plane: ControlPlane, key: str, content: str) -> dict[str, Any]:
    uri = S3Uri(plane.deployment.manifest_bucket, f"{names.MANIFEST_PREFIX}{key}")
    version = plane.storage.write(uri, content.encode(), "text/csv")
    return wait_for_report(plane.storage, uri, version)


def until(reached: Callable[[], bool]) -> None:
    deployed_grid.until(reached, "the test continues", PATIENCE_SECONDS)


def ended(plane: ControlPlane, submission: str) -> SubmissionStatus:
    until(lambda: plane.status(submission).ended)
    return plane.status(submission)


@pytest.fixture(scope="module")
def lines(plane: ControlPlane) -> list[str]:
    """Return one manifest line per Region, after uploading its data."""
    return [
        f"{region},{upload_folder(plane.deployment, DIGITS / f'campaign-{number}', region)}\n"
        for number, region in enumerate(REGIONS, start=1)
    ]


def table(*rows: dict[str, str]) -> str:
    """Return a manifest in the form CSV, with a header."""
    written = io.StringIO()
    writer = csv.DictWriter(written, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


@pytest.fixture(scope="module")
def small(plane: ControlPlane, lines: list[str]) -> list[dict[str, str]]:
    """Return the fields of one line per Region that trains a small program on the same data as `lines`."""
    places = [line.strip().split(",") for line in lines]
    return [{"region": region, "s3_uri": uri, **uploaded_program(plane, region)} for region, uri in places]


@pytest.fixture(scope="module")
def trained(plane: ControlPlane, lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> SubmissionStatus:
    """Train a manifest with two valid lines, and a last one whose data is not TFRecord."""
    bucket = names.data_bucket("traingrid", plane.deployment.account, "us-east-1")
    for channel in ("train", "validation"):
        plane.storage.write(S3Uri(bucket, f"broken/{channel}/a.tfrecord"), b"not a record" * 100, "application/x")
    manifest = tmp_path_factory.mktemp("manifests") / "my digits+1.csv"
    manifest.write_text("".join([*lines, f"us-east-1,s3://{bucket}/broken\n"]))
    return tg.Grid(plane).submit(manifest).wait(timeout=PATIENCE_SECONDS, poll=0.5)


def test_each_line_trains_in_its_own_region(trained: SubmissionStatus) -> None:
    good = trained.jobs[:2]
    assert [(job.region, job.state) for job in good] == [(region, "Completed") for region in REGIONS]
    for job in good:
        assert job.metrics["ranks"] == 1
        assert job.metrics["epoch"] == 1
        assert 0 < job.metrics["validation_top1"] <= 1


def test_models_are_stored_in_the_region_that_trained_them_and_downloaded(
    trained: SubmissionStatus, plane: ControlPlane, tmp_path: Path
) -> None:
    for job in trained.jobs[:2]:
        assert job.artifact.startswith(f"s3://traingrid-output-123456789012-{job.region}/{trained.submission}/")
        (folder,) = tg.Submission(tg.Grid(plane), trained.submission).download(tmp_path, job.index)
        assert folder == tmp_path / f"{trained.submission}-{job.index}"
        assert list(folder.rglob("saved_model.pb")) != []


def test_a_failed_training_records_its_reason_and_other_lines_complete(
    trained: SubmissionStatus, plane: ControlPlane
) -> None:
    broken = trained.jobs[2]
    assert broken.state == "Failed"
    assert broken.reason.startswith("AlgorithmError")
    assert trained.batch_state == "FAILED"
    children = list(plane.batch.children(trained.batch_job, 3))
    assert [child["status"] for child in children] == ["SUCCEEDED", "SUCCEEDED", "FAILED"]
    assert children[2]["container"]["exitCode"] == 1
    assert len(children[2]["attempts"]) == 1


def test_a_boto3_client_can_read_children_training_jobs_and_logs(
    trained: SubmissionStatus, plane: ControlPlane
) -> None:
    for index, job in enumerate(trained.jobs[:2]):
        described = client("sagemaker", job.region).describe_training_job(TrainingJobName=job.training_job)
        assert described["TrainingJobStatus"] == "Completed"
        child = list(plane.batch.children(trained.batch_job, 3))[index]
        group = child["container"]["logConfiguration"]["options"]["awslogs-group"]
        stream = child["container"]["logStreamName"]
        events = client("logs", "us-east-1").get_log_events(logGroupName=group, logStreamName=stream)["events"]
        messages = [event["message"] for event in events]
        assert any("validation_top1=" in line for line in messages)
        assert any(f"{job.training_job}: Completed" in line for line in messages)


def test_one_training_job_was_created_for_each_line(trained: SubmissionStatus, cloud: LocalCloud) -> None:
    created = [
        entry["parameters"]["TrainingJobName"]
        for entry in cloud.record.entries()
        if entry["action"] == "CreateTrainingJob" and trained.submission in json.dumps(entry["parameters"])
    ]
    assert sorted(created) == sorted(job.training_job for job in trained.jobs)


def test_the_reconciler_makes_no_changes_and_the_audit_finds_no_violations(
    trained: SubmissionStatus, plane: ControlPlane, cloud: LocalCloud
) -> None:
    home = plane.deployment.grid.home
    stack = client("cloudformation", home).describe_stacks(StackName="traingrid-control")["Stacks"][0]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    reply = client("lambda", home).invoke(
        FunctionName=outputs["ReconcileFunction"], Payload=json.dumps({"grace_seconds": 0}).encode()
    )
    done = json.loads(reply["Payload"].read())
    assert "FunctionError" not in reply, done
    nothing: dict[str, Any] = {"recorded": [], "closed": [], "stopped": [], "over_budget": [], "unreachable": {}}
    nothing |= {"left": 0, "lines": {}, "running": 0, "notified": [], "unsent": {}, "released": []}
    assert done == nothing
    world = read_world(
        plane.deployment,
        submission=trained.submission,
        details=True,
        at_rest=True,
        calls=cloud.record.entries(),
    )
    assert [str(violation) for violation in audit(world)] == []


def test_a_retried_child_attaches_to_the_training_job(
    trained: SubmissionStatus, plane: ControlPlane, cloud: LocalCloud
) -> None:
    before = len([entry for entry in cloud.record.entries() if entry["action"] == "CreateTrainingJob"])
    jobs = f"s3://{plane.deployment.manifest_bucket}/submissions/{trained.submission}/jobs.jsonl"
    by_hand = client("batch", "us-east-1").submit_job(
        jobName="by-hand",
        jobQueue=plane.deployment.job_queue,
        jobDefinition=plane.deployment.job_definition,
        containerOverrides={"environment": [{"name": "S3_ARRAY_FILE", "value": jobs}]},
    )["jobId"]
    until(lambda: (plane.batch.describe(by_hand) or {})["status"] in ("SUCCEEDED", "FAILED"))
    described = plane.batch.describe(by_hand)
    assert described is not None
    assert described["status"] == "SUCCEEDED"
    after = len([entry for entry in cloud.record.entries() if entry["action"] == "CreateTrainingJob"])
    assert after == before


def test_a_manifest_submitted_in_the_batch_console_trains_every_line_once(
    plane: ControlPlane, cloud: LocalCloud, small: list[dict[str, str]]
) -> None:
    def recorded(action: str) -> int:
        return len([entry for entry in cloud.record.entries() if entry["action"] == action])

    submitted, created = recorded("SubmitJob"), recorded("CreateTrainingJob")
    uri = S3Uri(plane.deployment.manifest_bucket, f"{names.BY_HAND_PREFIX}digits.csv")
    plane.storage.write(uri, table(*small).encode(), "text/csv")
    array = client("batch", "us-east-1").submit_job(
        jobName="digits",
        jobQueue=plane.deployment.job_queue,
        jobDefinition=plane.deployment.job_definition,
        arrayProperties={"size": len(small)},
        containerOverrides={"environment": [{"name": "S3_ARRAY_FILE", "value": str(uri)}]},
    )["jobId"]
    until(lambda: (plane.batch.describe(array) or {})["status"] in ("SUCCEEDED", "FAILED"))
    seen = plane.status(submission_id(array))
    assert [(job.region, job.state) for job in seen.jobs] == [(region, "Completed") for region in REGIONS]
    assert (recorded("SubmitJob") - submitted, recorded("CreateTrainingJob") - created) == (1, len(small))
    world = read_world(
        plane.deployment, submission=seen.submission, details=True, at_rest=True, calls=cloud.record.entries()
    )
    assert [str(violation) for violation in audit(world)] == []


def test_uploading_data_starts_training_once(plane: ControlPlane, cloud: LocalCloud, tmp_path: Path) -> None:
    """Data registers itself, a rule submits it, and the catalog has its accuracy."""
    uploaded_program(plane, "eu-west-1")

    def traingrid(*arguments: str) -> str:
        ended = CliRunner().invoke(cli, ["--grid", str(cloud.data_dir / "grid.yaml"), *arguments])
        assert ended.exit_code == 0, (ended.output, ended.exception)
        return ended.output

    data = str(DIGITS / "campaign-2")
    database = f"sqlite:///{tmp_path / 'catalog.db'}"
    output = traingrid("upload", data, "eu-west-1", "--name", "day2", "--version", "1", "--campaign", "digits")
    manifest = re.findall(r"the rule night wrote (s3://\S+)", output)[0]
    (version,) = client("s3", "us-east-1").list_object_versions(
        Bucket=plane.deployment.manifest_bucket, Prefix=S3Uri.parse(manifest).key
    )["Versions"][:1]
    submission = submission_id(manifest, version["VersionId"])
    until(lambda: plane.ledger.submission(submission) is not None)
    (job,) = ended(plane, submission).jobs
    assert (job.name, job.region, job.state) == ("day2", "eu-west-1", "Completed")

    again = traingrid("upload", data, "us-east-1", "--name", "day2", "--version", "1", "--campaign", "digits")
    assert "registered day2, version 1, in us-east-1" in again
    assert [row["region"] for row in csv.DictReader(io.StringIO(traingrid("datasets", "--output", "csv")))] == [
        "eu-west-1",
        "us-east-1",
    ]
    versions = client("s3", "us-east-1").list_object_versions(
        Bucket=plane.deployment.manifest_bucket, Prefix=f"{names.GENERATED_PREFIX}"
    )["Versions"]
    assert [found["Key"].endswith(".report.json") for found in versions] == [False, True]

    traingrid("catalog", "init", "--catalog", database)
    assert "2 new replicas" in traingrid("catalog", "sync", "--catalog", database)
    query = "SELECT campaign, top1 FROM runs WHERE dataset = 'day2'"
    (row,) = csv.DictReader(io.StringIO(traingrid("catalog", "sql", query, "--output", "csv", "--catalog", database)))
    assert row["campaign"] == "digits"
    assert float(row["top1"]) == pytest.approx(job.metrics["validation_top1"])


def contents(folder: S3Uri, region: str) -> dict[str, bytes]:
    """Return the objects of a folder by name."""
    s3 = client("s3", region)
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket=folder.bucket, Prefix=f"{folder.key}/")["Contents"]]
    return {key.removeprefix(folder.key): s3.get_object(Bucket=folder.bucket, Key=key)["Body"].read() for key in keys}


def test_data_is_copied_to_the_region_that_trains_it_and_registered_there(
    plane: ControlPlane, cloud: LocalCloud
) -> None:
    here, there = REGIONS
    upload = ["--grid", str(cloud.data_dir / "grid.yaml"), "upload", str(DIGITS / "campaign-1"), here]
    named = ["--name", "day3", "--version", "1", "--campaign", "other"]
    uploaded = CliRunner().invoke(cli, [*upload, *named])
    assert uploaded.exit_code == 0, (uploaded.output, uploaded.exception)
    datasets = Datasets(plane.deployment.table)
    registered = datasets.find("day3", "1")
    assert registered is not None
    source = registered.replicas[here].uri
    target = f"s3://{names.data_bucket('traingrid', plane.deployment.account, there)}/copies/day3"
    line = {"region": there, "s3_uri": target, "copy_from": source, **uploaded_program(plane, there)}
    report = submit(plane, "copied.csv", table(line))
    (job,) = ended(plane, report["submission"]).jobs
    assert (job.region, job.state, job.reason) == (there, "Completed", "")
    model = S3Uri.parse(job.artifact)
    assert client("s3", there).head_object(Bucket=model.bucket, Key=model.key)["ContentLength"]
    copy, original = contents(S3Uri.parse(target), there), contents(S3Uri.parse(source), here)
    assert copy == original
    move = Moves(plane.deployment.table).find(target)
    assert move is not None
    assert (move.state, move.verified) == ("copied", {"checksum": len(original) - 1}), "the marker is no object"
    until(lambda: there in (datasets.find("day3", "1") or registered).replicas)


def test_a_marker_with_wrong_bytes_registers_nothing(plane: ControlPlane) -> None:
    bucket = names.data_bucket("traingrid", plane.deployment.account, "us-east-1")
    plane.storage.write(S3Uri(bucket, "wrong/train/a"), b"12345", "application/x")
    marker = b'{"dataset": "wrong", "version": "1", "bytes": 6, "objects": 1}'
    with pytest.raises(UsageError, match="has 1 object with 5 bytes, but its marker states 1 object with 6 bytes"):
        register(plane.deployment, "us-east-1", S3Uri(bucket, "wrong"), marker)
    assert Datasets(plane.deployment.table).find("wrong", "1") is None


def test_an_invalid_manifest_is_rejected_and_not_submitted(plane: ControlPlane, cloud: LocalCloud) -> None:
    report = submit(plane, "wrong.csv", "us-east-1,s3://nobody/x\nmars,s3://nobody/x\n")
    assert report["state"] == "rejected"
    assert [error["line"] for error in report["errors"]] == [1, 2]
    assert not [
        entry
        for entry in cloud.record.entries()
        if entry["action"] == "SubmitJob" and "wrong.csv" in json.dumps(entry["parameters"])
    ]


def test_the_command_line_submits_watches_and_downloads(
    plane: ControlPlane, cloud: LocalCloud, trained: SubmissionStatus, small: list[dict[str, str]], tmp_path: Path
) -> None:
    """A single line becomes a plain job. This is the only test of the installed command as a user runs it."""

    def traingrid(*arguments: str) -> str:
        command = [str(Path(sys.executable).with_name("traingrid")), "--grid", str(cloud.data_dir / "grid.yaml")]
        ended = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    (tmp_path / "single.csv").write_text(table(small[1]))
    output = traingrid("submit", "single.csv")
    submission = re.findall(r"submission (\w+)", output)[0]
    assert "Completed" in traingrid("status", submission, "--watch")
    assert "arrayProperties" not in (plane.batch.describe(plane.status(submission).batch_job) or {})
    assert "validation_top1=" in traingrid("logs", submission[:6], "--follow")
    assert traingrid("logs", submission, "--tail", "3").count("\n") == 3
    traingrid("tensorboard", trained.submission, "--once")
    assert list((tmp_path / "tensorboard").rglob("events.out.tfevents.*"))
    traingrid("download", submission, "--to", "model")
    (model,) = (tmp_path / "model").rglob("size.txt")
    channel = (DIGITS / "campaign-2/train").iterdir()
    assert model.read_text() == str(sum(file.stat().st_size for file in channel))
    assert submission in traingrid("status")
