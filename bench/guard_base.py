"""The base of `make bench-guard`: the commit with which this one is compared, in a temporary work tree."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PINNED = "0a7297ad"
"""The base until a release tag `v*` exists; replace it by a later commit if many rows of accepted.md accumulate."""
_LOCKED = ("requirements.txt", "setup/requirements/dev.txt", "requirements-dev.txt")
"""The locked requirements of .venv; older bases have the last file in place of the second."""


class MissingBaseError(Exception):
    """The base cannot be measured in this checkout; the text is a sentence with the next step."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A work tree, with the interpreter of its environment."""

    folder: Path
    python: Path


def _git(repository: Path, *arguments: str) -> str:
    ended = subprocess.run(["git", "-C", repository, *arguments], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise MissingBaseError(f"git {arguments[0]} failed: {ended.stderr.strip()}.")
    return ended.stdout.strip()


def base_commit(repository: Path, pinned: str = PINNED) -> str:
    """Return the last release tag of the commit, or the pinned commit if it has none.

    Raises:
        MissingBaseError: The clone lacks the commit.
    """
    merged = _git(repository, "tag", "--list", "v*", "--merged", "HEAD", "--sort=-creatordate").splitlines()
    commit = merged[0] if merged else pinned
    try:
        _git(repository, "cat-file", "-e", f"{commit}^{{commit}}")
    except MissingBaseError:
        sentence = f"This clone lacks the base commit {commit}; run `git fetch --unshallow --tags`."
        raise MissingBaseError(sentence) from None
    return commit


@contextmanager
def checked_out(repository: Path, commit: str) -> Iterator[Tree]:
    """Check a commit out into a temporary folder during the block, with the benchmarks of this commit.

    It uses this environment, unless its locked requirements differ.
    """
    with tempfile.TemporaryDirectory(prefix="traingrid-base-") as name:
        folder = Path(name) / "tree"
        _git(repository, "worktree", "add", "--detach", str(folder), commit)
        try:
            (folder / "bench").rename(folder / "bench-of-base")
            (folder / "bench").symlink_to(repository / "bench")
            if not (folder / "build").exists():
                (folder / "build").symlink_to(repository / "build")  # the layers, which git ignores
            yield Tree(folder=folder, python=_python(repository, folder))
        finally:
            _git(repository, "worktree", "remove", "--force", str(folder))


def _uv(repository: Path) -> str:
    """Return the path of uv, which set-up installs."""
    ended = subprocess.run([repository / "setup/uv.sh"], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise MissingBaseError(ended.stderr.strip())
    return ended.stdout.strip()


def _python(repository: Path, folder: Path) -> Path:
    """Return an interpreter with the locked requirements of a tree."""
    if _pins(repository) == _pins(folder):
        return Path(sys.executable)
    environment = folder.parent / "environment"
    uv = _uv(repository)
    install = [uv, "pip", "install", "--quiet", "--require-hashes", "--python", str(environment)]
    try:
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, environment], check=True)
        for file in _locked_files(folder):
            subprocess.run([*install, "-r", str(file)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sentence = f"The base has other requirements, which uv could not install ({error})."
        raise MissingBaseError(sentence) from None
    return environment / "bin" / "python"


def _locked_files(folder: Path) -> list[Path]:
    return [folder / name for name in _LOCKED if (folder / name).exists()]


def _pins(folder: Path) -> set[str]:
    """Return the locked versions, without comments and hashes."""
    lines = [line for file in _locked_files(folder) for line in file.read_text().splitlines()]
    return {line.rstrip(" \\") for line in lines if "==" in line and not line.lstrip().startswith("#")}
