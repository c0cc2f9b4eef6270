"""Data that is uploaded or copied registers itself, and an upload starts a training by a rule."""

import csv
import io
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from localcloud.server.local_cloud import LocalCloud
from tests.e2e.small_program import uploaded_program
from tests.e2e.submissions import DIGITS, REGIONS, ended, submit, table, until
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.datasets import register
from traingrid.cli.main import cli
from traingrid.errors import UsageError
from traingrid.ledger.datasets import Datasets
from traingrid.ledger.moves import Moves
from traingrid.submission.files import submission_id


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
    assert [found["Key"].endswith(".report.json") for found in versions] == [False, True, True]

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
