"""Job: the part of a training job that a stand-in reads from SageMaker's configuration files."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self


class JobError(Exception):
    """The job's configuration or data is invalid."""


@dataclass(frozen=True, kw_only=True)
class AlgorithmJob:
    """One host's view of a training job.

    Attributes:
        base: The folder in place of /opt/ml.
        hyperparameters: The hyperparameters, as text.
        channels: inputdataconfig.json.
        instance_type: The type of this host.
        hosts: The names of all hosts.
    """

    base: Path
    hyperparameters: Mapping[str, str]
    channels: Mapping[str, Mapping[str, str]]
    instance_type: str
    host: str
    hosts: tuple[str, ...]

    @classmethod
    def read(cls, base: Path) -> Self:
        """Read the configuration below `base`."""
        config = {
            name: json.loads((base / f"input/config/{name}.json").read_text())
            for name in ("hyperparameters", "inputdataconfig", "resourceconfig")
        }
        resources = config["resourceconfig"]
        return cls(
            base=base,
            hyperparameters=config["hyperparameters"],
            channels=config["inputdataconfig"],
            instance_type=resources["current_instance_type"],
            host=resources["current_host"],
            hosts=tuple(resources["hosts"]),
        )

    @property
    def is_first_host(self) -> bool:
        """True on the host that writes the model."""
        return self.host == min(self.hosts)

    def content_type(self, channel: str, default: str = "") -> str:
        """Return the content type of a channel without parameters."""
        return self.channels[channel].get("ContentType", default).partition(";")[0].strip().lower()

    def blobs(self, channel: str) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of each file of a channel, or of its first stream in Pipe mode.

        Raises:
            JobError: The channel has no data.
        """
        folder = self.base / "input/data" / channel
        if self.channels[channel]["TrainingInputMode"] == "Pipe":
            yield channel, Path(f"{folder}_0").read_bytes()
            return
        paths = (path for path in folder.rglob("*") if path.is_file())
        files = sorted(path for path in paths if not _is_hidden(path.relative_to(folder)))
        if not files:
            message = f"the channel {channel} has no files"
            raise JobError(message)
        for path in files:
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def _is_hidden(relative_path: Path) -> bool:
    """Return True if a part of a file's path begins with a dot or an underscore.

    Hadoop and Spark name temporary files in this way. Folders of partitions, such as `_day=3`, are data
    (HadoopFSUtils.shouldFilterOutPathName in https://github.com/apache/spark). xgboost's container skips the same names
    (`_is_data_file` in src/sagemaker_xgboost_container/data_utils.py of
    https://github.com/aws/sagemaker-xgboost-container).
    """
    parts = relative_path.parts
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)
