"""The network between a training job's hosts, which are process groups on this machine.

Every host gets a folder with an `ssh` and an `sshd` program, first on its PATH. `ssh algo-2 <command>` connects through
a Unix socket to the `sshd` on algo-2 and runs the command there, as Open MPI's launcher expects of ssh. The host names
need not resolve, and no port is opened.
"""

import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

INTERFACE = "lo0" if sys.platform == "darwin" else "lo"
"""Network interface of the hosts in resourceconfig.json: all hosts are on this machine."""

_PROGRAMS = Path(__file__).parent


class HostNetwork:
    """The hosts of one job and the connections between them."""

    def __init__(self, hosts: Sequence[str]) -> None:
        """Create the folder of the sockets; its path is short, because a socket's is limited to 104 bytes (macOS)."""
        self._sockets = Path(tempfile.mkdtemp(prefix="lc-"))
        (self._sockets / "hosts").write_text("\n".join(hosts))
        (self._sockets / "names").mkdir()

    def programs_for(self, host: str, folder: Path) -> Path:
        """Write the `ssh` and `sshd` programs of one host.

        Args:
            host: The host they run on.
            folder: Folder to create.

        Returns:
            The folder, which must be first on the host's PATH.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("ssh", "sshd"):
            program = folder / name
            words = [sys.executable, "-I", "-S", str(_PROGRAMS / f"{name}.py"), str(self._sockets), host]
            program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            program.chmod(0o755)
        return folder

    def set_names(self, names: Mapping[str, str]) -> None:
        """Replace all further names of hosts.

        Args:
            names: The hosts by their names.
        """
        folder = self._sockets / "names"
        for link in folder.iterdir():
            if link.name not in names or str(link.readlink()) != str(self._sockets / names[link.name]):
                link.unlink()
        for name, host in names.items():
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(self._sockets / host)

    def temporary(self, host: str) -> Path:
        """Return the folder that replaces a host's /tmp, where Open MPI's daemons create files with fixed names."""
        folder = self._sockets / f"{host}-tmp"
        folder.mkdir(exist_ok=True)
        return folder

    def close(self) -> None:
        """Remove the folder of the sockets."""
        shutil.rmtree(self._sockets, ignore_errors=True)
