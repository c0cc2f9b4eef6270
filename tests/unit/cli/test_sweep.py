"""`traingrid sweep`: its table, exports and plan, and the file that trains the best trial longer."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from tests.support.module_time import replace_time
from tests.unit.sweep.conftest import FakeGrid, loss
from traingrid.api.control_plane import ControlPlane
from traingrid.api.sweep import open_sweep
from traingrid.api.sweep_jobs import SweepJobs
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli import sweep as command
from traingrid.cli.main import cli
from traingrid.errors import TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.ledger.ledger import Ledger
from verification.model.storage import Bucket

SPEC = """\
lines:
  - {region: us-east-1, s3_uri: s3://ragab-ml/x, metrics: loss top1}
  - {region: eu-west-1, s3_uri: s3://ragab-ml-dub/x, metrics: loss top1}
search:
  hp.rate: {log_range: [1e-4, 1]}
  hp.depth: {int: [1, 9]}
objective: {metric: loss, direction: minimize}
trials: 5
parallel: 3
"""


@pytest.fixture
def storage() -> Storage:
    memory = Bucket()
    return Storage(make_client=lambda *_: memory)


@pytest.fixture
def plane(deployment: Deployment, ledger: Ledger, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> ControlPlane:
    made = ControlPlane(deployment=deployment, ledger=ledger, batch=None, storage=storage)  # type: ignore[arg-type]  # Batch is not called
    monkeypatch.setattr(ControlPlane, "of", lambda _file: made)
    replace_time(monkeypatch, "traingrid.api.steps", sleep=lambda _seconds: None)
    return made


@pytest.fixture
def trains(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> FakeGrid:
    fake = FakeGrid(plane.deployment.manifest_bucket, plane.storage._s3)
    for name in ("submit", "jobs", "curves", "cancel"):
        monkeypatch.setattr(SweepJobs, name, lambda _self, *given, _name=name: getattr(fake, _name)(*given))
    return fake


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "rates.yaml").write_text(SPEC)
    return tmp_path / "rates.yaml"


def run(file: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, ["sweep", str(file), *options])


def test_the_best_trial_is_printed_with_the_command_that_trains_it_longer(trains: FakeGrid, file: Path) -> None:
    ended = run(file)
    assert ended.exit_code == 0, ended.output
    lines = ended.output.splitlines()
    assert "us-east-1 rates-0000: InProgress, loss " in ended.output
    assert lines[-4].startswith("best: trial ")
    assert lines[-3].startswith("Its model: traingrid download ")
    manifest = file.with_name("rates-best.jsonl")
    assert lines[-2] == f"To train it longer: traingrid submit {manifest}"
    assert f"loss {loss(json.loads(manifest.read_text().splitlines()[1])['hyperparameters']):g} (" in lines[-4]


@pytest.mark.parametrize("options", [("--output", "json"), ("--plan",)])
def test_hardware_warnings_precede_the_trials(
    plane: ControlPlane, trains: FakeGrid, file: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    grid = plane.deployment.grid.model_dump(mode="json", exclude_defaults=True)
    grid["images"] |= {"mine": {"build": "training", "target": "gpu"}}
    grid["instance_types"] = ["ml.p3.16xlarge", "ml.p5.48xlarge"]
    changed = replace(
        plane.deployment, grid=GridSettings.model_validate(grid), images={"gpu": f"built-1@sha256:{'a' * 64}"}
    )
    monkeypatch.setattr(ControlPlane, "of", lambda _file: replace(plane, deployment=changed))
    image = "image: mine, instance_type: ml.p5.48xlarge, metrics: loss top1}\n  - {region: eu"
    monkeypatch.setattr("traingrid.manifest.checks.trainer._problems", lambda *_: ())  # rate and depth are no names
    file.write_text(SPEC.replace("metrics: loss top1}\n  - {region: eu", image))
    ended = run(file, *options)
    assert ended.exit_code == 0, ended.output
    first = ended.stderr.splitlines()[0]
    assert first.startswith("Warning: line 1: TensorFlow 2.15 of the image mine has no kernels for the GPUs of ml.p5")
    assert "Warning" not in ended.stdout


def test_an_ended_sweep_is_printed_again_without_training(trains: FakeGrid, file: Path) -> None:
    first = run(file)
    trained = trains.trained()
    assert run(file).output.splitlines()[-4:] == first.output.splitlines()[-4:]
    assert trains.trained() == trained


def test_the_trials_are_exported(trains: FakeGrid, file: Path) -> None:
    ended = run(file, "--output", "json")
    rows = json.loads(ended.stdout)
    assert [row["trial"] for row in rows] == [0, 1, 2, 3, 4]
    (best,) = (row for row in rows if row["best"])
    assert best["value"] == min(row["value"] for row in rows) == loss(best["hyperparameters"])
    assert "best: trial" in ended.stderr
    header = run(file, "--output", "csv").stdout.splitlines()[0].split(",")
    assert header[:4] == ["trial", "best", "submission", "index"]
    assert header[-2:] == ["hyperparameters.depth", "hyperparameters.rate"]


def test_a_plan_shows_the_next_trials_and_writes_nothing(trains: FakeGrid, file: Path, storage: Storage) -> None:
    ended = run(file, "--plan")
    assert "5 trials, at most 3 at the same time. The next step submits 3 of them." in ended.output
    assert list(storage.sizes(S3Uri(trains.bucket, ""))) == []
    planned = json.loads(run(file, "--plan", "--output", "json").stdout)
    assert [(row["trial"], row["region"]) for row in planned] == [(0, "us-east-1"), (1, "eu-west-1"), (2, "us-east-1")]
    run(file)
    trained = {row["name"]: row["hyperparameters"] for row in json.loads(run(file, "--output", "json").stdout)}
    assert {row["name"]: row["hyperparameters"] for row in planned}.items() <= trained.items()


def test_an_interrupt_leaves_the_trials_and_names_the_command_that_continues(
    trains: FakeGrid, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    replace_time(monkeypatch, "traingrid.api.steps", sleep=interrupt)
    ended = run(file)
    assert isinstance(ended.exception, TraingridError)
    assert ended.exception.exit_code == 130
    assert f"Continue the sweep: traingrid sweep {file}." in ended.exception.next_step
    assert sum(trains.trained().values()) == 3
    assert trains.cancelled == {}


def test_the_live_table_shows_open_trials_first_and_fits_the_terminal(
    trains: FakeGrid, plane: ControlPlane, file: Path
) -> None:
    opened = open_sweep(plane, file)
    opened.sweep.begin()
    for _ in range(4):
        progress = opened.sweep.step()
    out = Console(width=60, height=8, record=True)
    out.print(command._live(opened, progress, out))
    shown = out.export_text().splitlines()
    assert shown[0] == "sweep rates"
    assert shown[2].split()[0] == "3"
    assert shown[-1] == "3 of 5 trials ended, 2 open; 1 not shown"
    assert len(shown) < 8


def test_a_sweep_without_a_result_ends_with_one_sentence(trains: FakeGrid, file: Path) -> None:
    file.write_text(SPEC.replace("metric: loss", "metric: top1"))
    ended = run(file)
    assert isinstance(ended.exception, TraingridError)
    assert ended.exception.what == "The 3 completed trials of the sweep rates have no metric top1."


def test_a_sweep_that_ends_with_its_budget_reports_that(trains: FakeGrid, file: Path) -> None:
    trains.outcome = lambda job: replace(job, dollars=2.0, cancelled=False)
    priced = SPEC.replace("/x,", "/x, dollars_per_hour: 2,")
    file.write_text(priced + "budget_dollars: 5\n")
    result = run(file)
    assert result.exit_code == 0, result.output
    assert "The trials have cost the budget of $5.00, which was enough for 3 of 5 trials." in result.stdout
