"""Pipe mode end to end: from a manifest field to ranks that read FIFOs, with both values of `streams`."""

import io
import json
import tarfile
from typing import Any

import pytest

import traingrid as tg
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.submissions import DIGITS, ended, submit
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.audit.audit import audit
from traingrid.audit.read_snapshot import read_world
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.submission.status import SubmissionStatus

REGION = "us-east-1"
RANKS, EPOCHS = 2, 2
SCRIPT = """\
for epoch in 1 2 3; do
    echo "Epoch $epoch/3: accuracy is 0.$epoch, loss is nan"
done
"""


def script_archive(plane: ControlPlane) -> str:
    """Upload a script that only prints, and return the URI of its archive."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        member = tarfile.TarInfo("train.sh")
        member.size = len(SCRIPT)
        archive.addfile(member, io.BytesIO(SCRIPT.encode()))
    bucket = names.data_bucket("traingrid", plane.deployment.account, REGION)
    client("s3", REGION).put_object(Bucket=bucket, Key="source/printing.tar.gz", Body=content.getvalue())
    return f"s3://{bucket}/source/printing.tar.gz"


@pytest.fixture(scope="module")
def trained(plane: ControlPlane) -> SubmissionStatus:
    """Train lines with one stream per host, with one per rank, and with more ranks than objects; and a script."""
    data = {"region": REGION, "s3_uri": str(upload_folder(plane.deployment, DIGITS / "campaign-1", REGION))}
    piped = data | {"input_mode": "Pipe", "hyperparameters": {"batch_size": 32, "epochs": EPOCHS}}
    rows: list[dict[str, Any]] = [
        piped | {"streams": streams, "processes_per_host": ranks}
        for streams, ranks in (("host", 2), ("rank", 2), ("rank", 5))
    ]
    script = {
        "source": script_archive(plane),
        "entry_point": "train.sh",
        "metrics": {"accuracy": r"accuracy is ([0-9.]+)"},
    }
    rows.append(data | script)
    report = submit(plane, "pipe.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    assert report["state"] == "submitted", report
    return ended(plane, report["submission"])


def described(name: str) -> dict[str, Any]:
    found: dict[str, Any] = client("sagemaker", REGION).describe_training_job(TrainingJobName=name)
    return found


def test_both_kinds_of_streams_train_on_all_ranks(trained: SubmissionStatus) -> None:
    for job in trained.jobs[:2]:
        assert job.state == "Completed", job.reason
        assert job.metrics["ranks"] == RANKS
        assert 0 < job.metrics["validation_top1"] <= 1


def test_the_training_job_has_a_channel_per_host_or_per_rank(trained: SubmissionStatus) -> None:
    of_host, of_rank = (described(job.training_job)["InputDataConfig"] for job in trained.jobs[:2])
    assert [channel["ChannelName"] for channel in of_host] == ["train", "validation"]
    assert [channel["ChannelName"] for channel in of_rank] == ["train_0", "train_1", "validation_0", "validation_1"]
    assert {channel["InputMode"] for channel in (*of_host, *of_rank)} == {"Pipe"}


def test_each_object_is_assigned_to_exactly_one_rank(trained: SubmissionStatus, plane: ControlPlane) -> None:
    shares = []
    for channel in described(trained.jobs[1].training_job)["InputDataConfig"][:RANKS]:
        uri = S3Uri.parse(channel["DataSource"]["S3DataSource"]["S3Uri"])
        body = client("s3", REGION).get_object(Bucket=uri.bucket, Key=uri.key)["Body"].read()
        shares.append(json.loads(body)[1:])
    assert sorted(name for share in shares for name in share) == sorted(
        path.name for path in (DIGITS / "campaign-1/train").iterdir()
    )


def test_a_line_with_more_ranks_than_objects_fails_with_a_remedy_and_does_not_train(
    trained: SubmissionStatus, cloud: LocalCloud, plane: ControlPlane
) -> None:
    line = trained.jobs[2]
    assert line.state == "Failed"
    assert "has 4 objects" in line.reason
    assert "streams host" in line.reason
    entries = cloud.record.entries("sagemaker", "CreateTrainingJob")
    assert sum(f"-{trained.submission}-" in entry["parameters"]["TrainingJobName"] for entry in entries) == 3
    children = list(plane.batch.children(trained.batch_job, 4))
    assert [child["container"]["exitCode"] for child in children] == [0, 0, 2, 0]


def test_tensorboard_data_is_stored_next_to_the_model(trained: SubmissionStatus) -> None:
    for job in trained.jobs[:2]:
        place = S3Uri.parse(described(job.training_job)["Environment"]["TRAINGRID_TENSORBOARD"])
        assert job.artifact.startswith(str(place).removesuffix("tensorboard"))
        listed = client("s3", REGION).list_objects_v2(Bucket=place.bucket, Prefix=f"{place.key}/")
        assert any("tfevents" in entry["Key"] for entry in listed.get("Contents", []))


def test_the_metric_history_has_every_epoch_of_the_trainer_and_of_a_script(
    trained: SubmissionStatus, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traingrid.metrics.table.find_spec", lambda _: None)
    points = tg.Submission(tg.Grid(plane), trained.submission).metrics()
    for job in trained.jobs[:2]:
        found = {(point.metric, point.epoch) for point in points if point.index == job.index}
        assert found >= {(metric, epoch) for metric in job.metrics for epoch in range(1, EPOCHS + 1)}
        assert job.metrics.keys() >= {"train_loss", "validation_top1"}
    of_script = [point for point in points if point.index == 3 and not point.metric.startswith("host_")]
    assert [(point.metric, point.epoch, point.value) for point in of_script] == [
        ("accuracy", 1, 0.1),
        ("accuracy", 2, 0.2),
        ("accuracy", 3, 0.3),
    ]
    listed = client("s3", REGION).list_objects_v2(
        Bucket=names.output_bucket("traingrid", plane.deployment.account, REGION),
        Prefix=f"{trained.submission}/3/metrics/",
    )
    parts = [entry["Key"].rpartition("-")[2] for entry in listed["Contents"]]
    assert parts in (["000001.jsonl"], ["000001.jsonl", "000002.jsonl"])  # the first value, and the rest at the end


def test_the_audit_finds_no_violations(trained: SubmissionStatus, plane: ControlPlane, cloud: LocalCloud) -> None:
    calls = cloud.record.entries()
    world = read_world(plane.deployment, submission=trained.submission, details=True, at_rest=True, calls=calls)
    assert [str(violation) for violation in audit(world)] == []
