"""Guard of the benchmarks: a slower commit is red, a noisy one is not, and an accepted one is named."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, cycle
from pathlib import Path

import pytest

from bench import guard, guard_cases
from bench.guard_base import MissingBaseError, Tree, base_commit, checked_out
from bench.machine import CHECKOUT

BASE, NEW = (Tree(folder=Path(name), python=Path(sys.executable)) for name in ("base", "new"))
ROW = "| parse | CPU s | 1.5 | Check clusters of lines | each line is checked against its clusters |"
HEADER = "# Accepted\n\n| benchmark | figure | up to | commit | reason |\n|---|---|---|---|---|\n"


def runs(base: list[float], new: list[float]) -> Callable[[Tree, str], Mapping[str, float | str]]:
    """Return a benchmark whose runs have these values, repeatedly, after one run of the base that does not count."""
    values: dict[str, Iterator[float]] = {"base": chain([99.0], cycle(base)), "new": cycle(new)}
    return lambda tree, _: {"CPU s": next(values[tree.folder.name]), "calls": 7.0}


def outcome(base: list[float], new: list[float], accepted: str = "") -> int:
    return guard.report(["parse"], BASE, NEW, guard.accepted_rows(HEADER + accepted), runs(base, new))


def test_a_slower_commit_is_red(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome([1.0, 1.02, 0.98, 1.0], [1.3, 1.32, 1.28, 1.35]) == 1
    row, calls = capsys.readouterr().out.splitlines()[1:]
    assert row.split() == ["parse", "CPU", "s", "1", "1.31", "1.28", "to", "1.35", "red"]
    assert "red" not in calls


@pytest.mark.parametrize(
    ("base", "new"),
    [
        pytest.param([1.0, 1.0, 1.0, 1.0], [1.09, 1.4, 1.4, 1.4], id="one-run-was-as-fast"),
        pytest.param([1.0, 1.0, 1.0, 1.6], [1.3, 1.4, 1.5, 1.5], id="the-base-is-as-slow-at-times"),
        pytest.param([1.0, 1.0, 1.0, 1.0], [1.08, 1.09, 1.09, 1.1], id="below-the-limit"),
        pytest.param([1.0, 1.0, 1.0, 1.0], [0.5, 0.5, 0.5, 0.5], id="faster"),
    ],
)
def test_a_noisy_or_slightly_slower_commit_is_not_red(base: list[float], new: list[float]) -> None:
    assert outcome(base, new) == 0


@pytest.mark.parametrize(
    ("base", "new"),
    [
        pytest.param([1.0] * 8, [*[1.3] * 4, *[1.0] * 4], id="only-the-first-runs-were-slow"),
        pytest.param([*[1.0] * 8, *[1.4] * 4], [1.3] * 12, id="the-base-is-as-slow-in-the-last-runs"),
    ],
)
def test_a_red_time_that_is_not_confirmed_is_not_red(base: list[float], new: list[float]) -> None:
    assert outcome(base, new) == 0


def test_an_accepted_regression_is_named_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome([1.0] * 4, [1.3] * 4, ROW) == 0
    assert "accepted: each line" in capsys.readouterr().out


def test_a_regression_above_the_accepted_ratio_is_red() -> None:
    assert outcome([1.0] * 4, [1.6] * 4, ROW) == 1


def test_a_regression_must_be_accepted_with_a_reason() -> None:
    with pytest.raises(ValueError, match="reason"):
        guard.accepted_rows(HEADER + "| parse | CPU s | 1.5 | Check clusters of lines | |")


def test_a_benchmark_that_the_base_lacks_is_skipped_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    def run(_tree: Tree, _benchmark: str) -> dict[str, float | str]:
        return {"skipped": "ImportError: no module"}

    assert guard.report(["parse"], BASE, NEW, {}, run) == 0
    assert "ImportError" in capsys.readouterr().out


def test_a_benchmark_that_this_commit_cannot_run_is_an_error() -> None:
    def run(tree: Tree, _benchmark: str) -> dict[str, float | str]:
        return {"skipped": "ImportError"} if tree == NEW else {"CPU s": 1.0}

    with pytest.raises(RuntimeError, match="cannot run in this commit"):
        guard.report(["parse"], BASE, NEW, {}, run)


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of two commits, the second of which makes the value 2 of the first one 3."""
    folder = tmp_path / "repository"
    (folder / "bench").mkdir(parents=True)
    git(folder, "init", "--quiet")
    for value in (2, 3):
        (folder / "bench" / "guard_cases.py").write_text(f"# {value}\nimport value\nprint({{}})\n")
        (folder / "value.py").write_text(f"print('{{\"calls\": {value}}}')\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", str(value))
    return folder


def test_the_base_has_its_own_code_and_this_commits_benchmarks_and_is_removed(repository: Path) -> None:
    with checked_out(repository, base_commit(repository, "HEAD~1")) as base:
        assert (base.folder / "value.py").read_text() == (git(repository, "show", "HEAD~1:value.py")), (
            "the code of the base"
        )
        assert (base.folder / "bench" / "guard_cases.py").read_text().startswith("# 3")
    assert not base.folder.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_the_last_release_is_the_base_if_there_is_one(repository: Path) -> None:
    git(repository, "tag", "v1.0", "HEAD~1")
    assert base_commit(repository, "HEAD") == "v1.0"


def test_a_clone_without_the_base_is_told_how_to_get_it(repository: Path, tmp_path: Path) -> None:
    shallow, base = tmp_path / "shallow", git(repository, "rev-parse", "HEAD~1").strip()
    git(tmp_path, "clone", "--quiet", "--depth", "1", repository.as_uri(), str(shallow))
    with pytest.raises(MissingBaseError, match=f"lacks the base commit {base}; run `git fetch --unshallow"):
        base_commit(shallow, base)


@pytest.mark.parametrize(("benchmark", "calls"), [("command-status", 1), ("child", 2)])
def test_a_benchmark_runs_in_its_own_process_with_the_packages_of_a_tree(benchmark: str, calls: int) -> None:
    figures = guard.run_once(Tree(folder=CHECKOUT, python=Path(sys.executable)), benchmark)
    assert float(figures["calls"]) >= calls
    assert float(figures["CPU s"]) > 0
    assert benchmark in guard_cases.CASES


def test_the_committed_rows_are_of_known_benchmarks() -> None:
    rows = guard.accepted_rows((CHECKOUT / "bench" / "accepted.md").read_text())
    assert {benchmark for benchmark, _ in rows} <= guard_cases.CASES.keys()
