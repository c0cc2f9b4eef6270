"""Merges end to end: networks of two Regions are averaged and combined, and files of several hosts are joined.

Seven trainings and three merges, about two minutes on two cores.
"""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import traingrid as tg
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.small_program import uploaded_program
from tests.e2e.submissions import DIGITS, PATIENCE_SECONDS, ended, submit
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.main import cli
from traingrid.submission.status import JobStatus, SubmissionStatus

REGIONS = ("us-east-1", "us-east-1", "eu-west-1")
WRITE = 'mkdir -p "$SM_MODEL_DIR" && echo "$SM_CURRENT_HOST" >"$SM_MODEL_DIR/rows-$2-$SM_CURRENT_HOST.csv"\n'
"""A program that writes a file on each host."""


def run(cloud: LocalCloud, *arguments: str) -> Result:
    """Run `traingrid merge` as a user does."""
    return CliRunner().invoke(cli, ["--grid", str(Path(cloud.data_dir) / "grid.yaml"), "merge", *arguments])


@pytest.fixture(scope="module")
def trained(plane: ControlPlane) -> SubmissionStatus:
    """Train three networks from the same initial weights and one from others, and run a script on two hosts."""
    rows: list[dict[str, Any]] = []
    for number, region in enumerate(REGIONS, start=1):
        data = upload_folder(plane.deployment, DIGITS / f"campaign-{number}", region)
        rows.append({"region": region, "s3_uri": str(data), "hyperparameters": {"batch_size": 32, "epochs": 2}})
    rows.append(rows[0] | {"hyperparameters": {"batch_size": 32, "seed": 1}})
    program = uploaded_program(plane, "us-east-1", WRITE, "write.sh")
    rows += [
        {"region": "us-east-1", "s3_uri": rows[0]["s3_uri"], "instance_count": count, **program}
        | {"hyperparameters": {"job": str(count)}}
        for count in (2, 1)
    ]
    report = submit(plane, "parts.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    assert report["state"] == "submitted", report
    found = ended(plane, report["submission"])
    assert {job.state for job in found.jobs} == {"Completed"}, [job.reason for job in found.jobs]
    return found


def merged(cloud: LocalCloud, plane: ControlPlane, *arguments: str) -> tuple[str, JobStatus]:
    """Run a merge to its end, and return its submission and job."""
    result = run(cloud, *arguments)
    assert result.exit_code == 0, result.output
    submission = result.output.split()[-2]
    (job,) = tg.Grid(plane).submission(submission).wait(timeout=PATIENCE_SECONDS, poll=0.5).jobs
    return submission, job


def files(job: JobStatus) -> dict[str, bytes]:
    """Return the files of a job's model."""
    uri = S3Uri.parse(job.artifact)
    content = client("s3", job.region).get_object(Bucket=uri.bucket, Key=uri.key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {each.name: opened.read() for each in archive if (opened := archive.extractfile(each))}


def created(cloud: LocalCloud) -> set[str]:
    entries = cloud.record.entries("sagemaker", "CreateTrainingJob")
    return {entry["parameters"]["TrainingJobName"] for entry in entries}


def test_networks_of_two_regions_are_averaged_and_compared_with_each(
    trained: SubmissionStatus, cloud: LocalCloud, plane: ControlPlane
) -> None:
    before = created(cloud)
    plan = run(cloud, trained.submission, "0", "1", "2", "--plan")
    assert "One ml.m5.large in us-east-1 would merge 3 models." in plan.output
    assert created(cloud) == before
    submission, job = merged(cloud, plane, trained.submission, "0", "1", "2")
    assert job.state == "Completed", job.reason
    assert job.region == "us-east-1"
    assert {"validation_top1", "best_part_top1", "part_0_top1", "part_1_top1", "part_2_loss"} <= job.metrics.keys()
    report = json.loads(files(job)["report.json"])
    assert [part["index"] for part in report["merged_from"]] == [0, 1, 2]
    assert report["top1"] == pytest.approx(job.metrics["validation_top1"], abs=1e-5)
    assert "1/saved_model.pb" in files(job)
    again, _ = merged(cloud, plane, trained.submission, "0", "1", "2")
    assert again == submission
    assert len(created(cloud) - before) == 1


def test_a_job_begins_with_the_average(trained: SubmissionStatus, cloud: LocalCloud, plane: ControlPlane) -> None:
    average, _ = merged(cloud, plane, trained.submission, "0", "1", "2")
    data = upload_folder(plane.deployment, DIGITS / "campaign-1", "us-east-1")
    row = {"region": "us-east-1", "s3_uri": str(data), "init_from": f"{average}/0"}
    report = submit(plane, "began.jsonl", json.dumps(row | {"hyperparameters": {"batch_size": 32}}))
    assert report["state"] == "submitted", report
    (job,) = ended(plane, report["submission"]).jobs
    assert job.state == "Completed", job.reason
    grid = str(Path(cloud.data_dir) / "grid.yaml")
    log = CliRunner().invoke(cli, ["--grid", grid, "logs", report["submission"], "0"]).output
    assert "Beginning with the weights of the initial model, the average of 3 models." in log


def test_an_ensemble_is_exported_as_one_network(
    trained: SubmissionStatus, cloud: LocalCloud, plane: ControlPlane
) -> None:
    _, job = merged(cloud, plane, trained.submission, "0", "3", "--method", "ensemble")
    assert job.state == "Completed", job.reason
    assert 0 < job.metrics["validation_top1"] <= 1
    assert "1/saved_model.pb" in files(job)


def test_the_files_of_several_hosts_and_jobs_are_joined(
    trained: SubmissionStatus, cloud: LocalCloud, plane: ControlPlane
) -> None:
    _, job = merged(cloud, plane, trained.submission, "4", "5", "--method", "parts")
    assert job.state == "Completed", job.reason
    assert len([name for name in files(job) if name.startswith("rows-")]) == 3


def test_networks_with_other_initial_weights_are_rejected_before_any_cost(
    trained: SubmissionStatus, cloud: LocalCloud
) -> None:
    before = created(cloud)
    result = run(cloud, trained.submission, "0", "3")
    assert result.exception is not None
    assert "The hyperparameter seed of job 3 is 1, that of job 0 0." in str(result.exception)
    assert created(cloud) == before
