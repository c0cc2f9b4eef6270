"""Script packages: installs a script's requirements.txt for its job only, in addition to the image's packages.

A virtual environment in the job's folder contains the packages that the image lacks. The image's Python does not
change, so other jobs on the same host, later or at the same time, do not see these packages.
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
    """Install requirements into the job's environment. pip skips packages that the image already has.

    Args:
        requirements: The file; its paths are relative to its folder.
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
    pip: Sequence[str] = (
        *(sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")),
        *("install", "--disable-pip-version-check", "--no-color"),
        *("--constraint", str(constraints), "--requirement", requirements.name),
    )
    return subprocess.run(
        pip, cwd=requirements.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def use(base: Path) -> None:
    """Let this process, and all programs that it starts, find the job's packages before those of the image."""
    environment = base / _FOLDER
    if not environment.is_dir():
        return
    packages = str(_packages(environment))
    site.addsitedir(packages)  # processes the packages' .pth files
    sys.path[:] = [packages, *(path for path in sys.path if path != packages)]
    for name, first in (("PYTHONPATH", packages), ("PATH", str(environment / "bin"))):
        os.environ[name] = os.pathsep.join(filter(None, (first, os.environ.get(name, ""))))


def _packages(environment: Path) -> Path:
    """Return the folder of packages in a virtual environment of this Python."""
    folders = {"base": str(environment), "platbase": str(environment)}
    return Path(sysconfig.get_path("purelib", "posix_prefix", folders))
