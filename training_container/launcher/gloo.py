"""Gloo: starts ranks with Horovod's Gloo launcher.

    python -m training_container.launcher.gloo --hosts algo-1:2 ... -- COMMAND

`horovodrun --gloo` works on a single host. On several it resolves the hosts' names to find its own, but SageMaker's
names need not be resolvable. So this module calls parts of Horovod: host assignment, rendezvous server and process
supervision. It starts ssh itself.
"""

import argparse
import os
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TextIO

import psutil
from horovod.runner.common.util import safe_shell_exec
from horovod.runner.common.util.settings import Settings
from horovod.runner.gloo_run import launch_gloo

from training_container.launcher.failure import died_line
from training_container.launcher.hosts import SSH
from training_container.launcher.rank_lines import tag


def main(arguments: list[str]) -> int:
    """Start the ranks and wait for them. Return 0 if all succeeded, otherwise 1."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", required=True)
    parser.add_argument("--current-host", required=True)
    parser.add_argument("--forward", default="")
    parser.add_argument("--interface")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]  # for any locale

    safe_shell_exec.prefix_connection = _pass_on
    slots = [int(host.rpartition(":")[2]) for host in options.hosts.split(",")]
    interface, address = _interface(options.interface, several_hosts=len(slots) > 1)
    settings = Settings(num_proc=sum(slots), hosts=options.hosts, verbose=0)
    environment = {name: os.environ[name] for name in options.forward.split(",") if name in os.environ}
    try:
        launch_gloo(options.command, _start_rank(options.current_host), settings, [interface], environment, address)
    except RuntimeError:  # a rank's exit status was not 0; _start_rank has reported it
        return 1
    return 0


def _start_rank(current_host: str) -> Callable[..., tuple[int, float]]:
    """Return the function that Horovod calls in a thread for each slot: it runs a rank, and returns status and time."""
    one_failed = threading.Event()

    def start(command: str, slot: Any, events: list[threading.Event]) -> tuple[int, float]:
        if slot.hostname != current_host:
            command = f"{SSH} {slot.hostname} {shlex.quote(command)}"
        status = safe_shell_exec.execute(command, index=slot.rank, events=[*events, one_failed])
        if status != 0 and not one_failed.is_set():
            one_failed.set()
            print(died_line(slot.rank, slot.hostname, status), flush=True)
        return status, time.time()

    return start


def _pass_on(source: Connection, target: TextIO, stream: str, rank: int, *_: object) -> None:
    """Forward a rank's output line by line, with the mark of the rank.

    This replaces Horovod's own function (safe_shell_exec.py, 0.28.1), which decodes strictly: at the first byte that is
    not UTF-8 its thread dies, the pipe fills, and the rank blocks forever. Horovod provides no other way to receive the
    output of a custom command.
    """
    with source, open(source.fileno(), encoding="utf-8", errors="replace", newline="", closefd=False) as lines:
        for line in lines:
            target.write(tag(rank, stream) + line)
            target.flush()


def _interface(name: str | None, *, several_hosts: bool) -> tuple[str, str]:
    """Return a network interface and its IPv4 address: loopback for one host, else the named or first other one."""
    addresses = {
        interface: str(entry.address)
        for interface, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family == socket.AF_INET
    }
    if name is not None and name in addresses:
        return name, addresses[name]
    loopback = next(item for item in addresses.items() if item[1].startswith("127."))
    if not several_hosts:
        return loopback
    return next((item for item in addresses.items() if not item[1].startswith("127.")), loopback)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
