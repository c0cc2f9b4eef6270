"""Manifests submitted in the console of AWS Batch and with the command line, and one that is rejected."""

import json
import re
import subprocess
import sys
from pathlib import Path

from localcloud.server.local_cloud import LocalCloud
from tests.e2e.submissions import DIGITS, REGIONS, submit, table, until
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.audit.audit import audit
from traingrid.audit.read_snapshot import read_world
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.submission.files import submission_id
from traingrid.submission.status import SubmissionStatus


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
