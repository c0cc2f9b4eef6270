"""Host: the pod as a host of its training job, from the files and variables that the backend gives it."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from traingrid.pod.failure import description_error
from traingrid.strict_json import JsonError, json_object

BASE = "/opt/ml"
HOSTS = "TRAINGRID_HOSTS"
"""The environment variable with the names of all hosts, separated by commas; the main host is the first."""
FILES = "TRAINGRID_POD_FILES"
"""The environment variable with the folder of `request.json`."""
TERMINATION_LOG = "TRAINGRID_TERMINATION_LOG"
"""The environment variable with the file whose content Kubernetes stores as the container's termination message."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """One host of a training job.

    Attributes:
        hosts: The names of all hosts; the main host is the first.
        base: The folder that is /opt/ml in the training container.
    """

    request: Mapping[str, Any]
    hosts: tuple[str, ...]
    name: str
    base: Path
    region: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Return the host of this pod.

        Kubernetes sets HOSTNAME to the pod's host name, which is the first label of its name in the cluster.

        Raises:
            PodError: The request cannot be read, or this host is not in the list.
        """
        file = Path(environment.get(FILES) or "/etc/traingrid", "request.json")
        try:
            request = json_object(file.read_bytes(), file)
        except (OSError, JsonError) as error:
            raise description_error(f"The request of the training job cannot be read: {error}.") from error
        hosts = tuple(name.strip() for name in environment.get(HOSTS, "").split(",") if name.strip())
        own_name = (environment.get("HOSTNAME") or socket.gethostname()).partition(".")[0]
        name = next((name for name in hosts if name.partition(".")[0] == own_name), None)
        if name is None:
            raise description_error(f"The pod {own_name!r} is not in {HOSTS} ({', '.join(hosts)}).")
        if hosts[0] != min(hosts):  # containers take the first name in sorted order as the main host
            raise description_error(
                f"The first name in {HOSTS} ({', '.join(hosts)}) must be the first in sorted order."
            )
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION", "")
        return cls(
            request=request,
            hosts=hosts,
            name=name,
            base=Path(environment.get("SAGEMAKER_BASE_DIR") or BASE),
            region=region,
        )

    @property
    def number(self) -> int:
        """The number of this host, from 0 for the main host."""
        return self.hosts.index(self.name)

    @property
    def is_main(self) -> bool:
        """True for the first host."""
        return self.number == 0

    def path(self, container_path: str) -> Path:
        """Return the local path of a path in the container: those below /opt/ml are below the base folder."""
        path = Path(container_path)
        return self.base / path.relative_to(BASE) if path.is_relative_to(BASE) else path

    def channel(self, name: str) -> Path:
        """Return the folder of a channel."""
        return self.base / "input" / "data" / name

    @property
    def checkpoints(self) -> tuple[str, Path] | None:
        """The URI and the folder of the checkpoints; None if the job has none.

        The default folder is that of https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CheckpointConfig.html.
        """
        config = self.request.get("CheckpointConfig")
        if not config:
            return None
        return config["S3Uri"], self.path(config.get("LocalPath") or f"{BASE}/checkpoints")
