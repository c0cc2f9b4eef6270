"""Job files: the folders of a training job's hosts, with its channels, checkpoints and results."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from localcloud.ecr.process_images import ProcessImage
from localcloud.sagemaker import file_systems, transfer
from localcloud.sagemaker.file_systems import Mounted
from localcloud.sagemaker.job import TrainingJob
from localcloud.sagemaker.opt_ml import OptMl
from localcloud.sagemaker.request import S3Uri, channels, hosts

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud


class Checkpoints(NamedTuple):
    """The checkpoints of a job: their prefix in S3, and their folder on each host."""

    uri: S3Uri
    folders: list[Path]


class JobFiles:
    """The files of a training job on this machine.

    Attributes:
        hosts: The hosts, in the order of their names.
        channels: The channels of the request.
        folder: The folder of all hosts.
        opt_ml: The folder /opt/ml of each host, by its name.
    """

    def __init__(self, cloud: "LocalCloud", job: TrainingJob) -> None:
        self._cloud = cloud
        self._job = job
        self.hosts = hosts(job.request)
        self.channels = channels(job.request)
        self.folder: Path = cloud.data_dir / "training" / job.region / job.name
        self.opt_ml = {host.name: OptMl(self.folder / host.name / "opt-ml") for host in self.hosts}

    @property
    def bases(self) -> list[Path]:
        """The folders /opt/ml of all hosts."""
        return [opt_ml.base for opt_ml in self.opt_ml.values()]

    @property
    def checkpoints(self) -> Checkpoints | None:
        """The checkpoints, or None for a job without them."""
        config = self._job.request.get("CheckpointConfig")
        if not config:
            return None
        local_path = config.get("LocalPath", "/opt/ml/checkpoints")
        return Checkpoints(S3Uri.parse(config["S3Uri"]), [opt_ml.path(local_path) for opt_ml in self.opt_ml.values()])

    def create(self, image: ProcessImage) -> None:
        """Create the folders of all hosts, in place of those of a killed server with the same data_dir."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for host in self.hosts:
            self.opt_ml[host.name].prepare(self._job.request, image, host, self.hosts, self.channels)

    def download(self, s3: Any, is_interrupted: Callable[[], bool]) -> None:
        """Copy or mount the channels that are not piped, and copy the checkpoints of earlier runs.

        Raises:
            TransferError: The data cannot be read.
            TransferInterruptedError: The job is being stopped, or has lost its instances.
        """
        downloader = transfer.Downloader(s3, is_interrupted)
        for channel in (channel for channel in self.channels if not channel.piped):
            folders = [base / "input/data" / channel.name for base in self.bases]
            if channel.mounted:
                place = self._cloud.data_dir, self._job.account, self._job.region
                file_systems.mount(Mounted.of(channel.mounted), self._job.request, place, folders)
            else:
                downloader.channel(channel, folders)
        if self.checkpoints:
            for folder in self.checkpoints.folders:
                downloader.prefix(self.checkpoints.uri, folder)

    def upload(self, s3: Any, environment: Mapping[str, str]) -> None:
        """Upload the model and the further output of all hosts.

        Raises:
            TransferError: The results cannot be written.
        """
        transfer.check_output_key(environment, self._job.output_key)
        models = [base / "model" for base in self.bases]
        outputs = [base / "output/data" for base in self.bases]
        transfer.upload_archive(s3, models, "model.tar.gz", self._job.output, self.folder)
        transfer.upload_archive(s3, outputs, "output.tar.gz", self._job.output, self.folder)

    def remove(self) -> None:
        """Delete the folders of all hosts."""
        shutil.rmtree(self.folder, ignore_errors=True)
