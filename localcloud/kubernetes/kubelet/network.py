"""Network: the names of pods, under which their processes reach each other.

The names are those of the cluster's DNS: a pod with a hostname and a subdomain has a name if a headless Service with
the name of the subdomain selects it and the pod is ready, or the Service publishes pods that are not
(https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-hostname-and-subdomain-fields). The
hostname alone is no name, except in /etc/hosts of the pod itself
(https://kubernetes.io/docs/tasks/network/customize-hosts-file-for-pods/#default-hosts-file-content). `ssh` connects to
a name as on the hosts of SageMaker (localcloud/sagemaker/hosts). Init containers resolve the names, and so do the other
containers of pods whose launchers connect through TCP, as there.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.resources import POD, SERVICE
from localcloud.sagemaker.hosts import HostNetwork
from localcloud.sagemaker.hosts.names import LOCALHOST, needs_names, ports, with_names
from localcloud.sagemaker.request import hosts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.kubelet.container import Container
    from localcloud.kubernetes.store import Object

REQUEST_ANNOTATION = "traingrid/request"
_MPI_LABEL = "training.kubeflow.org/job-name"


class PodNetwork:
    """The pods of a cluster that have joined the network."""

    def __init__(self, client: Client) -> None:
        self._client, self._lock = client, threading.Lock()
        self._hosts = HostNetwork([])
        self._members: dict[str, tuple[str, str]] = {}
        self._files: dict[str, tuple[Path, str]] = {}
        self._ports: dict[tuple[str, str], dict[str, str]] = {}
        self._names: dict[str, str] = {}

    def join(self, pod: Object, folder: Path) -> Path:
        """Add a pod; return the folder with its `ssh` and `sshd`."""
        metadata = pod["metadata"]
        with self._lock:
            self._members[metadata["uid"]] = (metadata["namespace"], metadata["name"])
        programs = self._hosts.programs_for(_id(metadata["uid"]), folder / "bin")
        self.refresh()
        return programs

    def leave(self, uid: str) -> None:
        """Remove a pod."""
        with self._lock:
            self._members.pop(uid, None)
            self._files.pop(uid, None)
        self.refresh()

    def temporary(self, uid: str) -> Path:
        """Return the folder that replaces a pod's /tmp."""
        return self._hosts.temporary(_id(uid))

    def command(
        self, pod: Object, container: Container, words: Sequence[str], folder: Path
    ) -> tuple[Sequence[str], dict[str, str]]:
        """Return the command and more variables of a container that resolves the names of other pods, if it must.

        Raises:
            OSError: This machine has no mount namespaces.
        """
        if not _resolves_names(pod, prepares=container.is_init and not container.is_sidecar):
            return words, {}
        uid, place = pod["metadata"]["uid"], (pod["metadata"]["namespace"], pod["spec"]["subdomain"])
        covered = with_names(words, [], folder)
        with self._lock:
            self._files[uid] = (folder / "etc-hosts", _hostname(pod))
            if place not in self._ports:
                self._ports[place] = ports()
            variables = self._ports[place]
            self._write(*self._files[uid])
        return covered, variables

    def refresh(self) -> None:
        """Publish the names of the present pods."""
        with self._lock:
            names: dict[str, str] = {}
            places = set()
            for uid, (namespace, name) in self._members.items():
                pod = self._client.find(POD, namespace, name)
                if pod is None or pod["metadata"]["uid"] != uid:
                    continue
                places.add((namespace, pod["spec"].get("subdomain", "")))
                names |= dict.fromkeys(self._names_of(pod), _id(uid))
            self._ports = {place: port for place, port in self._ports.items() if place in places}
            if names != self._names:
                self._names = names
                self._hosts.set_names(names)
                for file, hostname in self._files.values():
                    self._write(file, hostname)

    def close(self) -> None:
        """Remove the folder of the sockets."""
        self._hosts.close()

    def _write(self, file: Path, hostname: str) -> None:
        """Write a pod's /etc/hosts in place, because processes have it mounted."""
        with file.open("r+") as hosts_file:
            content = LOCALHOST + "".join(f"127.0.0.1 {name}\n" for name in (*sorted(self._names), hostname))
            hosts_file.write(content)
            hosts_file.truncate()

    def _names_of(self, pod: Object) -> list[str]:
        spec, metadata = pod["spec"], pod["metadata"]
        subdomain, namespace = spec.get("subdomain"), metadata["namespace"]
        service = self._client.find(SERVICE, namespace, subdomain) if subdomain else None
        if service is None or not _publishes(service["spec"], pod):
            return []
        full = f"{_hostname(pod)}.{subdomain}"
        return [full, *(f"{full}.{namespace}{suffix}" for suffix in ("", ".svc", ".svc.cluster.local"))]


def _hostname(pod: Object) -> str:
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])


def _publishes(service: Mapping[str, Any], pod: Object) -> bool:
    labels = pod["metadata"].get("labels") or {}
    selector = service.get("selector") or {}
    if service.get("clusterIP") != "None" or not selector or not selector.items() <= labels.items():
        return False
    status = pod.get("status") or {}
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or []}
    has_ended = status.get("phase") in ("Succeeded", "Failed")
    ready = conditions.get("Ready") == "True" or bool(service.get("publishNotReadyAddresses"))
    return bool(status.get("podIP")) and not has_ended and ready


def _resolves_names(pod: Object, *, prepares: bool) -> bool:
    """Return True for a container that resolves the names of other pods.

    Those are init containers, which run before the launcher (`prepares`), and launchers that take hosts with other
    addresses for other hosts.
    """
    metadata = pod["metadata"]
    if not pod["spec"].get("subdomain"):
        return False
    request = (metadata.get("annotations") or {}).get(REQUEST_ANNOTATION)
    probe = json.loads(request) if request else {}
    if prepares:
        return not probe or len(hosts(probe)) > 1
    if probe:
        return needs_names(probe, [host.name for host in hosts(probe)])
    return _MPI_LABEL not in (metadata.get("labels") or {})


def _id(uid: str) -> str:
    """Return the short name of a pod's socket, because the path of a socket is limited to 104 bytes (macOS)."""
    return uid.replace("-", "")[:12]
