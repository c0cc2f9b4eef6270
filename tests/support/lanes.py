"""Lanes: the files that `make test` runs, and those that only `make test-all` runs.

`pytest --lane product` and `pytest --lane rest` share out all files; without the option, pytest runs every file. A new
file belongs to the product lane, unless it is listed here. Its tests that need a package (packages.py) are in both,
because `make test` skips them if the package is missing.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_MARK = "needs("

REST = (
    "tests/integration/localcloud",
    "tests/integration/posture/test_updates.py",
    "tests/integration/verification",
    "tests/e2e/test_image_builds.py",
    "tests/e2e/test_init_from.py",
    "tests/e2e/test_merge.py",
    "tests/e2e/test_pipe.py",
    "tests/e2e/test_queued.py",
    "tests/e2e/test_sweep.py",
    "tests/e2e/test_two_accounts.py",
    "tests/e2e/test_updates.py",
    "tests/training/merge/test_merge.py",
    "tests/training/runs/test_bench_gpu.py",
    "tests/training/runs/test_examples.py",
    "tests/training/runs/test_modes.py",
    "tests/training/runs/test_resume.py",
    "tests/training/runs/test_runs.py",
    "tests/training/trainer/data/test_lockstep.py",
)
"""Folders and files of the rest lane: localcloud's own tests, the fault suite, other kinds of deployed grids, and the
trainings of several ranks of TensorFlow that take longest."""

BOTH = (
    "tests/integration/catalog",
    "tests/integration/posture/test_rules.py",
    "tests/integration/posture/test_scanners.py",
)
"""Folders and files in both lanes: `make test` checks SQLite and a choice of grids, and `make test-all` everything."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--lane`."""
    parser.addoption("--lane", choices=("product", "rest"), help="run one part of the tests (default: all)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the files of the other lane."""
    lane = config.getoption("--lane")
    if lane is None or collection_path.suffix != ".py" or lane in lanes(collection_path):
        return None
    return None if lane == "rest" and _MARK in collection_path.read_text() else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the product lane's tests, run only those in the rest lane that `make test` may have skipped."""
    if config.getoption("--lane") != "rest":
        return
    left = [item for item in items if "rest" not in lanes(item.path) and item.get_closest_marker("needs") is None]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in set(left)]


def lanes(file: Path) -> set[str]:
    """Return the lanes of a test file."""
    name = file.relative_to(ROOT).as_posix()
    if _within(name, BOTH):
        return {"product", "rest"}
    return {"rest"} if _within(name, REST) else {"product"}


def _within(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(f"{place}/") for place in places)
