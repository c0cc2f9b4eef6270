"""Rows: a test that checks all rows of a table, and reports each row that fails by its name."""

import functools
import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import TypeVar

import pytest

Row = TypeVar("Row")
Test = Callable[..., None]


def each_row(argument: str, rows: Iterable[tuple[str, Row]]) -> Callable[[Test], Test]:
    """Call a test for each row, as `pytest.mark.parametrize` does, but as one test with a subtest for each row.

    pytest takes milliseconds to collect a test, in each of its processes; a subtest takes 0.2 ms. All rows share the
    test's fixtures. `pytest FILE --row TEXT` checks only the rows with TEXT in their names.

    Args:
        argument: Argument of the test that is the row.
        rows: Name and value of each row. Rows with the same name are numbered from 0, as pytest numbers ids.

    Raises:
        ValueError: If there are no rows.
    """
    table = _numbered(list(rows))
    if not table:
        message = f"the table of {argument} has no rows"
        raise ValueError(message)

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def test_rows(subtests: pytest.Subtests, pytestconfig: pytest.Config, **fixtures: object) -> None:
            __tracebackhide__ = True
            for name in _selected(table, pytestconfig.getoption("row", "")):
                with subtests.test(name):
                    test(**fixtures, **{argument: table[name]})

        fixtures = [parameter for parameter in _parameters(test) if parameter.name != argument]
        own = _parameters(test_rows, follow_wrapped=False)[:2]
        vars(test_rows).update(row_names=tuple(table), __signature__=inspect.Signature([*own, *fixtures]))
        return test_rows

    return decorate


def _numbered(rows: list[tuple[str, Row]]) -> dict[str, Row]:
    repetitions = Counter(name for name, _ in rows)
    numbers: dict[str, Iterator[int]] = defaultdict(count)
    return {f"{name}{next(numbers[name])}" if repetitions[name] > 1 else name: row for name, row in rows}


def _parameters(test: Test, *, follow_wrapped: bool = True) -> list[inspect.Parameter]:
    signature = inspect.signature(test, follow_wrapped=follow_wrapped)
    # Fixtures are passed by name, so a fixture's parameter may follow one that has a default.
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()]


def _selected(table: dict[str, Row], text: str) -> list[str]:
    names = [name for name in table if text in name]
    if not names:
        pytest.skip(f"no row has {text!r} in its name")
    return names
