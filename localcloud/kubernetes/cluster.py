"""Running cluster: a Kubernetes cluster of one account and Region, with its API, its controllers and its nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from localcloud.kubernetes.api import Api
from localcloud.kubernetes.certificate import make_certificate
from localcloud.kubernetes.resources import BUILT_IN, MPI_JOB_RESOURCE, NAMESPACE, SERVICE_ACCOUNT
from localcloud.kubernetes.server import ClusterServer
from localcloud.kubernetes.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from localcloud.kubernetes.paths import Target
    from localcloud.server.local_cloud import LocalCloud

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class RunningCluster:
    """A cluster whose pods are processes on this machine.

    Attributes:
        name: The name of the cluster.
        store: Its objects.
        api: Its API.
        authority: The certificate in PEM that its clients trust.
    """

    def __init__(  # noqa: PLR0913 - all except the first are keyword-only
        self,
        cloud: LocalCloud,
        *,
        name: str,
        region: str,
        account: str,
        admit: Callable[[str, str, Target | None], None],
        pod_environment: Callable[[str, str], Mapping[str, str]],
        mpi_operator: bool = True,
    ) -> None:
        """Create a cluster; `start` serves it.

        Args:
            cloud: The localcloud.
            name: The name of the cluster.
            region: Its Region.
            account: Its account, which pulls the images of the pods.
            admit: Raises ApiError if the token in the first argument may not use the verb in the second on the target.
            pod_environment: Returns the AWS variables of a pod for its namespace and service account: the credentials
                of EKS Pod Identity, or nothing if there is no association.
            mpi_operator: Install the definition of MPIJob and the operator.
        """
        self.name, self.region, self.account = name, region, account
        self._cloud, self._pod_environment = cloud, pod_environment
        self._folder: Path = cloud.data_dir / "eks" / account / region / name
        self._folder.mkdir(parents=True, exist_ok=True)
        self.store = Store()
        self.api = Api(self.store, (*BUILT_IN, MPI_JOB_RESOURCE) if mpi_operator else BUILT_IN)
        certificate = make_certificate(self._folder)
        self.authority: bytes = certificate.authority
        self._server = ClusterServer(self.api, certificate, admit)
        for namespace in _NAMESPACES:
            self._create_namespace(namespace)

    @property
    def address(self) -> str:
        """The URL of the API server."""
        return self._server.address

    def start(self) -> None:
        """Serve the API and run the controllers."""
        self._server.__enter__()

    def stop(self) -> None:
        """End the API, the controllers, and all processes of pods."""
        self._server.__exit__(None, None, None)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _create_namespace(self, name: str) -> None:
        self.store.create(NAMESPACE, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        self.store.create(SERVICE_ACCOUNT, name, account)
