"""Script packages: installs a script's requirements.txt for its job only, in addition to the image's packages.

A virtual environment in the job's folder contains the packages that the image lacks. The image's Python does not
change, so other jobs on the same host, later or at the same time, do not see these packages.
"""

import importlib.metadata
import os
import re
import site
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REQUIREMENTS = "requirements.txt"
_FOLDER = "packages"
_MINIMUM = re.compile(r"([\w.-]+)(?:\s*>=\s*([\d.]+))?")  # a requirement such as setuptools>=61


def install(code: Path, constraints: Path, base: Path) -> "subprocess.CompletedProcess[str]":
    """Install a folder's requirements.txt and its package into the job's environment; it has at least one of them.

    pip skips packages that the image already has.

    Args:
        code: The folder of the script.
        constraints: A file with versions that pip must not change.
        base: The job's folder, /opt/ml.

    Returns:
        The completed pip process, with its output and exit status.
    """
    environment = base / _FOLDER
    venv.EnvBuilder(symlinks=True).create(environment)
    # A virtual environment created from another one sees the base Python's packages, but not those of the other one.
    (_packages(environment) / "image.pth").write_text(
        "".join(f"import site; site.addsitedir({folder!r})\n" for folder in site.getsitepackages())
    )
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install"]
    pip += ["--disable-pip-version-check", "--no-color", "--constraint", str(constraints)]
    installs = []
    if (code / REQUIREMENTS).is_file():
        installs.append(["--requirement", REQUIREMENTS])
    if is_package(code):
        installs.append([*_build_options(code), "."])
    output = ""
    for install_arguments in installs:  # separately, because the options of a build apply to all that a call builds
        result = subprocess.run(
            [*pip, *install_arguments], cwd=code, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        output += result.stdout
        if result.returncode:
            break
    result.stdout = output
    return result


def is_package(code: Path) -> bool:
    """Return True if a folder is a package: with a setup.py, as in AWS's toolkit, or a pyproject.toml that builds one.

    Source: sagemaker-training toolkit, entry_point_type.py (PYTHON_PACKAGE). A pyproject.toml may also only have the
    settings of tools; then it has no table "build-system"
    (https://packaging.python.org/en/latest/specifications/pyproject-toml/).
    """
    return (code / "setup.py").is_file() or bool(_build_system(code))


def _build_system(code: Path) -> dict[str, Any]:
    """Return the table `build-system` of a folder's pyproject.toml; empty if it has none."""
    try:
        table = tomllib.loads((code / "pyproject.toml").read_text(encoding="utf-8")).get("build-system", {})
    except (OSError, ValueError):  # ValueError: the file of some tool, without which a script can run
        return {}
    return table if isinstance(table, dict) else {}


def _build_options(code: Path) -> Sequence[str]:
    """Return pip's option for a build with the image's packages if these are enough, for hosts without an index."""
    requirements = [str(text) for text in _build_system(code).get("requires", ["setuptools"])]
    return ("--no-build-isolation",) if all(map(_is_met, requirements)) else ()


def _is_met(requirement: str) -> bool:
    """Return True if the image has a package that a build requires; False if pip should decide."""
    match = _MINIMUM.fullmatch(requirement.strip())
    try:
        version = importlib.metadata.version(match[1]) if match else ""
    except importlib.metadata.PackageNotFoundError:
        return False
    return match is not None and _numbers(version) >= _numbers(match[2] or "0")


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def use(base: Path) -> None:
    """Let this process, and all programs that it starts, find the job's packages before those of the image."""
    environment = base / _FOLDER
    if not environment.is_dir():
        return
    packages = str(_packages(environment))
    site.addsitedir(packages)  # processes the packages' .pth files
    sys.path[:] = [packages, *(path for path in sys.path if path != packages)]
    for name, first_folder in (("PYTHONPATH", packages), ("PATH", str(environment / "bin"))):
        os.environ[name] = os.pathsep.join(filter(None, (first_folder, os.environ.get(name, ""))))


def _packages(environment: Path) -> Path:
    """Return the folder of packages in a virtual environment of this Python."""
    folders = {"base": str(environment), "platbase": str(environment)}
    return Path(sysconfig.get_path("purelib", "posix_prefix", folders))
