"""Hosts: on SageMaker, the main host starts ranks on the other hosts over ssh, and those run sshd until training ends.

The other hosts cannot detect the end of training, so the main host sends them its exit status and, because the reason
of any host may become the job's, its failure, in a file. The key pair for ssh is in the image (Dockerfile); no secrets
are transmitted.
"""

import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from training_container.launcher.exit_description import exit_phrase, likely_cause

SSH = (
    "ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "
    "-o ConnectTimeout=10"
)
_ENDED = "training-ended"
# The shell on another host knows its own base folder; otherwise the folder is SageMaker's.
_SEND_STATUS = 'cd "${SAGEMAKER_BASE_DIR:-/opt/ml}" && cat > ' + f"{_ENDED}.new && mv {_ENDED}.new {_ENDED}"


class HostError(RuntimeError):
    """The hosts of a training job cannot connect to each other."""


def wait_for(hosts: Iterable[str], stop_requested: Callable[[], bool], timeout_seconds: float = 600.0) -> None:
    """Wait until ssh to every host succeeds: a name may not be resolvable at first, and sshd takes time to start.

    Raises:
        HostError: A host did not accept a connection in time.
    """
    deadline = time.monotonic() + timeout_seconds
    for host in hosts:
        while (result := _ssh(host, "true")).returncode != 0 and not stop_requested():
            if time.monotonic() > deadline:
                reason = result.stderr.strip() or f"exit status {result.returncode}"
                raise HostError(
                    f"Host {host} accepted no connection for {timeout_seconds:.0f} s; ssh reported: {reason}"
                )
            time.sleep(1.0)


def send_status(hosts: Iterable[str], status: int, reason: str) -> None:
    """Send the exit status, and the reason of a failure, to the other hosts. A host that has ended is ignored."""
    for host in hosts:
        _ssh(host, _SEND_STATUS, f"{status}\n{reason}")


def serve(base: Path, stop_file: Path, on_stop: Callable[[], None]) -> tuple[int, str]:
    """Run sshd until the main host reports the end of training, and return the exit status and reason that it sends.

    Args:
        base: The folder /opt/ml, or its replacement.
        stop_file: The file that exists when this host was asked to stop.
        on_stop: Called once when it exists.

    Raises:
        HostError: sshd is not installed, or it ended unexpectedly.
    """
    end_file = base / _ENDED
    end_file.unlink(missing_ok=True)
    program = shutil.which("sshd")
    if program is None:
        raise HostError("sshd is not on PATH, so other hosts cannot start ranks here. Install openssh-server.")
    server = subprocess.Popen([program, "-D", "-e"], stdin=subprocess.DEVNULL)
    stopping = False
    try:
        while not end_file.exists():
            if not stopping and stop_file.exists():
                stopping = True
                on_stop()
            if server.poll() is not None:
                raise HostError(
                    f"sshd {exit_phrase(server.returncode)} before training ended.{likely_cause(server.returncode)}"
                )
            time.sleep(0.2)
        status, _, reason = end_file.read_text(encoding="utf-8").partition("\n")
        return int(status), reason
    finally:
        server.terminate()
        server.wait()


def _ssh(host: str, command: str, content: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*shlex.split(SSH), host, command], input=content, capture_output=True, encoding="utf-8", check=False
    )
