"""The wheels contain every file that their packages need, and their commands run outside of a checkout."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import localcloud
import traingrid

ROOT = Path(__file__).resolve().parents[3]
PROJECTS = {"traingrid": ".", "localcloud": "localcloud"}
"""By package, the folder of its distribution's pyproject.toml."""
NOT_PACKED = {"localcloud/pyproject.toml", "localcloud/README.md"}
MANIFEST = "us-east-1,s3://campaigns-iad/2026-10\n"


def packaged_sources(*packages: str) -> set[str]:
    """Return the files of packages, as git lists them; by default, of all distributions."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *(packages or PROJECTS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def copy_sources(folder: Path) -> Path:
    """Copy the sources of both distributions, because a build leaves files in its folder."""
    for name in ("pyproject.toml", "README.md", "LICENSE", *packaged_sources()):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the content of both wheels."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = copy_sources(folder / "sources")
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(folder)!r})"
    for project in PROJECTS.values():
        subprocess.run(
            [sys.executable, "-c", build], cwd=sources / project, check=True, capture_output=True, timeout=300
        )
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder / "site")
    return folder / "site"


def distribution(site: Path, package: str) -> metadata.PathDistribution:
    """Return the distribution of a package."""
    (record,) = site.glob(f"{'traingrid_localcloud' if package == 'localcloud' else package}-*.dist-info")
    return metadata.PathDistribution(record)


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


@pytest.mark.parametrize("package", PROJECTS)
def test_a_wheel_contains_every_file_of_its_package_and_no_other_package(site: Path, package: str) -> None:
    packed = {str(path) for path in distribution(site, package).files or () if ".dist-info/" not in str(path)}
    assert packed == packaged_sources(package) - NOT_PACKED
    data = {"traingrid": "traingrid/py.typed", "localcloud": "localcloud/iam/required_permissions.json"}
    assert data[package] in packed


@pytest.mark.parametrize("module", [traingrid, localcloud])
def test_the_version_has_one_source(site: Path, module: Any) -> None:
    information = distribution(site, module.__name__)
    assert information.version == module.__version__
    assert information.metadata["Requires-Python"] == ">=3.11"


def test_the_library_exports_its_version() -> None:
    assert "__version__" in traingrid.__all__


def test_the_changelog_describes_the_version() -> None:
    releases = re.findall(r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == traingrid.__version__


def test_the_distributions_of_a_checkout_have_the_locked_versions() -> None:
    def project(folder: str) -> Any:
        return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]

    groups = tomllib.loads((ROOT / "setup/pyproject.toml").read_text())["dependency-groups"]
    required = project("localcloud")["dependencies"] + project("verification")["dependencies"]
    pinned = {requirement for requirement in required if "==" in requirement}
    assert len(pinned) == 4
    assert pinned <= {*groups["app"], *groups["dev"]}
    assert project(".")["optional-dependencies"]["local"] == [f"traingrid-localcloud=={localcloud.__version__}"]


@pytest.mark.parametrize("folder", ["localcloud", "verification"])
def test_a_distribution_lists_all_its_packages(folder: str) -> None:
    listed = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    packages = {Path(name).parent for name in packaged_sources(folder) if name.endswith(".py")}
    assert sorted(listed) == sorted(".".join(package.parts) for package in packages)


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
