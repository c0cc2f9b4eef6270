"""Control plane: the API of a cluster, on a port of this machine."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from localcloud.eks.access_policies import USER_FACING_ROLES
from localcloud.kubernetes.api import Api
from localcloud.kubernetes.certificate import make_certificate
from localcloud.kubernetes.resources import BUILT_IN, CLUSTER_ROLE, MPI_JOB_RESOURCE, NAMESPACE
from localcloud.kubernetes.server import ClusterServer
from localcloud.kubernetes.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from localcloud.kubernetes.paths import Target
    from localcloud.server.local_cloud import LocalCloud

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class ControlPlane:
    """The running parts of a cluster.

    Attributes:
        store: The objects.
        authority: The certificate in PEM that clients trust.
    """

    def __init__(  # noqa: PLR0913 - each is needed once
        self,
        cloud: LocalCloud,
        *,
        name: str,
        region: str,
        account: str,
        admit: Callable[[str, str, Target | None], None],
        pod_environment: Callable[[str, str], dict[str, str]],  # noqa: ARG002  # for the kubelet
    ) -> None:
        folder = cloud.data_dir / "eks" / account / region / name
        folder.mkdir(parents=True, exist_ok=True)
        certificate = make_certificate(folder)
        self.authority, self.store = certificate.authority, Store()
        _fill(self.store)
        self._server = ClusterServer(Api(self.store, (*BUILT_IN, MPI_JOB_RESOURCE)), certificate, admit)
        self._running = ExitStack()

    @property
    def address(self) -> str:
        """The URL of the API."""
        return self._server.address

    def start(self) -> None:
        """Serve the API."""
        self._running.enter_context(self._server)

    def stop(self) -> None:
        """End the API."""
        self._running.close()


def _fill(store: Store) -> None:
    for name in _NAMESPACES:
        store.create(NAMESPACE, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for name, rules in USER_FACING_ROLES.items():
        role = {"apiVersion": CLUSTER_ROLE.api_version, "kind": "ClusterRole", "metadata": {"name": name}}
        store.create(CLUSTER_ROLE, "", {**role, "rules": [dict(rule) for rule in rules]})
