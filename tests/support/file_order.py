"""File order: a plugin of pytest that starts with the longest files, or runs the files in a random order."""

import random

import pytest

FIRST = ("tests/integration/verification/faults/test_suite.py", "tests/integration/verification/")
"""The file that takes longest of all, and a folder whose files mostly wait. They start first; otherwise their workers
end minutes after the others."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--order-seed`."""
    parser.addoption("--order-seed", type=int, metavar="N", help="run the files in a random order, the same for each N")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Print the seed."""
    seed = config.getoption("order_seed")
    return [] if seed is None else [f"random order of files: --order-seed {seed}"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the files, or move those of `FIRST` to the start."""
    seed = config.getoption("order_seed")
    if seed is None:
        items.sort(key=lambda item: [not item.nodeid.startswith(file) for file in FIRST])
        return
    files = sorted({item.path for item in items})
    random.Random(seed).shuffle(files)
    items.sort(key=lambda item: files.index(item.path))
