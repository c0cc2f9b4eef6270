"""Running cluster: a Kubernetes cluster of one account and Region, with its API, its controllers and its nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from localcloud.kubernetes.api import Api
from localcloud.kubernetes.certificate import make_certificate
from localcloud.kubernetes.client import Client
from localcloud.kubernetes.controllers.garbage_collector import GarbageCollector
from localcloud.kubernetes.controllers.jobs.job_controller import JobController
from localcloud.kubernetes.controllers.kueue import Kueue
from localcloud.kubernetes.controllers.machine_share import MachineShares
from localcloud.kubernetes.controllers.mpi_operator.operator import MpiOperator
from localcloud.kubernetes.controllers.namespace_controller import NamespaceController
from localcloud.kubernetes.controllers.node_lifecycle import DEFAULT_TIMES, NodeLifecycle, NodeTimes
from localcloud.kubernetes.controllers.provisioner import Provisioner, add_node
from localcloud.kubernetes.controllers.scheduler import PodScheduler
from localcloud.kubernetes.controllers.volume_binder import VolumeBinder
from localcloud.kubernetes.events import EventRecorder
from localcloud.kubernetes.kubelet import interruption
from localcloud.kubernetes.kubelet.claims import Claims
from localcloud.kubernetes.kubelet.kubelet import Kubelet
from localcloud.kubernetes.kubelet.network import PodNetwork
from localcloud.kubernetes.kubelet.node_agent import NodeAgent
from localcloud.kubernetes.resources import BUILT_IN, MPI_JOB_RESOURCE, NAMESPACE, SERVICE_ACCOUNT
from localcloud.kubernetes.server import ClusterServer
from localcloud.kubernetes.server_faults import ServerFaults
from localcloud.kubernetes.store import Store
from localcloud.sagemaker.backend import TrainingBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from localcloud.eks.cluster_calls import ClusterCalls
    from localcloud.kubernetes.controllers.controller import Controller
    from localcloud.kubernetes.paths import Target
    from localcloud.kubernetes.store import Object
    from localcloud.server.local_cloud import LocalCloud

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class RunningCluster:
    """A cluster whose pods are processes on this machine.

    Attributes:
        client: A client with all permissions.
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
        nodes: Sequence[Object] = (),
        node_pool: bool = True,
        auto_mode: bool = False,
        node_times: NodeTimes = DEFAULT_TIMES,
        calls: ClusterCalls | None = None,
    ) -> None:
        """Create a cluster; `start` serves it.

        Args:
            name: The name of the cluster.
            account: Its account, which pulls the images of the pods.
            admit: Raises ApiError if the token in the first argument may not use the verb in the second on the target.
            pod_environment: Returns the AWS variables of a pod for its namespace and service account: the credentials
                of EKS Pod Identity, or nothing if there is no association.
            mpi_operator: Install the definition of MPIJob and the operator.
            nodes: Nodes that always exist (see `provisioner.node_of`), for example those of HyperPod.
            node_pool: Add nodes for pods that fit on none, as EKS Auto Mode and Karpenter do.
            auto_mode: The node pool is that of EKS Auto Mode, which refuses some labels.
            node_times: When nodes and their pods are removed.
            calls: The faults and the record of requests; None for neither.
        """
        self.name, self.region, self.account = name, region, account
        self.cloud = cloud
        self._folder: Path = cloud.data_dir / "eks" / account / region / name
        self._folder.mkdir(parents=True, exist_ok=True)
        self.store, self._auto_mode = Store(), auto_mode
        self.api = Api(self.store, (*BUILT_IN, MPI_JOB_RESOURCE) if mpi_operator else BUILT_IN)
        certificate = make_certificate(self._folder)
        self.authority: bytes = certificate.authority
        self._server = ClusterServer(self.api, certificate, admit, calls)
        self.client = Client(self.api)
        agent = self._agent(pod_environment)
        self.api.webhooks.append(agent.note_stub)
        self._kueue = Kueue(self.client, EventRecorder(self.client, "kueue-job-controller"))
        self.api.webhooks.append(self._kueue.suspend_new)
        self._kubelet = Kubelet(agent)
        self._shares = MachineShares(self.client, TrainingBackend.capacity, self._kubelet.runs, agent.stub_of)
        self._controllers = [*self._make_controllers(node_pool=node_pool, node_times=node_times), self._kubelet]
        for namespace in _NAMESPACES:
            self._create_namespace(namespace)
        for node in nodes:
            add_node(self.client, node)

    @property
    def address(self) -> str:
        """The URL of the API server."""
        return self._server.address

    def start(self) -> None:
        """Serve the API and run the controllers."""
        self._server.__enter__()
        for controller in self._controllers:
            controller.start()

    def stop(self) -> None:
        """End the API, the controllers, and all processes of pods."""
        self._shares.close()
        for controller in self._controllers:
            controller.stop_soon()
        for controller in self._controllers:
            controller.stop()
        self._server.__exit__(None, None, None)

    @property
    def faults(self) -> ServerFaults:
        """The faults of the API server."""
        return self._server.faults

    @property
    def queues(self) -> dict[str, int]:
        """The queues of Kueue, and the number of pods that their jobs may have together."""
        return self._kueue.queues

    def preempt(self, name: str, seconds: float = 1.0) -> None:
        """Suspend a running job of a queue, which is admitted again after some time if the queue has capacity."""
        self._kueue.preempt(name, seconds)

    def pause_controllers(self) -> None:
        """Stop the work of the control plane's controllers and the scheduler; nodes continue."""
        for controller in self._controllers:
            if controller is not self._kubelet:
                controller.paused.set()

    def resume_controllers(self) -> None:
        """Continue; the controllers read all objects again, as after a restart."""
        for controller in self._controllers:
            controller.paused.clear()

    def compact(self) -> None:
        """Forget the history, so that watches from earlier versions end with 410."""
        self.store.compact()

    def interrupt_node(self, name: str, warning_seconds: float = 120.0) -> None:
        """Interrupt a node as EC2 interrupts a spot instance: its pods are evicted, and later it is gone."""
        interruption.interrupt(self.client, self._kubelet, name, warning_seconds)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _create_namespace(self, name: str) -> None:
        self.client.create(NAMESPACE, "", {"metadata": {"name": name}})
        self.client.create(SERVICE_ACCOUNT, name, {"metadata": {"name": "default"}})

    def _make_controllers(self, *, node_pool: bool, node_times: NodeTimes) -> list[Controller]:
        karpenter_events = EventRecorder(self.client, "karpenter")
        provisioner = Provisioner(self.client, karpenter_events, self.cloud, self.region, auto_mode=self._auto_mode)
        scheduler_events = EventRecorder(self.client, "default-scheduler")
        controllers: list[Controller] = [
            GarbageCollector(self.client),
            NamespaceController(self.client),
            self._kueue,
            JobController(self.client, EventRecorder(self.client, "job-controller")),
            PodScheduler(self.client, scheduler_events, self._shares, provisioner if node_pool else None),
            NodeLifecycle(self.client, node_times),
            VolumeBinder(self.client),
        ]
        if MPI_JOB_RESOURCE in self.api.resources:
            controllers.insert(0, MpiOperator(self.client, EventRecorder(self.client, "mpi-job-controller")))
        return controllers

    def _agent(self, pod_environment: Callable[[str, str], Mapping[str, str]]) -> NodeAgent:
        claims = Claims(
            client=self.client,
            data_dir=self.cloud.data_dir,
            folder=self._folder / "pods",
            region=self.region,
            account=self.account,
            environment=pod_environment,
        )
        return NodeAgent(
            cloud=self.cloud,
            client=self.client,
            events=EventRecorder(self.client, "kubelet"),
            logs=self.api.logs,
            network=PodNetwork(self.client),
            folder=self._folder / "pods",
            region=self.region,
            account=self.account,
            address=lambda: self.address,
            pod_environment=pod_environment,
            claim=claims.mount,
        )
