"""Peers: the other hosts of a training job, which the training waits for.

SageMaker starts all hosts of a training job together; Kubernetes starts a pod when it has a node. The hosts' launchers
wait for each other for ten minutes only, so the training of a host begins when the names of all hosts have resolved. A
name resolves when its pod has an address, that is, when its node has started it, because the Services publish addresses
that are not ready (https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/).
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.pod.host import Host

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 1.0
"""Cluster DNS remembers for five seconds that a name does not exist
(https://coredns.io/plugins/kubernetes/, option ttl), so most of these look-ups are answered from its cache."""
MISSING_PER_LOOK = 4
"""The names without an address after which a look ends, because a hundred hosts look for a hundred names."""
WAIT_SECONDS_WITHOUT_JOIN = 600.0
"""The time that a host waits if the launcher of its job does not make all hosts wait for each other."""
JOINING_LAUNCHERS = ("sagemaker_mpi_enabled", "sagemaker_torch_distributed_enabled")
"""The hyperparameters of the launchers that make all hosts wait for each other (`traingrid.job.launchers`)."""
_LOG_SECONDS = 600.0


class Peers:
    """The other hosts of a training job.

    Their names are looked up from the start of the pod on, and each has to resolve once only: a host that starts much
    earlier may have ended its training, and with it its name, while this one still downloads its data.

    Args:
        resolves: Returns True if a name resolves.
    """

    def __init__(self, host: Host, resolves: Callable[[str], bool] | None = None) -> None:
        self._missing_hosts = [name for name in host.hosts if name != host.name]
        self._resolves = resolves or resolves_now
        self._limit = wait_limit(host)
        self._all_present = threading.Event()
        threading.Thread(target=self._look, name="peers", daemon=True).start()

    def wait(self) -> None:
        """Wait until every host has been seen, within the limit of the launcher."""
        started = time.monotonic()
        while not self._all_present.is_set():
            waited = time.monotonic() - started
            if self._limit is not None and waited >= self._limit:
                logger.warning("Start without %s after %d s", self._names(), waited)
                return
            logger.info("The data is complete. Waiting for the start of %s", self._names())
            pause = _LOG_SECONDS if self._limit is None else min(_LOG_SECONDS, self._limit - waited)
            self._all_present.wait(pause)

    def _names(self) -> str:
        missing = list(self._missing_hosts)
        more = f" and {len(missing) - MISSING_PER_LOOK} more" if len(missing) > MISSING_PER_LOOK else ""
        return ", ".join(missing[:MISSING_PER_LOOK]) + more

    def _look(self) -> None:
        while self._missing_hosts:
            missing = 0
            for name in list(self._missing_hosts):
                if self._resolves(name):
                    self._missing_hosts.remove(name)
                else:
                    missing += 1
                    if missing == MISSING_PER_LOOK:
                        break
            if self._missing_hosts:
                time.sleep(INTERVAL_SECONDS)
        self._all_present.set()


def wait_limit(host: Host) -> float | None:
    """Return the seconds after which a host starts without the others; None for no limit.

    With MPI and torchrun there is no limit, because the launcher ends no host before all hosts have joined. With other
    launchers a host may end, and its name with it, before another host has found it; the other host would wait forever
    without a limit.
    """
    hyperparameters = host.request.get("HyperParameters") or {}
    launcher_joins_hosts = any(hyperparameters.get(name) == "true" for name in JOINING_LAUNCHERS)
    return None if launcher_joins_hosts else WAIT_SECONDS_WITHOUT_JOIN


def resolves_now(name: str) -> bool:
    """Return True if a name has an address at this moment."""
    try:
        return bool(socket.getaddrinfo(name, None))
    except OSError:  # the name is not known yet, or the name server does not answer
        return False
