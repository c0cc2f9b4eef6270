"""Starts orchestrators by forking them from a fork server; new processes would be too slow at high volume."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from localcloud.processes.program import Program
from verification.checkout.images import ORCHESTRATOR

_CHECKOUT = Path(__file__).resolve().parents[2]
_ANSWER_BYTES = 4096
_START_SECONDS = 60.0
# Children inherit the fork server's boto3 session, which must not have read the user's files.
_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Forked:
    """A forked child with the parts of `Program` that `process_group` uses, without a subreaper."""

    stdin = None

    def __init__(self, args: Sequence[str], output: int) -> None:
        self.args = list(args)
        self.stdout = os.fdopen(output, "rb")
        self.pid = 0
        self.returncode: int | None = None
        self.begun = threading.Event()
        self.ended = threading.Event()

    @property
    def program(self) -> int:
        """Return its process id, which is also the id of its process group."""
        return self.pid

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, as Popen.wait does."""
        if not self.ended.wait(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return cast(int, self.returncode)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the child has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)


class ForkClient:
    """Forks orchestrators; other programs start as usual. Pass `spawn` as `LocalCloud.spawn`.

    Attributes:
        forked: Number of forked children.
        environment: Additional variables for every child forked from now on.
    """

    def __init__(self, first: str = "") -> None:
        """Start the fork server.

        Args:
            first: Function that every child calls before the orchestrator, as "module:function".
        """
        self.forked = 0
        self.environment: dict[str, str] = {}
        self._lock = threading.Lock()
        self._waiting: dict[int, Forked] = {}
        self._living: dict[int, Forked] = {}
        self._control, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with server_end:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "verification.checkout.fork_server", first],
                stdin=server_end.fileno(),
                cwd=_CHECKOUT,
                env={"PATH": os.environ["PATH"], **_ENVIRONMENT, **ORCHESTRATOR.environment},
                start_new_session=True,
            )
        threading.Thread(target=self._listen, name="fork-client", daemon=True).start()

    def spawn(self, command: Sequence[str], environment: Mapping[str, str], folder: str | Path) -> Program:
        """Start a program; see `localcloud.processes.process_group.Spawn`."""
        if list(command[1:]) != ["-m", "batch_job"]:
            return Program(command, environment, folder)
        output, inlet = os.pipe()
        child = Forked(command, output)
        with self._lock:
            self.forked += 1
            number = self.forked
            self._waiting[number] = child
            request = {"number": number, "environment": {**environment, **self.environment}, "folder": str(folder)}
            socket.send_fds(self._control, [json.dumps(request).encode()], [inlet])
        os.close(inlet)
        if not child.begun.wait(_START_SECONDS):
            message = f"the fork server (process {self._process.pid}) did not fork a child within {_START_SECONDS} s"
            raise OSError(message)
        return cast(Program, child)

    def close(self) -> None:
        """End the fork server."""
        self._control.shutdown(socket.SHUT_RDWR)
        self._process.wait()
        self._control.close()

    def _listen(self) -> None:
        while answer := self._control.recv(_ANSWER_BYTES):
            self._note(json.loads(answer))

    def _note(self, answer: dict[str, Any]) -> None:
        pid = answer["pid"]
        with self._lock:
            if "request" in answer:
                child = self._living[pid] = self._waiting.pop(answer["request"])
                child.pid = pid
                child.begun.set()
                return
            child = self._living.pop(pid)
        child.returncode = answer["code"]
        child.ended.set()
