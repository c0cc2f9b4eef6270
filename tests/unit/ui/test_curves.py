"""Curves: the values of each metric of the last attempt of each compared job."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from tests.support.local_page import SUBMISSION, LocalGrid
from traingrid.errors import TraingridError, UsageError
from traingrid.metrics.history import MetricHistory
from traingrid.metrics.points import MetricPoint
from traingrid.ui.curves import Curves


def point(metric: str, value: float, epoch: int | None, attempt: int = 1) -> MetricPoint:
    time = datetime.fromtimestamp(1000 + (epoch or 0), UTC)
    return MetricPoint(
        index=0, region="us-east-1", attempt=attempt, metric=metric, value=value, step=None, epoch=epoch, time=time
    )


def history(
    monkeypatch: pytest.MonkeyPatch, points: Mapping[int, list[MetricPoint] | Exception]
) -> list[MetricHistory]:
    """Replace the values of jobs, and return the histories in the order of their reads."""
    used: list[MetricHistory] = []

    def read(self: MetricHistory, index: int | None = None) -> list[MetricPoint]:
        used.append(self)
        found = points[index or 0]
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(MetricHistory, "read", read)
    return used


def test_each_metric_of_the_last_attempt_is_a_curve(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [point("loss", 9, 1), point("loss", 3, 1, 2), point("epoch", 1, 1, 2), point("loss", 2, 2, 2)]
    history(monkeypatch, {0: points})
    (curve,) = Curves(local.plane).read([f"{SUBMISSION}/0"])["curves"]
    expected = {"metric": "loss", "epochs": [1, 2], "times": [1001.0, 1002.0], "values": [3, 2]}
    assert curve == {"job": f"{SUBMISSION}/0", **expected}


def test_a_job_that_cannot_be_read_does_not_hide_the_others(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    history(monkeypatch, {0: TraingridError("eu-west-1 does not answer."), 1: [point("loss", 1, None)]})
    found = Curves(local.plane).read([f"{SUBMISSION}/0", f"{SUBMISSION}/1"])
    assert [curve["job"] for curve in found["curves"]] == [f"{SUBMISSION}/1"]
    assert found["errors"] == [f"{SUBMISSION}/0: eu-west-1 does not answer."]


def test_a_second_read_of_a_job_continues_the_first(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    used = history(monkeypatch, {0: []})
    curves = Curves(local.plane)
    curves.read([f"{SUBMISSION}/0"])
    curves.read([f"{SUBMISSION}/0"])
    assert used[0] is used[1]


@pytest.mark.parametrize("key", ["", "/", "0123abcd", "0123abcd/x", "0123abcd/-1", "0123abcd/01", "0123abcd/²"])
def test_an_invalid_job_is_a_sentence(local: LocalGrid, key: str) -> None:
    assert "is not a job. Write SUBMISSION/INDEX." in Curves(local.plane).read([key])["errors"][0]


def test_too_many_jobs_are_refused(local: LocalGrid) -> None:
    with pytest.raises(UsageError, match="Compare at most 8 jobs"):
        Curves(local.plane).read([f"{SUBMISSION}/{index}" for index in range(9)])
