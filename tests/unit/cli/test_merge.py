"""`traingrid merge`: prints its plan and the submission, and writes nothing with --plan."""

import json

import pytest
from click.testing import CliRunner, Result

import traingrid as tg
from tests.unit.api.test_merge import SUBMISSION, bucket, deployment, grid, intake, keys, moves
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.cli.main import cli
from traingrid.grid.deployment import Deployment

__all__ = ["deployment", "grid", "intake", "moves"]


@pytest.fixture(autouse=True)
def plane(grid: tg.Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ControlPlane, "of", lambda _file: grid.plane)


def run(*options: str) -> Result:
    return CliRunner().invoke(cli, ["merge", SUBMISSION, *options])


def test_the_plan_shows_models_job_and_transfer_and_writes_nothing(deployment: Deployment) -> None:
    result = run("--plan")
    assert result.exit_code == 0, result.output
    assert "One ml.m5.large in us-east-1 would merge 3 models." in result.output
    assert "7 bytes would be copied from other Regions, which AWS charges for." in result.output
    assert result.output.endswith("Nothing was written. Run it without --plan.\n")
    assert keys(deployment.manifest_bucket) + keys(bucket(names.data_bucket, deployment, "us-east-1")) == []


def test_the_plan_is_exported() -> None:
    rows = json.loads(run("0", "2", "--plan", "--output", "json").stdout)
    assert [(row["index"], row["region"], row["bytes"]) for row in rows] == [(0, "us-east-1", 7), (2, "eu-west-1", 7)]


def test_the_submission_is_printed_with_the_command_that_tracks_it(intake: None) -> None:
    result = run("0", "1", "--method", "ensemble")
    assert result.exit_code == 0, result.output
    submission = result.output.splitlines()[-1].split()[-2]
    assert f"submission {submission}: merges 2 models in us-east-1" in result.output
    (row,) = json.loads(run("0", "1", "--method", "ensemble", "--output", "json").stdout)
    assert row == {"submission": submission, "region": "us-east-1", "method": "ensemble", "models": 2}


def test_an_unknown_method_is_a_usage_error() -> None:
    assert run("--method", "median").exit_code == 2
