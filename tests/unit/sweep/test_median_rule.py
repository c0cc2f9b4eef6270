"""Median rule: which running trials are stopped."""

from traingrid.sweep.median_rule import early_stops
from traingrid.sweep.spec import EarlyStopping, Objective

LOSS = Objective(metric="loss", direction="minimize")
COMPLETE = [[(1, 1.0), (2, 0.5)], [(1, 3.0), (2, 2.0)], [(1, 4.0), (2, 3.0)]]
RULE = EarlyStopping(min_epochs=1, min_trials=3)


def test_a_trial_below_the_median_of_its_epoch_is_stopped() -> None:
    (found,) = early_stops(RULE, LOSS, {7: [(1, 3.5)], 8: [(1, 2.5)], 9: []}, COMPLETE)
    assert (found.trial, found.epoch, found.best, found.median) == (7, 1, 3.5, 3.0)


def test_the_best_value_so_far_counts() -> None:
    assert early_stops(RULE, LOSS, {7: [(1, 0.9), (2, 9.0)]}, COMPLETE) == []


def test_a_higher_value_is_better_if_the_metric_is_maximized() -> None:
    top1 = Objective(metric="top1", direction="maximize")
    assert [one.trial for one in early_stops(RULE, top1, {7: [(1, 3.5)], 8: [(1, 2.5)]}, COMPLETE)] == [8]


def test_no_trial_is_stopped_too_early() -> None:
    bad = {7: [(1, 99.0)]}
    assert early_stops(EarlyStopping(min_epochs=2, min_trials=3), LOSS, bad, COMPLETE) == []
    assert early_stops(EarlyStopping(min_epochs=1, min_trials=4), LOSS, bad, COMPLETE) == []
    assert early_stops(RULE, LOSS, bad, [[(5, 1.0)]] * 3) == []


def test_an_equal_trial_continues() -> None:
    assert early_stops(RULE, LOSS, {7: [(1, 3.0)]}, COMPLETE) == []
