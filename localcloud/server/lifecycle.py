"""Starts, checks and stops a server in the background for `localcloud` and `traingrid local`."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from localcloud.credentials.environments import user_environment
from localcloud.eks.kubeconfig import KUBECONFIG
from localcloud.server.page_client import ask
from localcloud.server.state_file import OpenFolderError, Running, holder_of, make_private, read_state, remove_state

_START_SECONDS = 60.0
_ANSWER_SECONDS = 5.0
_STOP_SECONDS = 45.0  # longer than the 30 s that Batch gives its jobs
_KILL_SECONDS = 5.0
_PAUSE_SECONDS = 0.05
_started: dict[int, subprocess.Popen[bytes]] = {}  # children of this process, which must reap them
_UNSET = ("AWS_PROFILE", "AWS_SESSION_TOKEN")


class LifecycleError(Exception):
    """A server could not be started or stopped.

    Args:
        reason: The error and its cause, as a sentence.
        next_step: The next step, as a sentence; empty if nothing can be done.
    """

    def __init__(self, reason: str, next_step: str = "") -> None:
        super().__init__(f"{reason} {next_step}".strip())
        self.reason = reason
        self.next_step = next_step


@dataclass(frozen=True)
class Condition:
    """Condition of a folder's server.

    Attributes:
        state: "answers"; "silent" if its process runs, but did not answer within 5 seconds; "killed" if it ended
            without being stopped; "stopped" if it was stopped or never started.
        server: The server; None in state "stopped".
    """

    state: Literal["answers", "silent", "killed", "stopped"]
    server: Running | None


def condition(data_dir: Path) -> Condition:
    """Determine whether a folder's server runs and answers.

    The lock of the folder proves that a process runs. A process id does not, because the system reuses it.
    """
    pid, server = holder_of(data_dir), read_state(data_dir)
    if pid is None:
        return Condition("killed" if server else "stopped", server)
    if server is None or server.pid != pid:  # it is starting
        return Condition("silent", Running(pid, "", str(data_dir.resolve()), ""))
    return Condition("answers" if _answers(server) else "silent", server)


def status(data_dir: Path) -> Running | None:
    """Return the server of a folder, or None if it does not answer."""
    current = condition(data_dir)
    return current.server if current.state == "answers" else None


def up(data_dir: Path, port: int = 0, options: Sequence[str] = ()) -> Running:
    """Start a server in the background and wait until it answers; return the running one, if any.

    Args:
        data_dir: The server's folder; one server per folder.
        port: TCP port; 0 selects a free one.
        options: Additional options of `python -m localcloud`, for example `["--duplicate-event-rate", "0"]`.

    Raises:
        LifecycleError: If it ended or did not answer in time, or another server in the folder does not answer.
    """
    current = condition(data_dir)
    if current.server and current.state == "answers":
        return current.server
    if current.server and current.state == "silent":
        raise LifecycleError(
            f"{silence(current.server)} No second server was started.", "Wait, or stop it: localcloud down."
        )
    folder = data_dir.resolve()
    try:
        make_private(folder)
    except OpenFolderError as error:
        raise LifecycleError(
            f"localcloud did not start: {error}.", "Its files hold secrets of deployed stacks."
        ) from None
    command = [sys.executable, "-m", "localcloud", "--data-dir", str(folder), "--port", str(port), *options]
    log = folder / "server.log"
    with log.open("a") as output:
        begin = output.tell()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd=_checkout()
        )
    _started[process.pid] = process
    return _wait_until_it_answers(process, folder, log, begin)


def down(data_dir: Path) -> bool:
    """Stop the server of a folder and verify that it has ended.

    Returns:
        True if a server was stopped, False if none was running.

    Raises:
        LifecycleError: If the process still exists after SIGKILL.
    """
    pid = holder_of(data_dir)
    if not pid:
        remove_state(data_dir)
        return False
    for number, patience in ((signal.SIGTERM, _STOP_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
        os.kill(pid, number)
        if _wait_until_gone(pid, data_dir, patience):
            remove_state(data_dir)
            return True
    raise LifecycleError(f"localcloud (process {pid}) did not end after SIGKILL.", f"Check the process: ps -fp {pid}.")


def silence(server: Running) -> str:
    """Return a sentence about a server that runs but does not answer."""
    return (
        f"localcloud (process {server.pid}) runs in {server.data_dir}, but did not answer within "
        f"{_ANSWER_SECONDS:.0f} s: this machine may be too busy."
    )


def grant(server: Running, quota_value: Mapping[str, object]) -> list[str]:
    """Grant quota increases in a server (see `localcloud.limits.quota_increases`); return a line for each.

    Raises:
        LifecycleError: If the server refuses the grant.
    """
    try:
        reply = ask(server.endpoint, server.secret, "/localcloud/quotas", json.dumps(quota_value).encode())
    except urllib.error.HTTPError as error:
        raise LifecycleError(error.read().decode().strip()) from error
    return [str(line) for line in json.loads(reply)["granted"]]


def export_lines(server: Running) -> str:
    """Return shell lines that make `aws`, `cdk`, `kubectl` and every SDK in a shell use only this server."""
    variables = user_environment(server.endpoint, secret=server.secret)
    variables["KUBECONFIG"] = str(Path(server.data_dir) / KUBECONFIG)
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    other_endpoints = sorted(name for name in os.environ if name.startswith("AWS_ENDPOINT_URL_"))
    return "\n".join([*lines, "unset " + " ".join((*_UNSET, *other_endpoints))])


def _checkout() -> Path:
    return Path(__file__).resolve().parents[2]


def _answers(server: Running) -> bool:
    try:
        reply = json.loads(ask(server.endpoint, server.secret, "/localcloud/status", timeout=_ANSWER_SECONDS))
    except (OSError, ValueError):
        return False
    return bool(reply.get("pid") == server.pid)


def _wait_until_it_answers(process: subprocess.Popen[bytes], folder: Path, log: Path, begin: int) -> Running:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        server = read_state(folder)
        if server and server.pid == process.pid and _answers(server):
            return server
        time.sleep(_PAUSE_SECONDS)
    if process.poll() is None:
        process.kill()
        process.wait()
    printed = log.read_bytes()[begin:].decode(errors="replace").strip().splitlines()
    reason = printed[-1] if printed else f"it did not answer within {_START_SECONDS:.0f} s"
    raise LifecycleError(f"localcloud did not start: {reason}", f"The whole log is in {log}.")


def _wait_until_gone(pid: int, data_dir: Path, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if pid in _started and _started[pid].poll() is not None:
            del _started[pid]
        if holder_of(data_dir) != pid and not runs(pid):
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


def runs(pid: int) -> bool:
    """Return True if a process with this id exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's process
        return True
    return True
