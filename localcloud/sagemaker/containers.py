"""Containers: the image, the variables and the start of the programs of a training job's hosts."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from localcloud.ecr.process_images import ProcessImage
from localcloud.log_streams import LogStream
from localcloud.sagemaker import transfer
from localcloud.sagemaker.algorithms import published
from localcloud.sagemaker.cluster import TrainingHosts, host_environment
from localcloud.sagemaker.hosts import HostNetwork
from localcloud.sagemaker.hosts.names import needs_names, ports, with_names
from localcloud.sagemaker.job import TrainingJob
from localcloud.sagemaker.job_files import JobFiles

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

_NO_OPT_ML = (
    "localcloud runs a program without a container, so its folder /opt/ml is that of the variable SAGEMAKER_BASE_DIR. "
    "The command of this job names /opt/ml itself, as that of ModelTrainer.train() of the SageMaker SDK does; submit "
    "the trainer with traingrid."
)
_OF_THE_NETWORK = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class Containers:
    """The containers of a training job, one on each host.

    Attributes:
        image: The image, with the command of the job.

    Raises:
        TransferError: The image does not exist, or the command needs a folder /opt/ml.
    """

    def __init__(self, cloud: "LocalCloud", job: TrainingJob, files: JobFiles) -> None:
        self._cloud = cloud
        self._job = job
        self._files = files
        specification = job.specification
        image = published.resolve(job.account, specification["TrainingImage"])
        entry_point = specification.get("ContainerEntrypoint") or image.command
        command = (*entry_point, *(specification.get("ContainerArguments") or ()))
        if any("/opt/ml/" in part for part in command) and not Path("/opt/ml").exists():
            raise transfer.TransferError(_NO_OPT_ML)
        self.image = dataclasses.replace(image, command=command)

    def platform_environment(self) -> dict[str, str]:
        """Return the variables of the job with credentials of its role, which SageMaker's own transfers use."""
        request = self._job.request
        job_variables = {
            "TRAINING_JOB_NAME": self._job.name,
            "TRAINING_JOB_ARN": self._job.arn,
            "AWS_REGION": self._job.region,
        }
        variables = {**self.image.environment, **job_variables, **(request.get("Environment") or {})}
        return dict(self._cloud.environment_for(self._job.region, request["RoleArn"], variables))

    def environment(self, platform_environment: Mapping[str, str]) -> dict[str, str]:
        """Return the containers' variables: network isolation removes AWS's address and the credentials.

        SageMaker's developer guide, "Run Training and Inference Containers in Internet-Free Mode". Loopback sockets,
        the only ones of this machine's processes, stay available for traffic between the hosts.
        """
        if not self._job.request.get("EnableNetworkIsolation"):
            return dict(platform_environment)
        return {name: value for name, value in platform_environment.items() if name not in _OF_THE_NETWORK}

    def start(
        self,
        cluster: TrainingHosts,
        environment: dict[str, str],
        network: HostNetwork,
        logs: Mapping[str, LogStream],
        read_metrics: Callable[[str], None],
    ) -> None:
        """Start the container of each host.

        Args:
            environment: The variables that all containers share.
            logs: The log stream of each host.
            read_metrics: Receives each line of the output.

        Raises:
            OSError: The command cannot be executed.
        """
        image, environment = self._with_names(environment)
        for host in self._files.hosts:
            folder = self._files.folder / host.name
            variables = host_environment(environment, network, host, folder, self._files.opt_ml[host.name].base)

            def output(line: str, stream: LogStream = logs[host.name]) -> None:
                stream.write(line)
                read_metrics(line)

            cluster.start(host, image, variables, output)

    def _with_names(self, environment: dict[str, str]) -> tuple[ProcessImage, dict[str, str]]:
        """Return the image and variables of hosts that can connect to each other, if their launcher requires it."""
        host_names = [host.name for host in self._files.hosts]
        if not needs_names(self._job.request, host_names):
            return self.image, environment
        command = with_names(self.image.command, host_names, self._files.folder)
        return dataclasses.replace(self.image, command=command), {**ports(), **environment}
