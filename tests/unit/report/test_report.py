"""Report: one HTML file without scripts, whose texts are escaped and whose size is bounded."""

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Collection
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.local_page import SUBMISSION, LocalGrid
from tests.support.local_rounds import train_rounds
from tests.support.reported_submission import EPOCHS, NAMES, SCRIPT, curves, submit_reported
from traingrid.api.control_plane import ControlPlane
from traingrid.api.grid import Grid
from traingrid.api.submission import Submission
from traingrid.errors import TraingridError, UsageError
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.metrics.history import MetricHistory
from traingrid.metrics.points import MetricPoint, records_of_part
from traingrid.report.plot import MAX_POINTS, Curve, plot, sampled
from traingrid.submission.journal import Begun, Submitted

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def local(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> LocalGrid:
    monkeypatch.setattr(MetricHistory, "read", curves())
    return LocalGrid(ledger)


@pytest.fixture
def reported(local: LocalGrid) -> Submission:
    submit_reported(local)
    return local_submission(local)


def local_submission(local: LocalGrid) -> Submission:
    return Submission(Grid(local.plane), SUBMISSION)


def written(submission: Submission, folder: Path) -> str:
    return submission.report(folder / "report.html").read_text()


def texts(html: str) -> str:
    """Return the text that a reader sees, with one space between elements."""
    body = html.partition("<body>")[2]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def test_jobs_are_listed_best_first_with_their_metrics_and_cost(reported: Submission, tmp_path: Path) -> None:
    seen = texts(written(reported, tmp_path))
    assert "Ordered by validation top1, highest first" in seen
    assert re.search(r"1 digits night us-east-1 Completed 0\.98\d+ .* 20/20 40m00s 0\.64 \$9\.38", seen)
    assert seen.index("digits night") < seen.index("quarry & co") < seen.index("snow") < seen.index("fog")


def test_a_cancelled_job_follows_the_completed_ones_with_its_reason(local: LocalGrid, tmp_path: Path) -> None:
    cancelled, completed = local.submit(["cancelled", "completed"])
    artifact = "s3://bucket/model.tar.gz"
    stopped: dict[str, Any] = {"state": JobState.STOPPED, "reason": "Cancelled by me: enough"}
    local.open(cancelled, metrics={"accuracy": 0.9}, artifact=artifact, **stopped)
    seen = texts(written(local_submission(local), tmp_path))
    assert "No job has completed yet. Wait until one has" in seen
    local.open(completed, state=JobState.COMPLETED, metrics={"accuracy": 0.5}, artifact=artifact)
    seen = texts(written(local_submission(local), tmp_path))
    assert re.search(r"why not best 1 completed .* 2 cancelled .* stopped: Cancelled by me: enough", seen)
    assert "No job has completed" not in seen


def test_a_report_of_running_jobs_is_marked_as_a_snapshot(reported: Submission, tmp_path: Path) -> None:
    assert "This is a snapshot: 2 of 10 jobs had not ended at" in texts(written(reported, tmp_path))


def test_failures_have_their_reason_and_the_recommended_action(reported: Submission, tmp_path: Path) -> None:
    seen = texts(written(reported, tmp_path))
    assert "algorithm: 1 job The training program ended with an error. Next: Read its log" in seen
    assert "ClientError: No S3 objects found" in seen


def test_texts_of_users_are_escaped(reported: Submission, tmp_path: Path) -> None:
    html = written(reported, tmp_path)
    assert SCRIPT in texts(html)
    assert "\\x1b[31mValueError" in html
    assert "\x1b" not in html
    assert not re.search(r"<(script|img|iframe|object|link|base)\b", html)


def test_a_report_loads_nothing_and_its_policy_allows_only_its_style(reported: Submission, tmp_path: Path) -> None:
    html = written(reported, tmp_path)
    style = html.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert policy in unescape(html.partition("<title>")[0])
    assert not re.search(r'\b(src|href|style|on\w+)="|url\(|@import', html)


def test_the_section_about_reproduction_has_manifest_images_and_defaults(reported: Submission, tmp_path: Path) -> None:
    seen = texts(written(reported, tmp_path))
    assert "us-east-1,s3://ragab-ml/campaign-0,digits night,500,14.688,0.01" in seen
    assert "traingrid submit autumn.csv" in seen
    assert "123456789012.dkr.ecr.us-east-1.amazonaws.com/traingrid/training:1 by its tag" in seen
    assert "max_runtime_seconds 86400" in seen
    assert "hyperparameters.learning_rate = 0.01" in seen


def test_a_curve_has_a_line_for_each_job_and_the_text_of_its_last_values(reported: Submission, tmp_path: Path) -> None:
    plots = re.findall(r'<svg role="img" aria-label="([^"]*)".*?</svg>', written(reported, tmp_path))
    assert [plot.partition(":")[0] for plot in plots] == [
        *("train loss", "validation loss", "validation top1", "images per second", "learning rate"),
    ]
    assert "digits night 0.1086, digits day 0.1434" in plots[0]


def test_a_curve_has_the_last_value_of_each_epoch(
    local: LocalGrid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(history: MetricHistory, indexes: list[int]) -> list[MetricPoint]:
        twice = [[replace(point, value=1e9), point] for point in curves()(history, indexes)]
        return [point for pair in twice for point in pair]

    monkeypatch.setattr(MetricHistory, "read", read)
    submit_reported(local, ["digits night"])
    (points,) = re.findall(r'aria-label="train loss.*?points="([^"]*)"', written(local_submission(local), tmp_path))
    assert len(points.split()) == EPOCHS


def test_a_region_that_does_not_answer_costs_only_the_curves(
    reported: Submission, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: MetricHistory, _indexes: list[int]) -> None:
        raise TraingridError("The metrics of x in eu-west-1 cannot be read: timeout.", "Try again later.")

    monkeypatch.setattr(MetricHistory, "read", failing)
    seen = texts(written(reported, tmp_path))
    assert "The curves could not be read. The metrics of x in eu-west-1 cannot be read: timeout." in seen
    assert "digits night" in seen


@pytest.mark.parametrize(
    ("values", "epochs"),
    [((1.7e308, -1.7e308), (1, 2)), ((5e-324, 0.0), (1, 2)), ((1e125, -1e125), (1, 2)), ((1.0, 2.0), (1, 10**400))],
)
def test_absurd_values_of_one_job_do_not_prevent_the_report(
    local: LocalGrid,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    values: tuple[float, ...],
    epochs: tuple[int, ...],
) -> None:
    lines = [
        json.dumps({"time": "2026-11-20T10:00:00Z", "epoch": epoch, "metrics": {"train_loss": value}})
        for value, epoch in zip(values, epochs, strict=True)
    ]
    records = list(records_of_part("\n".join(lines).encode()))
    read = curves()

    def with_absurd(history: MetricHistory, indexes: Collection[int]) -> list[MetricPoint]:
        first = read(history, [0])[0]
        return read(history, indexes) + [
            replace(first, index=6, value=value, epoch=record.epoch, step=record.step)
            for record in records
            for value in record.values.values()
        ]

    monkeypatch.setattr(MetricHistory, "read", with_absurd)
    submit_reported(local)
    assert "train loss" in texts(written(local_submission(local), tmp_path))


def test_an_earlier_report_is_replaced(reported: Submission, tmp_path: Path) -> None:
    first = written(reported, tmp_path)
    (tmp_path / "report.html").write_text(first[: len(first) // 2])
    assert len(written(reported, tmp_path)) == len(first)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_file_that_is_not_a_report_is_not_replaced(reported: Submission, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("my notes")
    with pytest.raises(UsageError, match="is not a report"):
        reported.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == "my notes"


def test_a_missing_folder_is_an_error(reported: Submission, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        reported.report(tmp_path / "none" / "report.html")


def test_an_unknown_submission_writes_nothing(local: LocalGrid, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="00000000"):
        Submission(Grid(local.plane), "00000000").report(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_the_size_of_a_large_report_is_bounded_and_stated(
    local: LocalGrid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"campaign-{index}" for index in range(1200)]
    monkeypatch.setattr(MetricHistory, "read", curves(1200, epochs=MAX_POINTS + 100))
    submit_reported(local, names)
    html = written(local_submission(local), tmp_path)
    assert len(html) < 3_000_000
    seen = texts(html)
    assert "The first 1,000 of 1,200 jobs" in seen
    assert (
        "The 8 best jobs have colours; 42 more are thin lines. The curves of 1,150 jobs are not in this file." in seen
    )
    assert f"Curves with more than {MAX_POINTS} values are reduced" in seen


def test_a_sampled_curve_keeps_its_extremes_and_its_last_point() -> None:
    points = [(float(x), 0.0) for x in range(10_000)]
    points[1234], points[8765] = (1234.0, 9.0), (8765.0, -7.0)
    kept = sampled(points)
    assert len(kept) <= MAX_POINTS
    assert {points[1234], points[8765], points[-1]} <= set(kept)
    assert kept == sorted(kept)
    assert sampled(points[:100]) == points[:100]


def test_the_colours_are_those_of_the_page() -> None:
    page, report = (
        re.findall(r"^\s*(--[\w-]+:.*)$", (ROOT / "traingrid" / path).read_text(), re.MULTILINE)
        for path in ("ui/static/page.css", "report/report.css")
    )
    assert page == report
    assert len(page) == 10


def test_every_job_of_a_small_submission_is_in_the_report(reported: Submission, tmp_path: Path) -> None:
    seen = texts(written(reported, tmp_path))
    assert all(name in seen for name in NAMES)


@pytest.mark.parametrize("values", [(1e299, -1e299), (0.0, 5e-324), (1e299, 1e299), (-5e-324, 5e-324), (0.0, 1e-289)])
def test_extreme_values_can_be_drawn(values: tuple[float, float]) -> None:
    curve = Curve(label="x", place=0, points=[(0.0, values[0]), (1e15, values[1])])
    assert str(plot("loss", [curve], x_label="epoch", natural=True)).count("<polyline") == 1


def test_the_report_of_rounds_ranks_global_models_and_shows_each_region(
    local: LocalGrid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ControlPlane, "children", SimpleNamespace(of=lambda *_, **__: {}, state=lambda *_: ""))
    train_rounds(local, [0.5, 0.81, 0.73], missing=2)
    html = Grid(local.plane).report("rounds:cells", tmp_path / "cells.html").read_text()
    seen = texts(html)
    assert "rounds cells grid traingrid" in seen
    assert "Best: round 2, validation_top1 0.81." in seen
    assert "left out: is Failed: no capacity" in seen
    assert "traingrid download bbbb0002 0" in seen
    assert re.search(r"rank job .* 1 cells-002-merge .* 2 cells-003-merge .* 3 cells-001-merge .* 4 cells-001-0", seen)
    assert "a Region's model, evaluated on the data of its Region" in seen
    assert "manifests/rounds/cells/merge-003-abc.csv" in seen
    assert 'aria-label="validation_top1: global model 0.73, us-east-1 0.25' in html


def test_the_report_of_a_sweep_has_all_trials(local: LocalGrid, tmp_path: Path) -> None:
    bucket = local.deployment.manifest_bucket
    entries = [Begun(spec={"trials": 2}), *(Submitted(batch=0, submission=name) for name in ("00000001", "00000002"))]
    for number, entry in enumerate(entries):
        local.storage.objects[f"s3://{bucket}/sweeps/rates/{number:06d}.json"] = entry.model_dump_json().encode()
    for position, submission in enumerate(("00000001", "00000002")):
        uri = f"s3://{bucket}/manifests/sweeps/rates/{position}.csv"
        (job,) = local.submit([f"rates-{position}"], submission=submission, manifest=uri)
        metrics = {"accuracy": 0.5 + position / 10}
        local.open(job, submission, state=JobState.COMPLETED, metrics=metrics, artifact="s3://b/model.tar.gz")
    seen = texts(Grid(local.plane).report("sweep:rates", tmp_path / "rates.html").read_text())
    assert re.search(r"sweep rates .* 1 rates-1 .* 2 rates-0", seen)
    assert "traingrid compare sweep:rates" in seen
