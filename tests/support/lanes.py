"""Lanes: the files that `make test` runs, and those that only `make test-all` runs.

`pytest --lane product` and `pytest --lane rest` share out all files; without the option, pytest runs every file. A new
file belongs to the product lane, unless it is listed here.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

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
)
"""Folders and files of the rest lane: localcloud's own tests, the fault suite, and other kinds of deployed grids."""

BOTH = ("tests/integration/posture/test_rules.py", "tests/integration/posture/test_scanners.py")
"""Files in both lanes: `make test` checks a choice of grids, and `make test-all` every kind."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--lane`."""
    parser.addoption("--lane", choices=("product", "rest"), help="run one part of the tests (default: all)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the files of the other lane."""
    lane = config.getoption("--lane")
    if lane is None or collection_path.suffix != ".py":
        return None
    return None if lane in lanes(collection_path) else True


def lanes(file: Path) -> set[str]:
    """Return the lanes of a test file."""
    name = file.relative_to(ROOT).as_posix()
    if _within(name, BOTH):
        return {"product", "rest"}
    return {"rest"} if _within(name, REST) else {"product"}


def _within(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(f"{place}/") for place in places)
