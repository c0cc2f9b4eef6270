"""The lanes share out the tests: no file is left out, and every listed place exists."""

from pathlib import Path
from typing import cast

import pytest

from tests.support.lanes import REST, lane_of, pytest_ignore_collect

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("place", REST)
def test_a_listed_place_exists(place: str) -> None:
    assert (ROOT / place).exists()


def test_every_file_of_tests_is_in_a_lane() -> None:
    files = [
        file
        for folder in ("unit", "integration", "e2e", "training")
        for file in (ROOT / "tests" / folder).rglob("test_*.py")
    ]
    assert len(files) > 300
    assert {lane_of(file) for file in files} == {"product", "rest"}


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("tests/unit/manifest/test_forms.py", "product"),
        ("tests/integration/localcloud/sagemaker/test_pipe.py", "rest"),
        ("tests/e2e/two_regions/test_trainings.py", "product"),
        ("tests/e2e/longer_trainings/test_pipe.py", "rest"),
    ],
)
def test_a_file_is_in_the_lane_of_its_folder(file: str, expected: str) -> None:
    assert lane_of(ROOT / file) == expected


class Options:
    """The part of pytest's configuration that the hook reads."""

    def __init__(self, lane: str | None) -> None:
        self.lane = lane

    def getoption(self, _name: str) -> str | None:
        return self.lane


@pytest.mark.parametrize(("lane", "ignored"), [("product", "localcloud"), ("rest", "eks"), (None, None)])
def test_pytest_ignores_the_files_of_the_other_lane(lane: str | None, ignored: str | None) -> None:
    files = {
        "localcloud": ROOT / "tests/integration/localcloud/sagemaker/test_pipe.py",
        "eks": ROOT / "tests/integration/eks/test_ends.py",
        "tests that need packages": ROOT / "tests/integration/stacks/test_images.py",
        "posture": ROOT / "tests/integration/posture/test_rules.py",
    }
    config = cast(pytest.Config, Options(lane))
    assert [name for name, file in files.items() if pytest_ignore_collect(file, config)] == (
        [ignored] if ignored else []
    )
