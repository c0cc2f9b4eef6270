"""`traingrid compare`: jobs of submissions side by side, the best first."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner

import traingrid as tg
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.compare import curve
from traingrid.cli.main import cli
from traingrid.grid.deployment import Deployment
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.metrics import comparison
from traingrid.metrics.points import MetricPoint
from traingrid.submission.files import jobs_key, normalised
from traingrid.submission.status import JobStatus, SubmissionStatus

FIRST, SECOND = "0123abcd", "77777777"


def job(index: int, **metrics: float) -> JobStatus:
    return JobStatus(
        index=index,
        region="us-east-1",
        name=f"line-{index}",
        state=JobState.COMPLETED,
        seconds=60,
        metrics=metrics,
        artifact=f"s3://output/{index}/model.tar.gz" if metrics else "",
    )


STATUSES = {
    FIRST: [job(0, loss=0.9, top5=0.7, epoch=3.0), job(1, loss=0.2, top5=0.9, epoch=3.0), job(2)],
    SECOND: [job(0, loss=0.5, top5=0.8)],
}
CURVES = {FIRST: {0: [3.0, 2.0, 0.9], 1: [1.0, 0.2]}, SECOND: {0: [0.5]}}


class History:
    """The values of `CURVES`, in the second attempt; the first one had others."""

    def __init__(self, _deployment: Deployment, _ledger: Ledger, _storage: Storage, submission: str) -> None:
        self.submission = submission

    def read(self) -> list[MetricPoint]:
        about: Any = {"region": "us-east-1", "metric": "loss", "step": None, "time": datetime.now(UTC)}
        return [
            MetricPoint(index=index, attempt=attempt, value=value * attempt / 2, epoch=None, **about)
            for index, values in CURVES[self.submission].items()
            for attempt in (1, 2)
            for value in values
        ]


@pytest.fixture
def plane(deployment: Deployment, storage: Storage, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> ControlPlane:
    for submission, rates in ((FIRST, ("0.1", "0.2", "0.3")), (SECOND, ("0.1",))):
        data = f"s3://{next(iter(deployment.bucket_regions()))}/x"
        region = deployment.bucket_regions()[data.removeprefix("s3://").partition("/")[0]]
        rows = [f"{region},{data},{rate},7" for rate in rates]
        manifest = "\n".join(["region,s3_uri,hp.learning_rate,hp.seed", *rows])
        made = jobs_of_lines(parse(manifest.encode(), deployment), deployment, submission)
        storage.write(S3Uri(deployment.manifest_bucket, jobs_key(submission)), normalised(made)[0], "application/jsonl")
        ledger.claim_submission(submission, "request", {"jobs": len(rates), "manifest": "s3://m/x.csv"})
        ledger.record_submitted(submission, "array")

    def status(_plane: ControlPlane, submission: str) -> SubmissionStatus:
        jobs = STATUSES[submission]
        return SubmissionStatus(submission=submission, manifest="", batch_job="b", batch_state="", jobs=jobs)

    monkeypatch.setattr(ControlPlane, "status", status)
    monkeypatch.setattr(comparison, "MetricHistory", History)
    nothing: Any = None
    found = ControlPlane(deployment=deployment, ledger=ledger, batch=nothing, storage=storage)
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: found)
    return found


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["compare", *arguments])
    assert result.exit_code == 0, result.exception
    return result.output


def test_the_job_with_the_lowest_loss_is_first(plane: ControlPlane) -> None:
    found = tg.Grid(plane).compare(FIRST, "7777")
    assert (found.metric, found.lowest) == ("loss", True)
    order = [(each.submission, each.status.index) for each in found.jobs]
    assert order == [(FIRST, 1), (SECOND, 0), (FIRST, 0), (FIRST, 2)], "the job without a value is last"
    assert [list(each.values) for each in found.jobs] == [[1.0, 0.2], [0.5], [3.0, 2.0, 0.9], []]
    assert [dict(each.hyperparameters) for each in found.jobs[:2]] == [
        {"learning_rate": "0.2"},
        {"learning_rate": "0.1"},
    ], "all jobs have the same seed"


def test_another_metric_or_order_can_be_given(plane: ControlPlane) -> None:
    by_top5 = tg.Grid(plane).compare(FIRST, metric="top5")
    assert [each.status.index for each in by_top5.jobs] == [1, 0, 2]
    assert [each.status.index for each in tg.Grid(plane).compare(FIRST, lowest=False).jobs] == [0, 1, 2]
    with pytest.raises(tg.UsageError, match=r"No job has the metric f1\. The jobs have loss, top5\."):
        tg.Grid(plane).compare(FIRST, metric="f1")


def test_the_table_shows_the_curve_and_what_differs(plane: ControlPlane) -> None:
    headings, best, *_, order, _excluded, last = run(FIRST[:4], SECOND).splitlines()
    assert headings.split() == [
        "job",
        "submission",
        "loss",
        "curve",
        "learning_rate",
        "Region",
        "state",
        "time",
        "top5",
    ]
    assert best.split() == ["line-1", FIRST, "1", "0.2", "█▁", "0.2", "us-east-1", "Completed", "1m00s", "0.9"]
    assert order == "ordered by loss, lowest first; --metric NAME and --highest change this"
    assert last == f"the best model: traingrid download {FIRST} 1"


def test_the_jobs_of_one_submission_have_their_index(plane: ControlPlane) -> None:
    headings, best, *_ = run(FIRST).splitlines()
    assert headings.split()[:3] == ["job", "index", "loss"]
    assert best.split()[:3] == ["line-1", "1", "0.2"]


def test_json_has_the_ranks(plane: ControlPlane) -> None:
    rows = json.loads(run(FIRST, "--output", "json", "--metric", "top5"))
    assert [(row["rank"], row["index"]) for row in rows] == [(1, 1), (2, 0), (3, 2)]
    assert rows[0]["hyperparameters"] == {"learning_rate": "0.2"}


def test_jobs_without_metrics_are_listed(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STATUSES, SECOND, [job(0)])
    assert "line-0" in run(SECOND)
    assert "ordered by" not in run(SECOND)


def test_a_cancelled_job_is_neither_the_best_nor_before_a_completed_one(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled = replace(job(0, loss=0.1), state=JobState.STOPPED, reason="Cancelled by me: enough")
    monkeypatch.setitem(STATUSES, FIRST, [cancelled, job(1, loss=0.2), job(2)])
    comparison = tg.Grid(plane).compare(FIRST)
    assert [compared.status.index for compared in comparison.jobs] == [1, 2, 0]
    assert comparison.best == comparison.jobs[0]
    assert [compared.exclusion for compared in comparison.jobs] == [
        *("", "has no model", "stopped: Cancelled by me: enough"),
    ]
    assert run(FIRST).splitlines()[-3:] == [
        "not ranked: job 2 (has no model)",
        "not ranked: job 0 (stopped: Cancelled by me: enough)",
        f"the best model: traingrid download {FIRST} 1",
    ]
    assert [row["exclusion"] for row in json.loads(run(FIRST, "--output", "json"))][:2] == ["", "has no model"]


def test_a_metric_that_only_a_failed_job_has_reported_is_not_chosen(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = replace(job(0, validation_accuracy=0.5), state=JobState.FAILED, reason="lost")
    monkeypatch.setitem(STATUSES, FIRST, [failed, job(1, f1=0.2)])
    assert tg.Grid(plane).compare(FIRST).metric == "f1"
    monkeypatch.setitem(STATUSES, FIRST, [failed])
    assert tg.Grid(plane).compare(FIRST).metric == "validation_accuracy"


def test_without_a_completed_job_the_next_step_is_printed(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        STATUSES,
        FIRST,
        [replace(job(index, loss=0.1), state=JobState.FAILED, reason=f"E{index}") for index in range(9)],
    )
    assert tg.Grid(plane).compare(FIRST).best is None
    *_, fifth, more, last = run(FIRST).splitlines()
    assert fifth == "not ranked: job 5 (failed: E5)"
    assert more == "3 more reasons: --output json prints all"
    assert last.startswith("no best model: No job has completed. `traingrid status` shows the reasons")


def test_many_jobs_with_one_reason_are_counted(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    running = [replace(job(index, loss=0.1), state=JobState.IN_PROGRESS) for index in range(20)]
    monkeypatch.setitem(STATUSES, FIRST, running)
    assert "not ranked: jobs 0, 1, 2, 3, 4, 5, 6, 7 and 12 more (has not ended)" in run(FIRST)


@pytest.mark.parametrize(
    ("values", "bars"),
    [([], ""), ([1.0], "▁"), ([2.0, 2.0], "▁▁"), ([0.0, 1.0, 0.5], "▁█▅"), (list(range(100)), "▁▂▃▅▆▇█")],
)
def test_a_curve_reaches_from_the_lowest_to_the_highest_value(values: list[float], bars: str) -> None:
    assert curve(values, width=7) == bars
