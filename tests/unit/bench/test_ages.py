"""Ages of results: the commits of its code since a result was measured, in a repository, a part of it, and none."""

import re
import subprocess
from pathlib import Path

import pytest

from bench import ages
from bench.ages import Measured, measured, verdict
from bench.machine import CHECKOUT
from bench.measured_code import CODE
from bench.results_file import UNKNOWN, commit

RESULTS = sorted(path.stem for path in (CHECKOUT / "bench/results").glob("*.json"))


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def change(folder: Path, path: str) -> str:
    """Commit a change of a file, and return the commit."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text((file.read_text() if file.exists() else "") + "x\n")
    git(folder, "add", path)
    git(folder, "commit", "--quiet", "--message", path)
    return git(folder, "rev-parse", "--short=12", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    return folder


def plan(commit: str) -> Measured:
    return Measured(result="plan", part="", at="2026-11-23T10:00:00Z", commit=commit, machine="2 cores")


def test_the_age_counts_changes_of_the_measured_code_only(repository: Path) -> None:
    first = change(repository, "traingrid/planner/solver.py")
    assert plan(first).age(repository) == 0
    for path in ("traingrid/planner/solver.py", "docs/planner.md", "traingrid/planner/plan.py"):
        change(repository, path)
    assert plan(first).age(repository) == 2
    assert plan(f"{first}-dirty").age(repository) == 2


def test_the_age_is_unknown_without_the_history(repository: Path, tmp_path: Path) -> None:
    first = change(repository, "traingrid/planner/solver.py")
    change(repository, "traingrid/planner/solver.py")
    git(tmp_path, "clone", "--quiet", "--depth=1", repository.as_uri(), "shallow")
    assert plan(first).age(tmp_path / "shallow") is None
    assert plan(UNKNOWN).age(repository) is None
    assert verdict(None) == "unknown: the history is not complete"


def test_a_result_is_old_after_200_commits() -> None:
    assert not verdict(ages.OLD).startswith("old")
    assert verdict(ages.OLD + 1) == "old: 201 commits of its code since"


def test_a_commit_is_marked_if_the_measured_code_differs_from_it(repository: Path) -> None:
    head = change(repository, "traingrid/planner/solver.py")
    change(repository, "bench/results/plan.json")
    head = git(repository, "rev-parse", "--short=12", "HEAD")
    (repository / "bench/results/plan.json").write_text("{}")
    assert commit(CODE["plan"], repository) == head
    assert commit((), repository) == f"{head}-dirty"
    (repository / "traingrid/planner/solver.py").write_text("y")
    assert commit(CODE["plan"], repository) == f"{head}-dirty"


def test_a_copy_without_history_has_no_commit(tmp_path: Path) -> None:
    assert commit((), tmp_path) == UNKNOWN


@pytest.mark.parametrize("name", RESULTS)
def test_each_result_has_its_code_its_commit_and_its_machine(name: str) -> None:
    assert all((CHECKOUT / path).exists() for path in CODE[name])
    for one in measured(name):
        assert len(one.commit.removesuffix(ages.DIRTY)) >= 7
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}Z", one.at)
        assert "cores" in one.machine
