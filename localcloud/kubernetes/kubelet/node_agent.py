"""Node agent: starts the containers of the pods of all nodes on this machine."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from localcloud.credentials.environments import child_environment
from localcloud.kubernetes.kubelet.environment import expanded, variables
from localcloud.kubernetes.kubelet.image import command_of, pull
from localcloud.kubernetes.kubelet.volumes import Volumes
from localcloud.processes.process_group import ProcessGroup, search_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from localcloud.ecr.process_images import ProcessImage
    from localcloud.faults.plan import Stub
    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.events import EventRecorder
    from localcloud.kubernetes.kubelet.container import Container
    from localcloud.kubernetes.kubelet.logs import PodLogs
    from localcloud.kubernetes.kubelet.network import PodNetwork
    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Object
    from localcloud.server.local_cloud import LocalCloud

_OWNERS = ("Job", "MPIJob")
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True, kw_only=True)
class NodeAgent:
    """Starts the containers of pods.

    Attributes:
        folder: The folder of the pods.
        account: The account of the nodes, which pulls images.
        address: Returns the URL of the API.
        pod_environment: Returns the AWS variables of a pod for its namespace and service account.
        claim: Returns the folder of a claim for a namespace, a volume and the claim's name.
    """

    cloud: LocalCloud
    client: Client
    events: EventRecorder
    logs: PodLogs
    network: PodNetwork
    folder: Path
    region: str
    account: str
    address: Callable[[], str]
    pod_environment: Callable[[str, str], Mapping[str, str]]
    claim: Callable[[Object, str, str], Path]
    _volumes: dict[str, Volumes] = field(default_factory=dict)
    _stubs: dict[str, Stub | None] = field(default_factory=dict)
    _images: dict[tuple[str, str], ProcessImage] = field(default_factory=dict)
    """The images on the nodes, by the names of the node and of the image."""

    def stub_of(self, root: Object) -> Stub | None:
        """Return the stub of the fault plan for the pods of an object; None if they really run."""
        name = root["metadata"].get("name", "")
        return self._stubs[name] if name in self._stubs else self.cloud.faults.stub(self.region, name)

    def note_stub(self, resource: Resource, new: Object) -> None:
        """Decide whether a new object is a stub, as SageMaker's training jobs are when they are created."""
        name = new["metadata"]["name"]
        if resource.kind in _OWNERS:
            self._stubs.setdefault(name, self.cloud.faults.stub(self.region, name))

    def mount(self, pod: Object, folder: Path) -> None:
        """Mount the volumes of a pod.

        Raises:
            MountError: A volume cannot be mounted yet.
        """
        volumes = Volumes(self.client, pod, folder / "volumes", lambda volume, name: self.claim(pod, volume, name))
        volumes.mount()
        self._volumes[pod["metadata"]["uid"]] = volumes

    def remove(self, uid: str) -> None:
        """Remove the files and logs of a pod."""
        self._volumes.pop(uid, None)
        self.logs.remove(uid)
        if not self.cloud.settings.keep_training_folders:
            shutil.rmtree(self.folder / uid, ignore_errors=True)

    def start_container(self, pod: Object, container: Container, folder: Path) -> ProcessGroup:
        """Start the process of a container.

        Raises:
            PullError: Its image cannot be pulled.
            ConfigError: The source of a variable does not exist.
            OSError: The program cannot be started.
        """
        metadata, path = pod["metadata"], _field_path(container)
        image = self._pull(pod, container, path)
        words, environment = self._process(pod, container, image, folder)
        container.folder.mkdir(parents=True, exist_ok=True)
        container.message_file.unlink(missing_ok=True)
        log = self.logs.begin(metadata["uid"], container.name)
        self._volumes[metadata["uid"]].link(container.spec, image)
        self.events.normal(pod, "Created", f"Container created: {container.name}", path)
        try:
            group = ProcessGroup(
                words,
                environment=environment,
                working_directory=container.spec.get("workingDir") or image.working_directory,
                on_line=log.write,
                label=f"pods/{metadata['namespace']}/{metadata['name']}/{container.name}",
            )
        except OSError:
            log.end()
            self.end_container(pod, container)
            raise
        container.log = log
        self.events.normal(pod, "Started", f"Container started: {container.name}", path)
        return group

    def end_container(self, pod: Object, container: Container) -> None:
        """Hide the volumes of a container whose process has ended."""
        if volumes := self._volumes.get(pod["metadata"]["uid"]):
            volumes.unlink(container.spec)

    def probe(self, pod: Object, container: Container, folder: Path, probe: Mapping[str, Any]) -> bool:
        """Run the command of a probe as in the container, and return True if it succeeds in time."""
        command = {"command": probe["exec"]["command"], "args": []}
        probe_container = replace(container, spec={**container.spec, **command})
        image = pull(self.account, container.spec["image"])
        words, environment = self._process(pod, probe_container, image, folder)
        group = ProcessGroup(
            words,
            environment=environment,
            working_directory=container.spec.get("workingDir") or image.working_directory,
            on_line=lambda _line: None,
        )
        code = group.wait(float(probe.get("timeoutSeconds") or 1))
        if code is None:
            group.kill()
            group.wait()
        return code == 0

    def _pull(self, pod: Object, container: Container, path: str) -> ProcessImage:
        """Return the image of a container.

        With the policy `IfNotPresent`, a node keeps the image that it has pulled for a name, also if the tag has moved
        (https://kubernetes.io/docs/concepts/containers/images/#image-pull-policy).
        """
        name, policy = container.spec["image"], container.spec["imagePullPolicy"]
        node_and_image = (pod["spec"]["nodeName"], name)
        if policy == "IfNotPresent" and (cached := self._images.get(node_and_image)):
            self.events.normal(pod, "Pulled", f'Container image "{name}" already present on machine', path)
            return cached
        if policy != "Never":
            self.events.normal(pod, "Pulling", f'Pulling image "{name}"', path)
        pulled = pull(self.account, name)
        self._images[node_and_image] = pulled
        self.events.normal(pod, "Pulled", f'Successfully pulled image "{name}"', path)
        return pulled

    def _process(
        self, pod: Object, container: Container, image: ProcessImage, folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """Return the command and the environment of a container."""
        metadata, spec = pod["metadata"], pod["spec"]
        volumes = self._volumes[metadata["uid"]]
        pod_variables = {
            name: volumes.translated(container.spec, value)
            for name, value in variables(self.client, pod, container.spec).items()
        }
        base = child_environment(self.cloud.endpoint_url, self.cloud.data_dir / "home", self.region, None, {})
        for name in _KEYS:
            del base[name]
        aws = dict(self.pod_environment(metadata["namespace"], spec["serviceAccountName"]))
        if aws:
            aws = {"AWS_REGION": self.region, "AWS_DEFAULT_REGION": self.region, **aws}
        host, _, port = self.address().removeprefix("https://").partition(":")
        values = {
            **base,
            "HOSTNAME": spec.get("hostname") or metadata["name"],
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            **image.environment,
            **aws,
            **volumes.environment(container.spec, image),
            "TMPDIR": str(self.network.temporary(metadata["uid"])),
            "TRAINGRID_TERMINATION_LOG": str(container.message_file),
        }
        words = [expanded(word, pod_variables) for word in command_of(image, container.spec)]
        covered, variables_of_network = self.network.command(pod, container, words, folder)
        environment = {**values, **variables_of_network, **pod_variables}
        environment["PATH"] = search_path(folder / "bin", environment["PATH"])
        return list(covered), environment


def _field_path(container: Any) -> str:
    return f"spec.{'initContainers' if container.is_init else 'containers'}{{{container.name}}}"
