"""Sweeps in Python: specifications are checked against the grid, and a finished sweep has its best trial."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import traingrid as tg
from tests.support.sample_deployment import SAMPLE_BUCKETS
from tests.unit.sweep.conftest import FakeGrid, loss
from traingrid.api.control_plane import ControlPlane
from traingrid.api.submit_once import uploaded_once
from traingrid.api.sweep_jobs import SweepJobs, curve_of
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.ledger.ledger import Ledger
from traingrid.submission.files import submission_id
from traingrid.submission.journaled_jobs import ManifestRejectedError

DATA = SAMPLE_BUCKETS["us-east-1"]
SPEC = f"""\
lines:
  - region: us-east-1
    s3_uri: s3://{DATA}/x
    metrics: [loss]
search:
  hp.rate: {{log_range: [1e-4, 1]}}
  hp.depth: {{int: [1, 9]}}
objective: {{metric: loss, direction: minimize}}
trials: 6
parallel: 3
final: {{hp.epochs: 90}}
"""


@pytest.fixture
def grid(deployment: Deployment, ledger: Ledger, storage: Storage) -> tg.Grid:
    return tg.Grid(ControlPlane(deployment=deployment, ledger=ledger, batch=None, storage=storage))  # type: ignore[arg-type]  # Batch is not called


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "rates.yaml").write_text(SPEC)
    return tmp_path / "rates.yaml"


@pytest.fixture
def trains(monkeypatch: pytest.MonkeyPatch, storage: Storage, deployment: Deployment) -> FakeGrid:
    """Let a fake grid train the trials."""
    fake = FakeGrid(deployment.manifest_bucket, storage._s3)
    for name in ("submit", "jobs", "curves", "cancel"):
        monkeypatch.setattr(SweepJobs, name, lambda _self, *given, _name=name: getattr(fake, _name)(*given))
    return fake


def test_a_sweep_returns_its_best_trial_and_a_manifest_to_train_it_longer(
    grid: tg.Grid, file: Path, trains: FakeGrid
) -> None:
    steps: list[tg.SweepProgress] = []
    result = grid.sweep(file, report=steps.append, poll=0)
    assert result.value == loss(result.parameters) == min(loss(trial.parameters) for trial in result.trials)
    assert [len(result.trials), steps[-1].ended] == [6, True]
    count, line = result.manifest.splitlines()
    assert count == "# jobs: 1"
    assert json.loads(line)["hyperparameters"] == {**result.parameters, "epochs": 90}


def test_a_program_can_give_a_mapping(grid: tg.Grid, trains: FakeGrid) -> None:
    spec: dict[str, Any] = {
        "name": "mapped",
        "lines": [{"region": "us-east-1", "s3_uri": f"s3://{DATA}/x", "metrics": "loss"}],
        "search": {"hp.rate": {"choices": [0.1, 0.01]}, "hp.depth": {"choices": [5]}},
        "strategy": "grid",
        "objective": {"metric": "loss", "direction": "minimize"},
    }
    assert grid.sweep(spec, poll=0).parameters == {"rate": 0.01, "depth": 5}


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        ("region: us-east-1", "region: us-east-9", "rates.yaml:2: lines.0.region: "),
        ("metrics: [loss]", "instance_count: 0", "rates.yaml:4: lines.0.instance_count: "),
        ("metrics: [loss]", "instanse_count: 1", "rates.yaml:4: lines.0.instanse_count: "),
        ("metrics: [loss]", "source: nowhere", "rates.yaml:2: source nowhere: the folder "),
        (
            "{metric: loss,",
            "{metric: los,",
            "rates.yaml:8: objective.metric: 'los' is not a metric of base line 1, which has loss. Choose one of these",
        ),
        ("final: {hp.epochs: 90}", "final: {instance_count: 0}", "rates.yaml:11: final: "),
    ],
)
def test_a_mistake_in_a_line_is_reported_at_its_place(
    grid: tg.Grid, file: Path, good: str, bad: str, expected: str
) -> None:
    assert good in SPEC
    file.write_text(SPEC.replace(good, bad))
    with pytest.raises(tg.UsageError) as error:
        grid.sweep(file)
    assert str(error.value).startswith(f"{file.parent}/{expected}")
    assert list(grid.plane.storage.sizes(S3Uri(grid.plane.deployment.manifest_bucket, ""))) == []


def test_sources_are_uploaded_before_the_first_trial(
    grid: tg.Grid, file: Path, trains: FakeGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file.parent / "code").mkdir()
    (file.parent / "code" / "train.py").write_text("print('loss=1')")
    file.write_text(SPEC.replace("metrics: [loss]", "metrics: loss\n    source: code\n    entry_point: train.py"))
    order: list[str] = []
    monkeypatch.setattr("traingrid.api.source_folders.Storage.write", lambda *_: order.append("source"))
    trains.effect = order.append
    grid.sweep(file, poll=0)
    assert order[:2] == ["source", "upload"]
    assert order.count("source") == 1


def test_a_manifest_is_uploaded_once_even_if_it_was_deleted(storage: Storage, deployment: Deployment) -> None:
    uri = S3Uri(deployment.manifest_bucket, "manifests/sweeps/rates/000001.jsonl")
    version = uploaded_once(storage, uri, b"a")
    assert uploaded_once(storage, uri, b"a") == version
    storage._s3.delete_object(Bucket=uri.bucket, Key=uri.key)
    assert uploaded_once(storage, uri, b"a") == version
    assert [storage.read(uri, version), storage.first_version(uri)] == [b"a", version]


def jobs(grid: tg.Grid) -> SweepJobs:
    return SweepJobs(plane=grid.plane, announce=lambda _text: None)


def test_a_known_submission_is_found_without_its_report(
    grid: tg.Grid, storage: Storage, deployment: Deployment, ledger: Ledger
) -> None:
    uri = S3Uri(deployment.manifest_bucket, "manifests/sweeps/rates/000001-0.jsonl")
    version = uploaded_once(storage, uri, b"a")
    submission = submission_id(str(uri), version)
    ledger.claim_submission(submission, "request", {"jobs": 1, "manifest": str(uri), "version": version})
    ledger.record_submitted(submission, "batch-job", [])
    assert jobs(grid).submit("rates/000001-0.jsonl", b"a") == submission


@pytest.mark.parametrize("state", ["rejected", "failed"])
def test_only_a_rejected_manifest_has_no_jobs(grid: tg.Grid, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    report = {"state": state, "errors": [], "errors_in_total": 0, "submission": "0123abcd", "jobs": 1}
    report |= {"submitted_jobs": 0, "tries": 3, "reason": "no.", "next_step": ""}
    monkeypatch.setattr("traingrid.api.submit_once.wait_for_report", lambda *_: report)
    with pytest.raises(ManifestRejectedError if state == "rejected" else TraingridError):
        jobs(grid).submit("rates/000001-0.jsonl", b"a")


def test_a_batch_that_an_interrupted_command_saw_rejected_is_submitted_again(
    grid: tg.Grid, storage: Storage, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = S3Uri(deployment.manifest_bucket, "manifests/sweeps/rates/000001-0.jsonl")
    version = uploaded_once(storage, uri, b"a")
    report = {"version": version, "state": "rejected", "errors_in_total": 0, "errors": []}
    storage.write_json(S3Uri(uri.bucket, f"{uri.key}.report.json"), report)
    monkeypatch.setattr("traingrid.api.submit_once.wait_for_report", lambda *_: {"state": "submitted"})
    again = S3Uri(uri.bucket, "manifests/sweeps/rates/000001-0-try2.jsonl")
    submitted = jobs(grid).submit("rates/000001-0.jsonl", b"a")
    version = uploaded_once(storage, again, b"other")
    assert (submitted, storage.read(again, version)) == (submission_id(str(again), version), b"a")


def test_a_curve_has_one_value_for_each_epoch() -> None:
    def point(value: float, epoch: int | None) -> tg.MetricPoint:
        when = datetime(2026, 1, 1, tzinfo=UTC)
        return tg.MetricPoint(
            index=0, region="", attempt=1, metric="loss", value=value, step=None, epoch=epoch, time=when
        )

    assert curve_of([point(3.0, 1), point(2.0, 1), point(1.0, 2)]) == [(1, 2.0), (2, 1.0)]
    assert curve_of([point(3.0, None), point(2.0, None)]) == [(1, 3.0), (2, 2.0)]
