"""Mutated copy: runs tests in a copy of the tree with one change."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from bench.mutants import Mutant

ROOT = Path(__file__).resolve().parents[1]
for _library in ("boto3", "moto.dynamodb.models", "moto.s3.models"):
    importlib.import_module(_library)
_LINKED = (".venv", "node_modules", "build")
_TEST_SECONDS, _GROUP_SECONDS = 300, 1800
_OPTIONS = (
    *("-q", "-p", "no:cacheprovider"),
    *("-o", f"faulthandler_timeout={_TEST_SECONDS}", "-o", "faulthandler_exit_on_timeout=true"),
)
_HANGING = "a test that did not end"


@dataclass(frozen=True)
class MutatedCopy:
    """A copy of the tree, so that nothing that reads the checkout sees a mutant."""

    root: Path

    @classmethod
    def create(cls, root: Path) -> MutatedCopy:
        """Copy all files that git does not ignore."""
        listed = subprocess.check_output(("git", "ls-files", "-co", "--exclude-standard", "-z"), cwd=ROOT, text=True)
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        for name in _LINKED:
            (root / name).symlink_to(ROOT / name)
        return cls(root)

    def killer(self, mutant: Mutant, files: Collection[str], without: Collection[str] = ()) -> str | None:
        """Return the first test that fails with a mutant.

        Args:
            files: The test files, in their order.
            without: Tests that are not run.
        """
        with self._changed(mutant):
            failed = self._failures("-x", *files, *(f"--deselect={name}" for name in without))
        return failed[0] if failed else None

    def failing(self, tests: Collection[str]) -> set[str]:
        """Return those tests that fail without a mutant."""
        return set(self._failures(*tests)) & {*tests} if tests else set()

    @contextmanager
    def _changed(self, mutant: Mutant) -> Iterator[None]:
        file = self.root / mutant.file
        source, before = file.read_bytes(), file.stat()
        file.write_bytes(mutant.apply(source))
        # Python compares the second of the last change, and two mutants of a second would share their bytecode.
        moment = before.st_mtime + 10 + mutant.start + len(mutant.code)
        os.utime(file, (moment, moment))
        try:
            yield
        finally:
            file.write_bytes(source)
            os.utime(file, (before.st_atime, before.st_mtime))

    def _failures(self, *arguments: str) -> list[str]:
        """Return the names of the tests that fail, or of files that cannot be imported."""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as written:
            # pytest's folder for all runs of a user is emptied at the end of each, which fails if two end at once.
            status = self._run((*arguments, f"--basetemp={folder}/pytest"), written.fileno())
            written.seek(0)
            output = written.read()
        if status in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            return []
        if status < 0 or f"Timeout (0:0{_TEST_SECONDS // 60}" in output:
            return [_HANGING]
        if failed := re.findall(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", output, re.MULTILINE):
            return failed
        if conftest := re.findall(rf"while loading conftest '{re.escape(str(self.root))}/(.*?)'", output):
            return conftest
        raise RuntimeError(output)

    def _run(self, arguments: tuple[str, ...], output: int) -> int:
        """Run pytest in a forked process, which need not load the largest libraries again."""
        process = os.fork()
        if not process:
            os.setsid()
            signal.alarm(_GROUP_SECONDS)
            os.chdir(self.root)
            os.environ["PYTHONPATH"] = sys.path[0] = str(self.root)
            os.dup2(output, 1)
            os.dup2(output, 2)
            status = pytest.main([*_OPTIONS, *arguments])
            sys.stdout.flush()
            os._exit(status)
        _, status = os.waitpid(process, 0)
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # processes that a test has started
        return os.waitstatus_to_exitcode(status)
