"""A host's /opt/ml: the folders and files that SageMaker and a training container exchange.

Contract: SageMaker Developer Guide, "How Amazon SageMaker Provides Training Information". On this machine the folder is
`SAGEMAKER_BASE_DIR`, the name that AWS's sagemaker-training toolkit reads in place of /opt/ml.

SageMaker mounts its own folders, so the files that an image has beside them stay: images with this toolkit have their
program in /opt/ml/code (README of https://github.com/aws/sagemaker-training-toolkit).
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from localcloud.ecr.process_images import ProcessImage
from localcloud.sagemaker.hosts import INTERFACE
from localcloud.sagemaker.request import Channel, Host

FAILURE_CHARACTERS = 1024
"""Maximum length of a FailureReason (API reference, DescribeTrainingJob); the text of output/failure is truncated."""
_MOUNTED = ("input", "model", "output", "checkpoints")
"""The folders of SageMaker, which hide an image's folders."""


class OptMl:
    """One host's base folder.

    Attributes:
        base: The folder that replaces /opt/ml.
    """

    def __init__(self, base: Path) -> None:
        self.base = base

    def path(self, container_path: str) -> Path:
        """Return the local path of a path that begins with /opt/ml."""
        return self.base / container_path.removeprefix("/opt/ml").lstrip("/")

    def prepare(
        self,
        request: Mapping[str, Any],
        image: ProcessImage,
        host: Host,
        hosts: Sequence[Host],
        channels: Sequence[Channel],
    ) -> None:
        """Write the image's own files, create SageMaker's folders and write input/config."""
        image.write_opt_ml(self.base)
        for folder in _MOUNTED:
            shutil.rmtree(self.base / folder, ignore_errors=True)
        for folder in ("input/config", "input/data", "model", "output/data"):
            (self.base / folder).mkdir(parents=True, exist_ok=True)
        self._write("hyperparameters", request.get("HyperParameters") or {})
        self._write("inputdataconfig", {channel.name: channel.config() for channel in channels})
        self._write("resourceconfig", resource_config(host, hosts))

    def failure(self) -> str:
        """Return the text of output/failure, truncated as by SageMaker; empty if it does not exist."""
        try:
            with (self.base / "output/failure").open(errors="replace") as text:
                return text.read(FAILURE_CHARACTERS)
        except (FileNotFoundError, IsADirectoryError):
            return ""

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        (self.base / "input/config" / f"{name}.json").write_text(json.dumps(content))


def algorithm_error(failure: str, exit_code: int) -> str:
    """Return the FailureReason of a failed container: prefix, text of output/failure, exit code."""
    end = f", exit code: {exit_code}"
    return f"AlgorithmError: {failure}"[: FAILURE_CHARACTERS - len(end)] + end


def resource_config(host: Host, hosts: Sequence[Host]) -> dict[str, Any]:
    """Return the resourceconfig.json of one host."""
    groups: dict[str, list[Host]] = {}
    for member in hosts:
        groups.setdefault(member.group, []).append(member)
    return {
        "current_group_name": host.group,
        "current_host": host.name,
        "current_instance_type": host.instance_type,
        "hosts": [member.name for member in hosts],
        "instance_groups": [
            {
                "hosts": [member.name for member in members],
                "instance_group_name": name,
                "instance_type": members[0].instance_type,
            }
            for name, members in groups.items()
        ],
        "network_interface_name": INTERFACE,
    }
