"""A process that children are forked from: each is a real process that can be killed, without the cost of its imports.

`python -m localcloud.nursery [module:function]` reads requests from the Unix socket on its stdin: one datagram with the
environment and the folder, and the write end of a pipe for what the child prints. It answers with the child's process
id, and later with its exit status. The function, if one is named, is called in every child before the orchestrator.
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

from traingrid.failures import TRY_AGAIN
from traingrid.orchestrator import run_child

_REQUEST_BYTES = 200_000
_SERVICES = ("s3", "dynamodb", "sagemaker", "logs", "batch")


def main(first: str = "") -> None:
    """Fork children until the other end of the socket closes.

    Args:
        first: What every child calls first, as "module:function"; nothing where it is empty.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # a child lets it through once it listens
    os.nice(5)  # the localcloud answers all children, so it comes first
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
            _tell_ends(control)
        if control in ready:
            message, descriptors, _, _ = socket.recv_fds(control, _REQUEST_BYTES, 1)
            if not message:
                return
            _begin(control, json.loads(message), descriptors[0], call_first)


def _warm_up() -> None:
    """Read what every child would read, into the session that they inherit: AWS's service models, and botocore's names.

    The clients themselves are thrown away. Keys are given, because a session remembers those that it has looked for.
    """
    boto3.setup_default_session()
    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    for service in _SERVICES:
        boto3.client(service, region_name="us-east-1", **keys)  # type: ignore[call-overload]
    gc.collect()
    gc.freeze()


def _function(name: str) -> Callable[[], None]:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function) if name else lambda: None


def _begin(control: socket.socket, request: dict[str, Any], output: int, first: Callable[[], None]) -> None:
    pid = os.fork()
    if pid == 0:
        _live(control, request, output, first)
    os.setpgid(pid, pid)  # here too: whoever reads the answer may kill the group before the child has run at all
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


def _tell_ends(control: socket.socket) -> None:
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
