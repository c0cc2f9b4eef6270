"""Skipped tests: each names the package that it waits for, and the end of a run counts them by package."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support import packages

FILES = {
    "conftest.py": 'pytest_plugins = ["tests.support.skipped_tests"]\n',
    "test_marked.py": """
from tests.support.packages import needs
pytestmark = needs("chromium")
def test_page(): raise AssertionError("it runs")
def test_form(): raise AssertionError("it runs")
""",
    "test_required.py": """
from tests.support.packages import needs, require
def test_server(): require("SDK_V3_PYTHON")
@needs("chromium")
@needs("HOROVOD_EXAMPLES")
def test_both(): raise AssertionError("it runs")
def test_without(): pass
""",
}


def run(folder: Path, *options: str, ci: str) -> "subprocess.CompletedProcess[str]":
    """Run `FILES` where no package is installed."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, str(folder)]
    environment = {"PATH": "", "PYTHONPATH": str(packages.ROOT), "CI": ci}
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def test_a_run_on_several_workers_counts_its_skipped_tests_by_package(tmp_path: Path) -> None:
    ended = run(tmp_path, "--numprocesses", "1", ci="")
    assert ended.returncode == 0, ended.stdout
    assert "\n4 tests were skipped: 2 need chromium, 1 needs " in ended.stdout
    assert "1 needs SDK_V3_PYTHON" in ended.stdout
    assert "1 needs HOROVOD_EXAMPLES and chromium" in ended.stdout


def test_in_ci_a_missing_package_is_a_failure(tmp_path: Path) -> None:
    ended = run(tmp_path, "-p", "no:xdist", ci="true")
    assert ended.returncode == 1, ended.stdout
    assert "1 passed, 1 skipped, 3 errors" in ended.stdout
    assert "\n1 test was skipped: 1 needs SDK_V3_PYTHON.\n" in ended.stdout


def test_no_test_is_skipped_without_a_package() -> None:
    skip = re.compile(r"\b(?:skipif|importorskip|pytest\.skip|mark\.skip)\(")
    files = [path for path in (packages.ROOT / "tests").rglob("*.py") if "node_modules" not in path.parts]
    found = {path.relative_to(packages.ROOT).as_posix() for path in files if skip.search(path.read_text())}
    assert found == {"tests/support/packages.py", "tests/support/rows.py"}  # the latter: no row has the text of --row
