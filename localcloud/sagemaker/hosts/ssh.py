"""`ssh` between a training job's hosts: enough of OpenSSH's client for Open MPI's and Horovod's launchers.

    ssh [options] [user@]host [command ...]

The words of the command are joined by spaces and passed to /bin/sh on the other host, as ssh does. The command uses
this program's standard streams, passed as file descriptors. The exit status is that of the command, or 255 if the host
cannot be reached. Requires only the standard library.
"""

import os
import socket
import sys
from pathlib import Path

WITH_VALUE = frozenset("BbcDEeFIiJLlmOopQRSWw")
"""Options of ssh(1) that take a value."""

FAILED = 255
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "SAGEMAKER_BASE_DIR")
"""Variables of its host that a command inherits. sshd gives its commands the environment of a login, not that of the
container; PATH and the base folder represent the host's own file system."""


def login_environment() -> dict[str, str]:
    """Return the environment of a command that ssh runs on this host."""
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    return environment | {"SHELL": "/bin/sh", "USER": "root", "LOGNAME": "root"}


def parse(arguments: list[str]) -> tuple[str, str, bool]:
    """Read a command line.

    Returns:
        Host, command (empty: read it from stdin, as a login shell does) and True if -n was given.
    """
    no_input = False
    position = 0
    while position < len(arguments) and arguments[position].startswith("-"):
        option = arguments[position]
        no_input = no_input or "n" in option[1:]
        if option[-1] in WITH_VALUE and len(option) == 2:
            position += 1
        position += 1
    if position >= len(arguments):
        sys.stderr.write("usage: ssh [options] [user@]host [command ...]\n")
        raise SystemExit(FAILED)
    return arguments[position].rpartition("@")[2], " ".join(arguments[position + 1 :]), no_input


def main(sockets: str, own_host: str, arguments: list[str]) -> int:
    """Run a command on a host of the job and return the exit status."""
    host, command, no_input = parse(arguments)
    if no_input:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    address = _address(sockets, host)
    if address == Path(sockets) / own_host:
        shell = ["/bin/sh", "-c", command] if command else ["/bin/sh"]
        os.execve("/bin/sh", shell, login_environment())  # noqa: S606 - ssh runs a shell by design
    if address is None:
        sys.stderr.write(f"ssh: Could not resolve hostname {host}: Name or service not known\n")
        return FAILED
    return _run_on(address, host, command)


def _address(sockets: str, host: str) -> Path | None:
    """Return the path of a host's socket; None if no host has this name."""
    further = Path(sockets) / "names" / host
    if further.is_symlink():
        return further.readlink()
    return Path(sockets) / host if host in (Path(sockets) / "hosts").read_text().split() else None


def _run_on(address: Path, host: str, command: str) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(address))
        except OSError:
            sys.stderr.write(f"ssh: connect to host {host} port 22: Connection refused\n")
            return FAILED
        data = command.encode()
        socket.send_fds(connection, [len(data).to_bytes(4, "big")], [0, 1, 2])
        connection.sendall(data)
        status = connection.recv(1)
    return status[0] if status else FAILED


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
