"""Windows: the deadlines up to which the solver counts the accelerator-hours of jobs."""

import numpy as np

from traingrid.planner.choices import MAX_WINDOWS, _window_ends


def test_few_deadlines_are_all_ends_of_windows() -> None:
    assert _window_ends(np.array([3.0, 1.0, 3.0]), 10.0).tolist() == [1.0, 3.0, 10.0]
    deadlines = np.arange(1.0, MAX_WINDOWS)
    assert _window_ends(deadlines, 50.0).tolist() == [*deadlines, 50.0]


def test_of_many_deadlines_a_selection_with_the_first_and_the_horizon_remains() -> None:
    deadlines = np.arange(1.0, 101.0)
    ends = _window_ends(deadlines, 200.0)
    assert len(ends) == MAX_WINDOWS
    assert (ends[0], ends[-1]) == (1.0, 200.0)
    assert set(ends[:-1]) <= set(deadlines)
