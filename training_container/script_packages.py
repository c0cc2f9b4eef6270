"""Packages of a script: its requirements.txt is installed for its job alone, beside the packages of the image.

A virtual environment in the job's folder holds what the image lacks. The image's Python stays as it is, so a host that
runs another job later, or at the same time, does not see these packages.
"""

import os
import site
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

_FOLDER = "packages"


def install(requirements: Path, constraints: Path, base: Path) -> "subprocess.CompletedProcess[str]":
    """Install requirements into the job's environment; pip installs nothing that the image has already.

    Args:
        requirements: the file; paths in it are relative to its folder.
        constraints: a file of versions that pip must keep.
        base: the job's folder, /opt/ml.

    Returns:
        What pip printed, and its exit status.
    """
    environment = base / _FOLDER
    venv.EnvBuilder(symlinks=True).create(environment)
    # A virtual environment made from another one would see the packages of neither but those of the base Python.
    (_packages(environment) / "image.pth").write_text(
        "".join(f"import site; site.addsitedir({folder!r})\n" for folder in site.getsitepackages())
    )
    pip: Sequence[str] = (
        *(sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")),
        *("install", "--disable-pip-version-check", "--no-color"),
        *("--constraint", str(constraints), "--requirement", requirements.name),
    )
    return subprocess.run(
        pip, cwd=requirements.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def use(base: Path) -> None:
    """Let this process, and every program that it starts, find the packages of the job before those of the image."""
    environment = base / _FOLDER
    if not environment.is_dir():
        return
    packages = str(_packages(environment))
    site.addsitedir(packages)  # reads the .pth files of packages
    sys.path[:] = [packages, *(path for path in sys.path if path != packages)]
    for name, first in (("PYTHONPATH", packages), ("PATH", str(environment / "bin"))):
        os.environ[name] = os.pathsep.join(filter(None, (first, os.environ.get(name, ""))))


def _packages(environment: Path) -> Path:
    """Return the folder of packages in a virtual environment of this Python."""
    folders = {"base": str(environment), "platbase": str(environment)}
    return Path(sysconfig.get_path("purelib", "posix_prefix", folders))
