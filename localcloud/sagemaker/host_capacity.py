"""Capacity for training hosts on this machine: limits the number of concurrent hosts; others wait in order."""

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOSTS_PER_CORE = 4
_BYTES_PER_HOST = 2**30
"""A rank with TensorFlow uses 0.2 to 0.5 GiB (60 trainings of two ranks used 23 GiB), and a host has a few ranks."""
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


class HostCapacity:
    """The capacity for training hosts.

    Attributes:
        hosts: Maximum number of concurrent hosts. A job with more hosts runs alone.
    """

    def __init__(self, hosts: int = 0) -> None:
        """Set the limit.

        Args:
            hosts: The limit; 0 derives it from the machine's cores and memory.
        """
        self.hosts = hosts or hosts_of_this_machine()
        self._hosts_in_use = 0
        self._waiting_jobs: deque[object] = deque()
        self._changed = threading.Condition()

    @property
    def in_use(self) -> int:
        """The number of hosts that are held now."""
        with self._changed:
            return self._hosts_in_use

    @contextmanager
    def held(self, hosts: int, given_up: threading.Event) -> Iterator[bool]:
        """Wait for the capacity of a job, first come, first served, and hold it while the block runs.

        Args:
            given_up: Set if the job no longer needs to start.

        Yields:
            True with the capacity; False if the job was given up while it waited.
        """
        hosts = min(hosts, self.hosts)
        is_granted = self._enter(hosts, given_up)
        try:
            yield is_granted
        finally:
            with self._changed:
                if is_granted:
                    self._hosts_in_use -= hosts
                self._changed.notify_all()

    def _enter(self, hosts: int, given_up: threading.Event) -> bool:
        turn = object()
        with self._changed:
            self._waiting_jobs.append(turn)
            while not given_up.is_set() and not (
                self._waiting_jobs[0] is turn and self._hosts_in_use + hosts <= self.hosts
            ):
                self._changed.wait(0.5)  # the event cannot notify a condition
            self._waiting_jobs.remove(turn)
            self._changed.notify_all()
            if given_up.is_set():
                return False
            self._hosts_in_use += hosts
            return True


def hosts_of_this_machine() -> int:
    """Return the number of concurrent training hosts that this machine's cores and memory allow, at least two."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(2, min(_HOSTS_PER_CORE * cores, _memory() // _BYTES_PER_HOST))


def _memory() -> int:
    """Return the bytes of memory that this process may use; a container's limit is in its control group."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _CGROUP_LIMIT.read_text().strip() if _CGROUP_LIMIT.exists() else "max"
    return min(machine, int(limit)) if limit.isdigit() else machine
