"""Lanes: the files that `make test` runs, and those that only `make test-all` runs.

`pytest --lane product` and `pytest --lane rest` share out all files; without the option, pytest runs every file. A new
file belongs to the product lane, unless it is listed here. Two kinds of its tests are in both lanes: those that need a
package (packages.py), because `make test` skips them if the package is missing, and those with the mark `each_lane`,
which check other things in each lane.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_MARKS = ("needs", "each_lane")

REST = (
    "tests/integration/conformance",
    "tests/integration/control_plane/eks/test_hosts.py",
    "tests/integration/control_plane/eks/test_interruptions.py",
    "tests/integration/control_plane/test_algorithm_examples.py",
    "tests/integration/localcloud",
    "tests/integration/posture/test_same_twice.py",
    "tests/integration/posture/test_updates.py",
    "tests/integration/setup/test_extras.py",
    "tests/integration/setup/test_localcloud_alone.py",
    "tests/integration/setup/test_wheel.py",
    "tests/integration/stacks/test_idle_cost.py",
    "tests/integration/verification",
    "tests/e2e/kubernetes/test_destroyed.py",
    "tests/e2e/kubernetes/test_ends.py",
    "tests/e2e/kubernetes/test_obstacles.py",
    "tests/e2e/longer_trainings",
    "tests/e2e/test_deploy_and_destroy.py",
    "tests/e2e/test_image_builds.py",
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
    "tests/training/runs/test_stops_of_scripts.py",
    "tests/training/trainer/data/test_lockstep.py",
)
"""Folders and files of the rest lane: localcloud's own tests and claims about AWS, the fault suite, other kinds of
deployed grids, the life cycle of a grid with the CDK CLI, several hosts and interruptions of EKS, and the trainings of
several ranks of TensorFlow that take longest."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--lane`."""
    parser.addoption("--lane", choices=("product", "rest"), help="run one part of the tests (default: all)")


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", "each_lane: the test is in both lanes, because it checks other things in each")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the files of the other lane."""
    lane = config.getoption("--lane")
    if lane is None or collection_path.suffix != ".py" or lane == lane_of(collection_path):
        return None
    return None if lane == "rest" and _may_have_marks(collection_path) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the product lane's tests, run only those with a mark of `_MARKS` in the rest lane."""
    if config.getoption("--lane") != "rest":
        return
    chosen = {item for item in items if lane_of(item.path) == "rest" or any(map(item.get_closest_marker, _MARKS))}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def lane_of(file: Path) -> str:
    """Return the lane of a test file."""
    name = file.relative_to(ROOT).as_posix()
    return "rest" if any(name == place or name.startswith(f"{place}/") for place in REST) else "product"


def _may_have_marks(file: Path) -> bool:
    """Return False if no test of a file can have a mark: a mark is in the file, or in a hook of its folder."""
    sources = [source.read_text() for source in (file, file.parent / "conftest.py") if source.exists()]
    return any(text in source for text in ("needs(", *_MARKS[1:]) for source in sources)
