"""Names of hosts: lets the hosts of a job resolve each other's names, for launchers that connect hosts through TCP.

On SageMaker, /etc/hosts of each container has the names of all hosts. Here, hosts are processes of one machine, whose
/etc/hosts does not change: each host gets its own mount namespace (Linux), in which another file covers it. Ports are
those of the machine, so each job gets its own for the rendezvous of torchrun.

Jobs with MPI do not need names, because mpirun starts ranks with `ssh`. It would even take hosts whose names are
addresses of this machine for one host.
"""

import contextlib
import functools
import random
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_COVER = 'mount --bind "$0" /etc/hosts && exec "$@"'
_PORTS = range(20_000, 32_000)  # below the ports of connections (Linux: net.ipv4.ip_local_port_range, from 32,768)
LOCALHOST = "127.0.0.1 localhost\n"


def needs_names(request: Mapping[str, Any], hosts: Sequence[str]) -> bool:
    """Return True if a training job starts its ranks with torchrun, or without a launcher, on several hosts."""
    hyperparameters = request.get("HyperParameters") or {}
    own_ranks = (
        hyperparameters.get("sagemaker_torch_distributed_enabled") == "true" or "sagemaker_launcher" in hyperparameters
    )
    return len(hosts) > 1 and own_ranks


def with_names(command: Sequence[str], hosts: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return the command that runs a host's program so that the names of all hosts resolve to this machine.

    Args:
        command: The program and its arguments.
        folder: The folder of the file that covers /etc/hosts.

    Raises:
        OSError: This machine has no mount namespaces.
    """
    file = folder / "etc-hosts"
    file.write_text(LOCALHOST + "".join(f"127.0.0.1 {host}\n" for host in hosts))
    return (*_namespace(), "/bin/sh", "-c", _COVER, str(file), *command)


def ports() -> dict[str, str]:
    """Return the variables with a job's own port for torchrun; the next port is free, too.

    The ports are used seconds later, so they must not be among those that the system gives to connections.
    """
    while True:
        port = random.randrange(_PORTS.start, _PORTS.stop, 2)  # noqa: S311  # no secret depends on it
        # suppress: one of the two is in use
        with contextlib.suppress(OSError), socket.create_server(("", port)), socket.create_server(("", port + 1)):
            return {"MASTER_PORT": str(port)}


@functools.cache
def _namespace() -> tuple[str, ...]:
    """Return the command that starts a program in its own mount namespace, in which it may mount.

    As an ordinary user, that requires a user namespace.

    Raises:
        OSError: This machine has none.
    """
    program, problem = shutil.which("unshare"), "unshare is not on PATH"
    if program:
        for options in (["--mount"], ["--map-root-user", "--mount"]):
            command = (str(program), *options)
            result = subprocess.run(
                [*command, "/bin/sh", "-c", _COVER, "/etc/hosts", "true"], capture_output=True, text=True, check=False
            )
            if result.returncode == 0:
                return command
            problem = result.stderr.strip()
    raise OSError(
        f"several hosts without MPI connect to each other by name, which takes a mount namespace here: {problem}. Run "
        "localcloud on Linux, as root or where unshare(1) works, or train on one host"
    )
