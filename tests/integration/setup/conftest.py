"""A checkout whose path contains blanks, and programs on PATH that only record their calls."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Checkout:
    """The set-up scripts in a separate folder, with fakes of the programs that they call."""

    root: Path
    programs: Path
    calls_file: Path
    environment: dict[str, str] = field(default_factory=dict)

    def program(self, path: Path | str, body: str) -> Path:
        """Write a program that records its arguments, one call per line, separated by bars, and then runs `body`."""
        path = self.programs / path
        path.parent.mkdir(parents=True, exist_ok=True)
        called = path.name.partition("-")[0] if path.name.startswith("uv-") else path.name
        record = f'(printf "{called}"; printf "|%s" "$@"; echo) >>"{self.calls_file}"'
        path.write_text(f"#!/bin/sh\n{record}\n{body}\n")
        path.chmod(0o755)
        return path

    def uv(self, body: str, machine: str = "Linux x86_64") -> None:
        """Install a fake of uv where every checkout of a user finds it, on a kind of machine as uname names it."""
        self.program("uname", f'echo "{machine}"')
        version = (self.root / "setup/uv.txt").read_text().split("uv==")[1].split()[0]
        name = f"uv-{version}-{machine.lower().replace(' ', '-')}"
        self.program(Path(self.environment["XDG_CACHE_HOME"]) / "traingrid" / name, body)

    def run(self, script: str, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a script of the checkout from its root, as the Makefile does."""
        environment = {"PATH": f"{self.programs}:/usr/bin:/bin", "HOME": str(self.root), **self.environment}
        return subprocess.run(
            [str(self.root / script), *words],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

    def calls(self, program: str) -> list[Sequence[str]]:
        """Return the arguments of every call of one program."""
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        return [words[1:] for words in (line.split("|") for line in lines) if words[0] == program]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    root = tmp_path / "a checkout für mich"
    shutil.copytree(ROOT / "setup", root / "setup")
    (root / "training_container" / "native").mkdir(parents=True)
    shutil.copy(ROOT / "requirements.txt", root)
    programs = tmp_path / "programs"
    programs.mkdir()
    return Checkout(
        root, programs, tmp_path / "calls", {"XDG_CACHE_HOME": str(tmp_path / "a cache"), "TMPDIR": os.fspath(tmp_path)}
    )
