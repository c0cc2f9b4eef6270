"""Several hosts, as on SageMaker: the main host starts ranks on the others over ssh; those serve it and wait.

The others cannot see when training ended, so the main host tells them its exit status in a file. The image holds the
key pair that lets hosts in (Dockerfile); nothing secret is passed here.
"""

import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from training_container.exit_status import in_words, likely_cause

SSH = (
    "ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "
    "-o ConnectTimeout=10"
)
_ENDED = "training-ended"
# On another host ssh's shell knows its own base folder, or it is SageMaker's.
_TELL = 'echo {status} > "${{SAGEMAKER_BASE_DIR:-/opt/ml}}/' + _ENDED + '"'


class HostError(RuntimeError):
    """The hosts of a training job do not find each other."""


def wait_for(hosts: Iterable[str], stop_requested: Callable[[], bool], timeout_seconds: float = 600.0) -> None:
    """Wait until every host lets us in: their names may not resolve at once, and their sshd starts when it starts.

    Raises:
        HostError: one does not within the time.
    """
    deadline = time.monotonic() + timeout_seconds
    for host in hosts:
        while (answer := _ssh(host, "true")).returncode != 0 and not stop_requested():
            if time.monotonic() > deadline:
                said = answer.stderr.strip() or f"exit status {answer.returncode}"
                raise HostError(f"Host {host} let nobody in for {timeout_seconds:.0f} s; ssh says: {said}")
            time.sleep(1.0)


def tell_ended(hosts: Iterable[str], status: int) -> None:
    """Tell the other hosts that training ended; one that is gone already need not know."""
    for host in hosts:
        _ssh(host, _TELL.format(status=status))


def serve(base: Path) -> int:
    """Run sshd until the main host says that training ended; return the status it tells.

    Args:
        base: the folder that stands for /opt/ml.

    Raises:
        HostError: there is no sshd, or it ends by itself.
    """
    ended = base / _ENDED
    ended.unlink(missing_ok=True)
    program = shutil.which("sshd")
    if program is None:
        raise HostError("There is no sshd on PATH, so other hosts cannot start ranks here. Install openssh-server.")
    server = subprocess.Popen([program, "-D", "-e"], stdin=subprocess.DEVNULL)
    try:
        while not (ended.exists() and (status := ended.read_text().strip())):
            if server.poll() is not None:
                raise HostError(
                    f"sshd {in_words(server.returncode)} before training did.{likely_cause(server.returncode)}"
                )
            time.sleep(0.2)
        return int(status)
    finally:
        server.terminate()
        server.wait()


def _ssh(host: str, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*shlex.split(SSH), host, command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
