"""Epoch pace: the seconds of an epoch, from the times of two reads of a log."""

import pytest

from traingrid.child.epoch_pace import EpochPace


@pytest.mark.parametrize(
    ("reads", "seconds"),
    [
        ([], 0.0),
        ([(1.0, 300.0)], 0.0),
        ([(None, 10.0), (1.0, 300.0), (1.0, 310.0), (2.0, 320.0)], 20.0),
        ([(1.0, 300.0), (3.0, 320.0), (11.0, 380.0)], 8.0),
        ([(7.0, 300.0), (8.0, 350.0)], 50.0),
        ([(1.0, 300.0), (5.0, 340.0), (3.0, 900.0)], 10.0),
        ([(1.0, 300.0), (5.0, 340.0), (3.0, 900.0), (4.0, 930.0)], 30.0),
        ([(1.0, 300.0), (1.0 + 1e-12, 400.0)], 1e9),
    ],
    ids=["no read", "one epoch", "start-up", "several epochs", "later child", "restart", "after a restart", "no room"],
)
def test_the_pace_is_that_between_two_reads_of_the_log(reads: list[tuple[float | None, float]], seconds: float) -> None:
    pace = EpochPace()
    for epoch, now in reads:
        pace.read(epoch, now)
    assert pace.seconds == pytest.approx(seconds)


def test_time_without_instances_does_not_count() -> None:
    pace = EpochPace()
    for epoch, now in ((1.0, 0.0), (3.0, 7200.0)):
        pace.read(epoch, now)
    pace.restart()
    assert pace.seconds == 3600.0
    pace.read(4.0, 30_000.0)
    assert pace.seconds == 3600.0
    pace.read(5.0, 34_000.0)
    assert pace.seconds == 4000.0
