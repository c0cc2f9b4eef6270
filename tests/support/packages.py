"""Packages: the table of the packages that tests need, and skips of the tests whose package is not installed.

It has no dependencies, because tests/training runs in another environment than the other tests.
"""

import functools
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPEN_MPI = "openmpi-bin libopenmpi-dev"
NATIVE = "g++, then make setup"
"""The native programs of training_container, which are optional; only Linux has them."""
CONTAINERS = "podman buildah runc debootstrap"


def chromium() -> str | None:
    """Return the path of an installed Chromium."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _programs(*names: str) -> Callable[[], bool]:
    return lambda: all(map(shutil.which, names))


def _file(path: str) -> Callable[[], bool]:
    return (ROOT / path).exists


def _variables(*names: str) -> Callable[[], bool]:
    return lambda: all(map(os.environ.get, names))


PACKAGES: dict[str, Callable[[], bool]] = {
    OPEN_MPI: _programs("mpirun", "mpicxx"),
    CONTAINERS: _programs(*CONTAINERS.split()),
    "chromium": lambda: chromium() is not None,
    "postgresql": lambda: any(Path("/usr/lib/postgresql").glob("*/bin/initdb")),
    NATIVE: lambda: Path(sys.prefix, "lib", "traingrid").exists(),
    "make setup": _file(".venv-training/.installed"),
    "make setup-catalog": _file("build/layer/catalog/.installed"),
    "make setup-images": _file(".venv-images/.installed"),
}
"""Debian's packages and make's targets that CI installs: with the variable CI, a test fails if one is missing."""

OTHERS: dict[str, Callable[[], bool]] = {
    "Linux": lambda: sys.platform == "linux",
    "root": lambda: os.geteuid() == 0,
    "awscli": _programs("aws"),
    "dash": _programs("dash"),
    "make .venv-bench/.installed": lambda: "SDK_V2_PYTHON" in os.environ or _file(".venv-bench/.installed")(),
    "make test-torch": _variables("TORCH_ENVIRONMENT"),
    "SDK_V3_PYTHON": _variables("SDK_V3_PYTHON"),
    "HOROVOD_EXAMPLES": _variables("HOROVOD_EXAMPLES"),
    "ELASTIC_DDP and TORCH_ENVIRONMENT": _variables("ELASTIC_DDP", "TORCH_ENVIRONMENT"),
    "OPEN_MPI_5 and OPEN_MPI_5_HOROVOD": _variables("OPEN_MPI_5", "OPEN_MPI_5_HOROVOD"),
}
"""Systems, packages and variables that CI lacks, too. The module of a test explains its variables."""


def needs(name: str) -> pytest.MarkDecorator:
    """Return the mark of a test that needs one of `PACKAGES` or `OTHERS`."""
    assert name in PACKAGES | OTHERS, name
    return pytest.mark.needs(name)


def require(*names: str) -> None:
    """Skip the test of the caller if one of `PACKAGES` or `OTHERS` is missing; in CI, fail if CI installs it."""
    missing = [name for name in names if not _is_present(name)]
    reason = f"needs {' and '.join(missing)}"
    if os.environ.get("CI") and PACKAGES.keys() & missing:
        pytest.fail(reason, pytrace=False)
    if missing:
        pytest.skip(reason)


def summary(reasons: Iterable[str]) -> str:
    """Return the line about skipped tests, from pytest's reasons."""
    counts = Counter(reason.removeprefix("Skipped: ").removeprefix("needs ") for reason in reasons)
    needed = ", ".join(f"{count} need{'s' * (count == 1)} {name}" for name, count in counts.most_common())
    total = counts.total()
    return f"{total} test{'s were' if total > 1 else ' was'} skipped: {needed}."


@functools.cache
def _is_present(name: str) -> bool:
    return (PACKAGES | OTHERS)[name]()
