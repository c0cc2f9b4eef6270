"""Status table: fits the terminal, and shows progress, time, dollars and the metrics of scripts."""

from typing import Any

import pytest
from rich.console import Console

from traingrid.cli.status_table import status_table
from traingrid.job.state import JobState
from traingrid.submission.status import JobStatus, SubmissionStatus
from traingrid.text import duration

NOW = 1_800_000_000.0


def job(index: int, state: JobState = JobState.IN_PROGRESS, **more: Any) -> JobStatus:
    region = ("us-east-1", "ap-southeast-2", "eu-west-1", "us-west-2")[index % 4]
    return JobStatus(index=index, region=region, name=f"campaign-{index}", state=state, **more)


def printed(*jobs: JobStatus, width: int = 80) -> list[str]:
    status = SubmissionStatus(submission="0123abcd", manifest="", batch_job="b", batch_state="", jobs=list(jobs))
    console = Console(width=width, record=True, file=None, emoji=False, highlight=False)
    with console.capture() as capture:
        console.print(status_table(status, width, NOW))
    return capture.get().splitlines()


TRAINED = {"epoch": 7.0, "images_per_second": 12345.6, "validation_top1": 0.7612, "loss": 1.25, "ranks": 8.0}
RUNNING = job(0, phase="Training", epochs=20, epoch_seconds=500.0, started_at=int(NOW) - 3600, metrics=TRAINED, ranks=8)


def test_a_running_job_shows_its_progress_in_80_columns() -> None:
    title, headings, row = printed(RUNNING)
    assert title.strip() == "submission 0123abcd"
    assert headings.split() == ["Region", "job", "state", "ranks", "epoch", "left", "top-1", "images/s", "time"]
    assert row.split() == ["us-east-1", "campaign-0", "Training", "8", "7/20", "1h48m", "0.7612", "12,346", "1h00m"]


def test_a_job_on_eks_shows_its_backend_beside_its_region() -> None:
    first = job(0, backend="eks", tried=("us-east-1 eks (capacity)",))
    lines = printed(first, job(2), width=120)
    assert [line.split()[:2] for line in lines[2:]] == [["us-east-1", "eks"], ["eu-west-1", "campaign-2"]]
    assert "us-east-1 eks (capacity)" in lines[2]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_no_name_is_cut(width: int) -> None:
    jobs = [RUNNING, job(1, JobState.FAILED, seconds=200, reason="x", tried=("eu-west-1 (capacity)",)), job(2)]
    lines = printed(*jobs, width=width)
    assert len(lines) == 5
    assert max(len(line.rstrip()) for line in lines) <= width
    assert all(f"campaign-{index}" in lines[2 + index] for index in range(3))
    assert "Failed" in lines[3]


def test_only_the_most_important_columns_are_in_a_narrow_terminal() -> None:
    assert printed(RUNNING, width=40)[1].split() == ["job", "state", "epoch", "time"]


def test_a_wide_terminal_shows_phases_and_earlier_attempts() -> None:
    _, headings, row = printed(job(0, phase="Downloading", tried=("eu-west-1 (capacity)",), ranks=2), width=120)
    assert headings.split() == ["Region", "job", "state", "ranks", "previous", "attempts"]
    assert row.split() == ["us-east-1", "campaign-0", "InProgress:", "Downloading", "2", "eu-west-1", "(capacity)"]


def test_metrics_of_a_script_are_columns() -> None:
    _, headings, row = printed(job(0, JobState.COMPLETED, seconds=90, metrics={"f1": 0.91234, "perplexity": 31.4159}))
    assert headings.split() == ["Region", "job", "state", "f1", "perplexity", "time"]
    assert row.split()[-3:] == ["0.9123", "31.42", "1m30s"]


def test_only_the_main_metrics_of_the_grids_trainer_are_columns() -> None:
    metrics = {"validation_top1": 0.5, "images_per_second": 200.0, "input_seconds": 0.1, "learning_rate": 0.01}
    _, headings, _ = printed(job(0, JobState.COMPLETED, seconds=90, metrics=metrics), width=200)
    assert headings.split() == ["Region", "job", "state", "top-1", "images/s", "time"]


def test_dollars_are_shown_if_they_are_known() -> None:
    _, headings, row = printed(job(0, JobState.COMPLETED, seconds=7200, dollars=1234.5))
    assert (headings.split()[-2:], row.split()[-2:]) == (["time", "$"], ["2h00m", "1,234.50"])


def test_a_cancelled_job_is_shown_as_such_until_it_has_ended() -> None:
    assert "Cancelling" in printed(job(0, phase="Training", cancelled=True))[2]
    assert "Stopped" in printed(job(0, JobState.STOPPED, cancelled=True))[2]


def test_a_name_cannot_control_the_terminal() -> None:
    name = JobStatus(index=0, region="us-east-1", name="\x1b[2Jx", state=JobState.PENDING)
    assert "\\x1b[2Jx" in printed(name)[2]


@pytest.mark.parametrize(
    ("metrics", "epochs", "epoch_seconds", "remaining"),
    [
        ({"epoch": 5.0}, 20, 4.0, 60.0),
        ({"epoch": 20.0}, 20, 4.0, 0.0),
        ({}, 20, 4.0, None),
        ({"epoch": 5.0}, 0, 4.0, None),
        ({"epoch": 5.0}, 20, 0.0, None),
    ],
)
def test_the_remaining_time_assumes_the_measured_pace_and_not_the_time_since_the_start(
    metrics: dict[str, float], epochs: int, epoch_seconds: float, remaining: float | None
) -> None:
    values: dict[str, Any] = {"metrics": metrics, "epochs": epochs, "epoch_seconds": epoch_seconds}
    assert job(0, started_at=int(NOW) - 1000, **values).remaining == remaining
    assert job(0, JobState.COMPLETED, seconds=100, **values).remaining is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.9, "0s"), (59, "59s"), (60, "1m00s"), (3599, "59m59s"), (3600, "1h00m"), (86399, "23h59m"), (90000, "1d01h")],
)
def test_durations_have_at_most_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text
