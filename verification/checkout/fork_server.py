"""The fork server: a process that forks children, which are real, killable processes without the cost of imports.

`python -m verification.checkout.fork_server [module:function]` reads requests from the Unix socket on its stdin: one
datagram with the environment, the folder, and the write end of a pipe for the child's output. It answers with the
child's process id, and later with its exit status. Every child calls the named function, if any, before the
orchestrator.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import boto3

from traingrid.child.main import run_child
from traingrid.job.failures import TRY_AGAIN

_REQUEST_BYTES = 200_000
_SERVICES = ("s3", "dynamodb", "sagemaker", "logs", "batch")


def main(first: str = "") -> None:
    """Fork children until the other end of the socket closes.

    Args:
        first: Function that every child calls first, as "module:function"; empty for none.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # a child unblocks it after installing its handler
    os.nice(5)  # the localcloud answers all children, so it has priority
    control = socket.socket(fileno=os.dup(0))
    call_first = _function(first)
    _warm_up()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    while True:
        watched: list[Any] = [control, woken]
        ready, _, _ = select.select(watched, [], [])
        if woken in ready:
            os.read(woken, 4096)
            _report_ends(control)
        if control in ready:
            message, descriptors, _, _ = socket.recv_fds(control, _REQUEST_BYTES, 1)
            if not message:
                return
            _begin(control, json.loads(message), descriptors[0], call_first)


def _warm_up() -> None:
    """Load AWS's service models and botocore's data into the session that all children inherit.

    The clients themselves are discarded. Keys are passed, because a session would cache the result of a key lookup.
    """
    boto3.setup_default_session()
    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    for service in _SERVICES:
        boto3.client(service, region_name="us-east-1", **keys)  # type: ignore[call-overload]  # the stubs accept only literal names
    gc.collect()
    gc.freeze()


def _function(name: str) -> Callable[[], None]:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function) if name else lambda: None


def _begin(control: socket.socket, request: dict[str, Any], output: int, first: Callable[[], None]) -> None:
    pid = os.fork()
    if pid == 0:
        _live(control, request, output, first)
    os.setpgid(pid, pid)  # also here: the reader of the answer may kill the group before the child has run
    os.close(output)
    control.send(json.dumps({"request": request["number"], "pid": pid}).encode())


def _live(control: socket.socket, request: dict[str, Any], output: int, first: Callable[[], None]) -> NoReturn:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(TRY_AGAIN))  # as batch_job does
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    control.close()
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    first()
    code = run_child(os.environ)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _report_ends(control: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        control.send(json.dumps({"pid": pid, "code": os.waitstatus_to_exitcode(status)}).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
