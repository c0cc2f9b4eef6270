"""Threads: the order of results, the values that are read ahead, and the end after an error."""

import threading
from collections.abc import Generator
from contextlib import closing

import pytest

from traingrid.threads import map_in_order


def test_results_have_the_order_of_their_values_whichever_call_ends_first() -> None:
    second_ended = threading.Event()

    def work(value: int) -> int:
        if value == 1:
            assert second_ended.wait(60)
        elif value == 2:
            second_ended.set()
        return -value

    assert list(map_in_order(work, [1, 2, 3], 2)) == [-1, -2, -3]
    assert list(map_in_order(work, [], 0)) == []


def test_an_endless_iterator_is_read_only_a_few_values_ahead() -> None:
    values = iter(range(1_000_000))
    results = map_in_order(abs, values, 2)
    assert [next(results), next(results)] == [0, 1]
    assert next(values) <= 2 + 2 * 2


def test_the_first_error_cancels_the_calls_that_have_not_begun() -> None:
    begun, stop = list[int](), threading.Event()

    def work(value: int) -> None:
        begun.append(value)
        if value == 0:
            raise ValueError("the first")
        assert stop.wait(60)

    with pytest.raises(ValueError, match="the first"):
        list(map_in_order(work, range(100), 2, stop))
    assert max(begun) < 100 - 1
    assert stop.is_set()


def test_a_reader_that_ends_early_stops_the_calls() -> None:
    stop = threading.Event()

    def results() -> Generator[int, None, None]:
        yield from map_in_order(lambda value: value if value == 0 else int(stop.wait(60)), range(8), 2, stop)

    with closing(results()) as reader:
        assert next(reader) == 0
    assert stop.is_set()
