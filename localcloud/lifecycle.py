"""Start a server and leave it running, look after it, stop it: what `traingrid local up|down|status` do."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from localcloud.isolation import user_environment

_START_SECONDS = 30.0
_STOP_SECONDS = 45.0  # longer than the 30 s that Batch gives its jobs
_KILL_SECONDS = 5.0
_PAUSE_SECONDS = 0.05
_started: dict[int, subprocess.Popen[bytes]] = {}  # children of this very process, to be collected by it
_UNSET = ("AWS_PROFILE", "AWS_SESSION_TOKEN")


class LifecycleError(RuntimeError):
    """A server could not be started or stopped; the text says why and what to do next."""


@dataclass(frozen=True)
class Running:
    """A server that answers.

    Attributes:
        pid: Its process.
        endpoint: Its address.
        data_dir: Its folder.
    """

    pid: int
    endpoint: str
    data_dir: str


def up(data_dir: Path, port: int = 0, options: Sequence[str] = ()) -> str:
    """Start a server in the background and wait until it answers; where one runs already, only say where.

    Args:
        data_dir: The server's folder; one server per folder.
        port: TCP port; 0 takes any free one.
        options: More options of `python -m localcloud`, e.g. `["--duplicate-event-rate", "0"]`.

    Returns:
        The server's address.

    Raises:
        LifecycleError: It ended or did not answer in time.
    """
    running = status(data_dir)
    if running:
        return running.endpoint
    folder = data_dir.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "localcloud", "--data-dir", str(folder), "--port", str(port), *options]
    log = folder / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd=_checkout()
        )
    _started[process.pid] = process
    endpoint = _wait_until_it_listens(process, log)
    _state_file(folder).write_text(json.dumps(asdict(Running(process.pid, endpoint, str(folder)))))
    return endpoint


def down(data_dir: Path) -> bool:
    """Stop the server of a folder and confirm that it is gone.

    Args:
        data_dir: The server's folder.

    Returns:
        True where a server was stopped, False where none ran.

    Raises:
        LifecycleError: The process is still there after SIGKILL.
    """
    known = _read_state(data_dir)
    if known is None or not _is_ours(known):
        _state_file(data_dir).unlink(missing_ok=True)
        return False
    for number, patience in ((signal.SIGTERM, _STOP_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
        os.kill(known.pid, number)
        if _wait_until_gone(known.pid, patience):
            _state_file(data_dir).unlink(missing_ok=True)
            return True
    message = f"localcloud (process {known.pid}) does not end. Look at it with `ps -fp {known.pid}`."
    raise LifecycleError(message)


def status(data_dir: Path) -> Running | None:
    """The server of a folder, or None where none answers.

    A pid alone proves nothing, because the system gives it to another process later: the server itself must answer
    with the same pid.
    """
    known = _read_state(data_dir)
    if known is None:
        return None
    answer = _ask(known.endpoint)
    return known if answer and answer.get("pid") == known.pid else None


def grant(running: Running, wanted: Mapping[str, object]) -> list[str]:
    """Grant quota increases in a server (see `localcloud.limits.granting`); return a line for each.

    Raises:
        LifecycleError: The server refuses it.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    body = json.dumps(wanted).encode()
    try:
        with opener.open(f"{running.endpoint}/localcloud/quotas", body, timeout=30) as answer:
            return [str(line) for line in json.load(answer)["granted"]]
    except urllib.error.HTTPError as error:
        raise LifecycleError(error.read().decode().strip()) from error


def export_lines(endpoint: str) -> str:
    """Shell lines after which `aws`, `cdk` and every SDK in that shell work on the server, and on nothing else."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in user_environment(endpoint).items()]
    other_endpoints = sorted(name for name in os.environ if name.startswith("AWS_ENDPOINT_URL_"))
    return "\n".join([*lines, "unset " + " ".join((*_UNSET, *other_endpoints))])


def _checkout() -> Path:
    return Path(__file__).resolve().parent.parent


def _state_file(data_dir: Path) -> Path:
    return data_dir.resolve() / "server.json"


def _read_state(data_dir: Path) -> Running | None:
    try:
        return Running(**json.loads(_state_file(data_dir).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _ask(endpoint: str) -> dict[str, object] | None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{endpoint}/localcloud/status", timeout=5) as answer:
            parsed = json.load(answer)
    except (urllib.error.URLError, OSError, ValueError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _wait_until_it_listens(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        for word in log.read_text().replace(";", " ").split():
            if word.startswith("http://") and _ask(word):
                return word
        time.sleep(_PAUSE_SECONDS)
    if process.poll() is None:
        process.kill()
        process.wait()
    said = log.read_text().strip().splitlines()
    why = said[-1] if said else f"it did not answer within {_START_SECONDS:.0f} s"
    message = f"localcloud did not start: {why} The whole log is in {log}."
    raise LifecycleError(message)


def _is_ours(known: Running) -> bool:
    """Whether the pid still belongs to the server, even to one that hangs and does not answer."""
    answer = _ask(known.endpoint)
    if answer:
        return answer.get("pid") == known.pid
    proc = Path(f"/proc/{known.pid}/cmdline")
    if proc.exists():
        command = proc.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    else:
        command = subprocess.run(
            ["ps", "-ww", "-o", "command=", "-p", str(known.pid)], capture_output=True, text=True, check=False
        ).stdout
    return "-m localcloud" in command and known.data_dir in command


def _wait_until_gone(pid: int, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if pid in _started and _started[pid].poll() is not None:
            del _started[pid]
            return True
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(_PAUSE_SECONDS)
    return False
