"""Cluster: containers of the training image, started as SageMaker does."""

import json
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.containers.engine import PODMAN, REPOSITORY, podman

DIGITS = REPOSITORY / "build" / "digits" / "campaign-1"


@dataclass(kw_only=True)
class Cluster:
    """The hosts of one training job, each a container with its own /opt/ml.

    Attributes:
        image: The training image's id.
        folder: The parent of the hosts' /opt/ml folders.
        hosts: SageMaker's names of the hosts.
    """

    image: str
    folder: Path
    hosts: Sequence[str]
    name: str = field(default_factory=lambda: f"traingrid-test-{uuid.uuid4().hex[:8]}")

    def start(self, hyperparameters: Mapping[str, str]) -> None:
        """Start `train` on every host. The hosts cannot resolve each other's names yet."""
        podman("network", "create", self.name)
        for host in self.hosts:
            base = self.folder / host
            write_host(base, hyperparameters, self.hosts, host)
            # As on SageMaker: as root, with the host's name, and with the command `train` only.
            options = ["--detach", "--network", self.name, "--name", self.container(host), "--hostname", host]
            podman("run", *options, "--volume", f"{base}:/opt/ml", self.image, "train")

    def introduce(self) -> None:
        """Make every host resolve the names of all hosts."""
        template = f'{{{{(index .NetworkSettings.Networks "{self.name}").IPAddress}}}}'
        lines = "".join(
            f"{podman('inspect', '--format', template, self.container(host))} {host}\n" for host in self.hosts
        )
        for host in self.hosts:
            podman("exec", self.container(host), "sh", "-c", f"printf %s '{lines}' >> /etc/hosts")

    def knows(self, host: str, other: str) -> bool:
        """Return True if a host resolves another host's name."""
        done = [PODMAN, "exec", self.container(host), "getent", "hosts", other]
        return subprocess.run(done, capture_output=True, check=False).returncode == 0

    def running(self, host: str) -> bool:
        """Return True if `train` is still running on a host."""
        return podman("inspect", "--format", "{{.State.Running}}", self.container(host)) == "true"

    def wait(self) -> dict[str, int]:
        """Wait until `train` has ended on every host, and return the exit statuses."""
        return {host: int(podman("wait", self.container(host))) for host in self.hosts}

    def log(self, host: str) -> str:
        """Return a host's output."""
        done = [PODMAN, "logs", self.container(host)]
        return subprocess.run(done, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout

    def container(self, host: str) -> str:
        """Return the name of a host's container."""
        return f"{self.name}-{host}"

    def remove(self) -> None:
        """Remove the containers and the network, in any state."""
        for host in self.hosts:
            podman("rm", "--force", "--time", "0", "--ignore", self.container(host), check=False)
        podman("network", "rm", "--force", self.name, check=False)


def write_host(base: Path, hyperparameters: Mapping[str, str], hosts: Sequence[str], current: str) -> None:
    """Write SageMaker's files into a host's /opt/ml: the job's description, and the digits in File mode."""
    config = base / "input" / "config"
    config.mkdir(parents=True)
    launch = {"sagemaker_mpi_enabled": "true", "sagemaker_mpi_num_of_processes_per_host": "2"}
    resources = {"current_host": current, "hosts": list(hosts), "network_interface_name": "eth0"}
    channel = {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated", "RecordWrapperType": "None"}
    (config / "hyperparameters.json").write_text(json.dumps(launch | dict(hyperparameters)))
    (config / "resourceconfig.json").write_text(json.dumps(resources))
    (config / "inputdataconfig.json").write_text(json.dumps({"train": channel, "validation": channel}))
    for name in ("train", "validation"):
        shutil.copytree(DIGITS / name, base / "input" / "data" / name)
