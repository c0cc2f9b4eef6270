"""Machine share: the part of this machine that the pods of a training job use together.

The pods of an object begin only when the machine has capacity for all of them, as the hosts of SageMaker's training
jobs do, with which they share it. Otherwise two jobs could hold half of their hosts each, and wait for each other.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from localcloud.kubernetes.client import controller_of
from localcloud.kubernetes.resources import JOB, MPI_JOB_RESOURCE, POD

if TYPE_CHECKING:
    from collections.abc import Callable

    from localcloud.faults.plan import Stub
    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.store import Object
    from localcloud.sagemaker.host_capacity import HostCapacity

_RESOURCES = {"Job": JOB, "MPIJob": MPI_JOB_RESOURCE}
"""The kinds of objects that control pods."""


@dataclass(frozen=True, kw_only=True)
class _Share:
    """The capacity of one object.

    Attributes:
        got: Set once the capacity is held.
        given_up: Set if it is not needed any more.
    """

    got: threading.Event = field(default_factory=threading.Event)
    given_up: threading.Event = field(default_factory=threading.Event)


class MachineShares:
    """The capacity that the objects of a cluster hold or wait for.

    Args:
        runs: Returns True if the pod with a uid still has processes.
        stub_of: Returns the stub of an object whose pods have no processes and need no capacity; None for others.
    """

    def __init__(
        self,
        client: Client,
        capacity: HostCapacity,
        runs: Callable[[str], bool],
        stub_of: Callable[[Object], Stub | None] = lambda _: None,
    ) -> None:
        self._client, self._capacity, self._runs, self._stub_of = client, capacity, runs, stub_of
        self._shares: dict[str, _Share] = {}

    def has(self, pod: Object) -> bool:
        """Return True if a pod may begin; the first call for an object waits for its capacity in the background."""
        root = root_of(self._client, pod)
        uid = root["metadata"]["uid"]
        if self._stub_of(root):
            return True
        if uid not in self._shares:
            share = self._shares[uid] = _Share()
            threading.Thread(target=self._hold_capacity, args=(share, hosts_of(root)), daemon=True).start()
        return self._shares[uid].got.is_set()

    def release(self) -> bool:
        """Release the capacity of objects whose pods have all ended; return True if others hold or want some."""
        if not self._shares:
            return False
        pods, _ = self._client.store.all(POD)
        needed = set()
        for pod in pods:
            has_ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
            if self._runs(pod["metadata"]["uid"]) or not has_ended:
                needed.add(root_of(self._client, pod)["metadata"]["uid"])
        for uid in set(self._shares) - needed:
            self._shares.pop(uid).given_up.set()
        return bool(self._shares)

    def close(self) -> None:
        """Release everything."""
        for share in self._shares.values():
            share.given_up.set()
        self._shares.clear()

    def _hold_capacity(self, share: _Share, hosts: int) -> None:
        with self._capacity.held(hosts, share.given_up) as is_granted:
            if is_granted:
                share.got.set()
                share.given_up.wait()


def root_of(client: Client, entry: Object) -> Object:
    """Return the object that controls a pod through others, or the pod itself."""
    while (reference := controller_of(entry)) is not None:
        resource = _RESOURCES.get(reference["kind"])
        owner = client.find(resource, entry["metadata"]["namespace"], reference["name"]) if resource else None
        if owner is None or owner["metadata"]["uid"] != reference["uid"]:
            return {"metadata": {"uid": reference["uid"]}, "kind": ""}
        entry = owner
    return entry


def hosts_of(root: Object) -> int:
    """Return the number of pods that an object has at the same time."""
    if root["kind"] == "Job":
        return max(1, int(root["spec"]["parallelism"]))
    if root["kind"] == "MPIJob":
        return sum(
            int((replica_spec or {}).get("replicas") or 1) for replica_spec in root["spec"]["mpiReplicaSpecs"].values()
        )
    return 1
