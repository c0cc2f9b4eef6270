"""Each extra of pyproject.toml, installed by uv into an empty environment, has all imports of its command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.setup.test_wheel import copy_sources
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[3]
LOCKED = ("requirements.txt", "setup/requirements/dev.txt")
EXTRAS = {
    "catalog": ("traingrid.catalog", ("catalog", "--help")),
    "plan": ("traingrid.planner", ("plan", "--help")),
    "sweep": ("traingrid.sweep", ("sweep", "--help")),
    "local": ("localcloud", ("local", "up")),
    "ui": ("traingrid.ui", ("ui", "--help")),
}
"""By extra, the package whose modules it is for, and its command."""
IMPORT_ALL = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
"""


def run(folder: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a program in a folder, with these variables only: without credentials and without this checkout's modules."""
    return subprocess.run(
        words, cwd=folder, env={"AWS_EC2_METADATA_DISABLED": "true", **variables}, capture_output=True, text=True,
        check=False, timeout=400,
    )  # fmt: skip


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the distributions."""
    return copy_sources(tmp_path_factory.mktemp("sources"))


def environment(folder: Path, *requirements: str) -> Path:
    """Install requirements with the locked versions into a new environment, and return its folder of programs."""
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    uv = run(ROOT, "setup/uv.sh", **variables).stdout.strip()
    constraints = [word for path in LOCKED for word in ("--constraint", str(ROOT / path))]
    programs = folder / "bin"
    for words in (
        ("venv", "--python", sys.executable, str(folder)),
        ("pip", "install", "--python", str(programs / "python"), *constraints, *requirements),
    ):
        ended = run(ROOT, uv, *words, "--quiet", **variables)
        assert ended.returncode == 0, ended.stderr
    return programs


@each_row("extra", ((name, (name, *described)) for name, described in EXTRAS.items()))
def test_an_extra_is_complete(extra: tuple[str, str, tuple[str, ...]], sources: Path, tmp_path: Path) -> None:
    name, package, command = extra
    local = [f"traingrid-localcloud @ file://{sources}/localcloud"] if name == "local" else []
    programs = environment(tmp_path / name, f"traingrid[{name}] @ file://{sources}", *local)
    folder = tmp_path / f"empty-{name}"
    folder.mkdir()
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    imported = run(folder, str(programs / "python"), "-c", IMPORT_ALL, package, **variables)
    assert imported.returncode == 0, imported.stderr
    ended = run(folder, str(programs / "traingrid"), *command, **variables)
    if name == "local":
        run(folder, str(programs / "traingrid"), "local", "down", **variables)
    assert ended.returncode == 0, ended.stderr
