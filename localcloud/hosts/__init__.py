"""The network between a training job's hosts, which are process groups of this machine.

Every host gets a folder with an `ssh` and an `sshd` program, put first on its PATH. `ssh algo-2 <command>` reaches the
`sshd` that runs on algo-2 through a Unix socket and runs the command there, as Open MPI's launcher expects of ssh; the
hosts' names need not resolve, and no port is opened.
"""

import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

INTERFACE = "lo0" if sys.platform == "darwin" else "lo"
"""Interface that connects the hosts, as told in resourceconfig.json: they all live on this machine."""

_PROGRAMS = Path(__file__).parent


class HostNetwork:
    """The hosts of one job and how they reach one another."""

    def __init__(self, hosts: Sequence[str]) -> None:
        """Prepare the meeting place; a short path, because a Unix socket's may have 104 bytes only (macOS)."""
        self._sockets = Path(tempfile.mkdtemp(prefix="lc-"))
        (self._sockets / "hosts").write_text("\n".join(hosts))

    def programs_for(self, host: str, folder: Path) -> Path:
        """Write `ssh` and `sshd` of one host.

        Args:
            host: The host they run on.
            folder: Folder to create.

        Returns:
            The folder, to be put first on the host's PATH.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("ssh", "sshd"):
            program = folder / name
            words = [sys.executable, "-I", "-S", str(_PROGRAMS / f"{name}.py"), str(self._sockets), host]
            program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            program.chmod(0o755)
        return folder

    def temporary(self, host: str) -> Path:
        """Return the folder that stands for /tmp of a host: Open MPI's daemons meet in /tmp by names of their own."""
        folder = self._sockets / f"{host}-tmp"
        folder.mkdir(exist_ok=True)
        return folder

    def close(self) -> None:
        """Remove the meeting place."""
        shutil.rmtree(self._sockets, ignore_errors=True)
