"""The wheel contains every file that its packages need, and its commands run outside of a checkout."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import traingrid

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("traingrid", "localcloud", "verification")
MANIFEST = "us-east-1,s3://campaigns-iad/2026-10\n"


def packaged_sources() -> set[str]:
    """Return the files of the packages that pyproject.toml includes, as git lists them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the content of the wheel, built from a copy of the sources without an earlier build's files."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE", *packaged_sources()):
        target = folder / "sources" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=folder / "sources", check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def run(site: Path, folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run the wheel's command in a folder outside of the checkout, without credentials."""
    program = f"import sys; sys.path.insert(0, {str(site)!r}); from traingrid.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-I", "-c", program, *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "AWS_EC2_METADATA_DISABLED": "true"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_wheel_contains_every_file_of_its_packages(site: Path) -> None:
    packed = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    assert {name for name in packed if ".dist-info/" not in name} == packaged_sources()
    assert {"traingrid/py.typed", "localcloud/iam/required_permissions.json"} <= packed


def test_the_version_has_one_source(site: Path) -> None:
    (information,) = site.glob("*.dist-info/METADATA")
    found = metadata.PathDistribution(information.parent)
    assert found.version == traingrid.__version__
    assert "__version__" in traingrid.__all__
    assert found.metadata["Requires-Python"] == ">=3.11"


def test_the_changelog_describes_the_version() -> None:
    releases = re.findall(r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == traingrid.__version__


def test_the_extras_have_the_locked_versions() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    groups = tomllib.loads((ROOT / "setup/pyproject.toml").read_text())["dependency-groups"]
    for extra in ("local", "rehearse"):
        assert set(extras[extra]) - {"traingrid[local]"} <= {*groups["app"], *groups["dev"]}


def test_every_command_has_help_outside_of_the_checkout(site: Path, tmp_path: Path) -> None:
    ended = run(site, tmp_path, "--help")
    assert ended.returncode == 0, ended.stderr
    for command in re.findall(r"^  ([a-z]+)  ", ended.stdout.partition("Commands:")[2], re.MULTILINE):
        ended = run(site, tmp_path, command, "--help")
        assert (ended.returncode, ended.stderr) == (0, ""), command


@pytest.mark.parametrize("words", [["rehearse", "m.csv"], ["local", "push"]])
def test_a_command_that_needs_the_checkout_ends_with_a_sentence(site: Path, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "m.csv").write_text(MANIFEST)
    ended = run(site, tmp_path, *words)
    assert ended.returncode == 2
    assert f"which an installed package lacks: traingrid runs from {site}." in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_local_aws_runs_outside_of_the_checkout(site: Path, tmp_path: Path) -> None:
    """The server starts in the folder of its packages, so it needs the wheel's data files."""
    up = run(site, tmp_path, "local", "up")
    try:
        assert up.returncode == 0, up.stderr
        assert "It cannot run jobs, because traingrid is installed without its checkout." in up.stderr
        found = run(site, tmp_path, "local", "status")
        assert (found.returncode, found.stderr) == (0, "")
        (pid,) = re.findall(r"\(pid (\d+)\)", found.stdout)
        assert Path(f"/proc/{pid}/cwd").resolve() == site or sys.platform != "linux"
    finally:
        down = run(site, tmp_path, "local", "down")
    assert (down.returncode, down.stderr) == (0, "stopped\n")
