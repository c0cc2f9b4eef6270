"""Training progress: the last value of each metric in the lines of a log."""

from traingrid.child.progress import MetricProgress


def test_a_value_that_is_no_number_keeps_the_last_one() -> None:
    progress = MetricProgress({"loss": r"loss=(\S+)", "score": r"score(?:=(\d+))?"})
    assert progress.read("loss=0.5 score=3")
    assert progress.read("loss=- score"), "the group of the score took no part in the match"
    assert progress.values == {"loss": 0.5, "score": 3.0}
    assert not progress.read("epoch 1 of 2")
