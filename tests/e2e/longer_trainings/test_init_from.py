"""End to end: jobs that begin with the model of an earlier job, in its Region and in another one, and a profile."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import traingrid as tg
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.submissions import DIGITS, PATIENCE_SECONDS, REGIONS, submit
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.main import cli
from traingrid.errors import TraingridError
from traingrid.ledger.damage import intact
from traingrid.ledger.moves import Moves
from traingrid.submission.status import SubmissionStatus

HOME, OTHER = REGIONS
Plan = Callable[..., str]
BEGINS = "Beginning with the weights of the initial model, of epoch 1."


@pytest.fixture(scope="module")
def data(plane: ControlPlane) -> dict[str, str]:
    """The folder of data of each Region."""
    return {
        region: str(upload_folder(plane.deployment, DIGITS / f"campaign-{number}", region))
        for number, region in enumerate(REGIONS, start=1)
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("manifests")


def submitted(plane: ControlPlane, manifest: Path, *lines: Mapping[str, Any]) -> SubmissionStatus:
    manifest.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return tg.Grid(plane).submit(manifest).wait(timeout=PATIENCE_SECONDS, poll=0.5)


@pytest.fixture(scope="module")
def first(plane: ControlPlane, data: dict[str, str], folder: Path) -> SubmissionStatus:
    """A job in the home Region, of which two steps are profiled."""
    line = {"region": HOME, "s3_uri": data[HOME], "profile": {"steps": "2-3"}, "hyperparameters": {"batch_size": 32}}
    return submitted(plane, folder / "first.jsonl", line)


@pytest.fixture(scope="module")
def second(plane: ControlPlane, data: dict[str, str], folder: Path, first: SubmissionStatus) -> SubmissionStatus:
    """A job in each Region that begins with the model of the first one."""
    named = f"{first.submission}/0"
    lines = [{"region": region, "s3_uri": data[region], "init_from": named} for region in REGIONS]
    return submitted(plane, folder / "second.jsonl", *lines)


def log_of(grid_file: str, submission: str, index: int) -> str:
    ended = CliRunner().invoke(cli, ["--grid", grid_file, "logs", submission, str(index)])
    assert ended.exit_code == 0, ended.output
    return ended.output


@pytest.fixture(scope="module")
def grid_file(cloud: LocalCloud) -> str:
    return str(Path(cloud.data_dir) / "grid.yaml")


def test_both_jobs_begin_with_the_weights_of_the_model(
    grid_file: str, first: SubmissionStatus, second: SubmissionStatus
) -> None:
    assert [(job.region, job.state) for job in first.jobs] == [(HOME, "Completed")], first.jobs[0].reason
    assert [(job.region, job.state) for job in second.jobs] == [(region, "Completed") for region in REGIONS]
    for job in second.jobs:
        assert BEGINS in log_of(grid_file, second.submission, job.index)
    assert BEGINS not in log_of(grid_file, first.submission, 0)


def test_the_model_is_a_channel_of_the_training_job(first: SubmissionStatus, second: SubmissionStatus) -> None:
    for job in second.jobs:
        described = client("sagemaker", job.region).describe_training_job(TrainingJobName=job.training_job)
        (channel,) = (one for one in described["InputDataConfig"] if one["ChannelName"] == "model")
        uri = channel["DataSource"]["S3DataSource"]["S3Uri"]
        assert channel["ContentType"] == "application/x-sagemaker-model"
        artifact = S3Uri.parse(first.jobs[0].artifact)
        copy = f"s3://{names.output_bucket('traingrid', '123456789012', OTHER)}/initial-models/{artifact.key}"
        assert uri == (str(artifact) if job.region == HOME else copy)


def test_the_model_was_copied_once_and_without_other_files(plane: ControlPlane, second: SubmissionStatus) -> None:
    (item,) = (move for move in intact(Moves(plane.deployment.table, HOME).all()) if "initial-models" in move.target)
    assert (item.state, item.region, item.from_region, item.objects) == ("copied", OTHER, HOME, 1)
    assert item.job == f"{second.submission}/1"


def test_the_source_of_a_job_can_be_read_from_its_line(
    plane: ControlPlane, first: SubmissionStatus, second: SubmissionStatus
) -> None:
    for job in plane.last_submitted_jobs(second.submission).values():
        assert job.init_from is not None
        assert str(job.init_from) == f"{first.submission}/0"
        assert (job.init_from.region, job.init_from.artifact) == (HOME, first.jobs[0].artifact)


@pytest.fixture
def planned(grid_file: str, data: dict[str, str], tmp_path: Path) -> Plan:
    """A function that returns the error of `submit --plan` for a line with these fields."""

    def plan(**line: Any) -> str:
        manifest = tmp_path / "wrong.jsonl"
        manifest.write_text(json.dumps({"region": HOME, "s3_uri": data[HOME], **line}) + "\n")
        ended = CliRunner().invoke(cli, ["--grid", grid_file, "submit", "--plan", str(manifest)])
        assert isinstance(ended.exception, TraingridError)
        return str(ended.exception)

    return plan


@pytest.mark.parametrize(
    ("named", "classes", "reason"),
    [
        ("00000000/0", 10, "this grid has no submission 00000000"),
        ("{first}/7", 10, "submission {first} has only index 0"),
        ("{first}/0", 9, "the hyperparameter classes is 9, and the model was trained with 10"),
    ],
)
def test_a_model_that_cannot_be_used_is_refused_at_plan_time(
    planned: Plan, first: SubmissionStatus, named: str, classes: int, reason: str
) -> None:
    error = planned(init_from=named.format(first=first.submission), hyperparameters={"classes": classes})
    assert reason.format(first=first.submission) in error


def test_the_intake_refuses_an_unknown_model_too(plane: ControlPlane, data: dict[str, str]) -> None:
    line = json.dumps({"region": HOME, "s3_uri": data[HOME], "init_from": "00000000/0"})
    report = submit(plane, "unknown.jsonl", f"{line}\n")
    assert report["state"] == "rejected"
    assert [(error["field"], error["reason"]) for error in report["errors"]] == [
        ("init_from", "this grid has no submission 00000000")
    ]


def test_the_profile_is_copied_beside_the_events(grid_file: str, first: SubmissionStatus, tmp_path: Path) -> None:
    arguments = ["--grid", grid_file, "tensorboard", first.submission, "--once", "--logdir", str(tmp_path)]
    ended = CliRunner().invoke(cli, arguments)
    assert ended.exit_code == 0, ended.output
    (profile,) = tmp_path.glob("*/plugins/profile/*/*.xplane.pb")
    assert profile.stat().st_size > 0
    assert list(tmp_path.glob("*/events.out.tfevents.*"))


def test_the_model_is_registered_once_in_the_region_of_its_job(grid_file: str, second: SubmissionStatus) -> None:
    arguments = ["--grid", grid_file, "register", second.submission, "1", "--group", "digits"]
    rows = [
        json.loads(CliRunner().invoke(cli, [*arguments, "--output", "json"], catch_exceptions=False).stdout)[0]
        for _ in range(2)
    ]
    assert [row["result"] for row in rows] == ["registered", "kept"]
    assert (rows[0]["region"], rows[0]["version"]) == (OTHER, 1)
    assert rows[0]["metadata"]["best:validation_top1"]
