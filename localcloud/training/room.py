"""Room for training hosts on this machine: as many run at once as it can bear, and the others wait their turn."""

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOSTS_PER_CORE = 4
_BYTES_PER_HOST = 2**30
"""A rank with TensorFlow takes 0.2 to 0.5 GiB (60 trainings of two ranks took 23 GiB), and a host has a few."""
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


class Room:
    """Places for training hosts.

    Attributes:
        hosts: How many hosts run at once at most. A job of more than that runs alone.
    """

    def __init__(self, hosts: int = 0) -> None:
        """Make it.

        Args:
            hosts: The limit; 0 derives it from the machine's cores and memory.
        """
        self.hosts = hosts or hosts_of_this_machine()
        self._used = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def held(self, hosts: int, given_up: threading.Event) -> Iterator[bool]:
        """Wait for the places of a job, first come, first served, and hold them while the block runs.

        Args:
            hosts: How many hosts the job has.
            given_up: Set when the job need not start any more.

        Yields:
            True with the places; False if the job was given up while it waited.
        """
        hosts = min(hosts, self.hosts)
        got = self._enter(hosts, given_up)
        try:
            yield got
        finally:
            with self._changed:
                self._used -= hosts if got else 0
                self._changed.notify_all()

    def _enter(self, hosts: int, given_up: threading.Event) -> bool:
        turn = object()
        with self._changed:
            self._waiting.append(turn)
            while not given_up.is_set() and not (self._waiting[0] is turn and self._used + hosts <= self.hosts):
                self._changed.wait(0.5)  # the event has no way to wake a condition
            self._waiting.remove(turn)
            self._changed.notify_all()
            if given_up.is_set():
                return False
            self._used += hosts
            return True


def hosts_of_this_machine() -> int:
    """Return how many training hosts this machine's cores and memory allow at once: at least two."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(2, min(_HOSTS_PER_CORE * cores, _memory() // _BYTES_PER_HOST))


def _memory() -> int:
    """Bytes of memory that this process may use; a container's limit is in its control group."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _CGROUP_LIMIT.read_text().strip() if _CGROUP_LIMIT.exists() else "max"
    return min(whole, int(limit)) if limit.isdigit() else whole
