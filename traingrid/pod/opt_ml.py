"""/opt/ml: the folders and files that SageMaker creates for a training container.

Sources: SageMaker developer guide, "How Amazon SageMaker AI Provides Training Information"
(https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html) for the three
files, and AWS's sagemaker-training toolkit (src/sagemaker_training/environment.py) for the folders that it reads.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.pod.host import Host

MOUNTED = ("input", "model", "checkpoints", "output")
"""The folders that the training container mounts. An image keeps its files beside them, as on SageMaker: images with
AWS's sagemaker-training toolkit have their program in /opt/ml/code (README of
https://github.com/aws/sagemaker-training-toolkit), and the toolkit creates this folder if the image has none."""
_FOLDERS = ("input/config", "input/data", "model", "checkpoints", "output/data", "output/intermediate")
_GROUP = "homogeneousCluster"
"""SageMaker's name of the only instance group of a job without InstanceGroups (the toolkit has it, too)."""
_INTERFACE = "eth0"
"""The network interface of a pod; SageMaker's developer guide has the same name for its containers."""


def write(host: Host) -> None:
    """Create the folders, and write the files of input/config."""
    for folder in _FOLDERS:
        (host.base / folder).mkdir(parents=True, exist_ok=True)
    _write(host, "hyperparameters", host.request.get("HyperParameters") or {})
    _write(host, "resourceconfig", resource_config(host))
    _write(host, "inputdataconfig", input_data_config(host.request))
    if host.checkpoints:
        # AWS's XGBoost container reads LocalPath from this file
        # (https://github.com/aws/sagemaker-xgboost-container, algorithm_mode/train.py: checkpoint_config).
        host.checkpoints[1].mkdir(parents=True, exist_ok=True)
        _write(host, "checkpointconfig", {"LocalPath": "/opt/ml/checkpoints", **host.request["CheckpointConfig"]})


def resource_config(host: Host) -> dict[str, Any]:
    """Return the content of resourceconfig.json; the names of the hosts are sorted, as the guide specifies."""
    hosts = sorted(host.hosts)
    instance_type = host.request["ResourceConfig"]["InstanceType"]
    return {
        "current_host": host.name,
        "current_instance_type": instance_type,
        "current_group_name": _GROUP,
        "hosts": hosts,
        "instance_groups": [{"instance_group_name": _GROUP, "instance_type": instance_type, "hosts": hosts}],
        "network_interface_name": _INTERFACE,
    }


def input_data_config(request: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the content of inputdataconfig.json: the settings of each channel."""
    return {channel["ChannelName"]: _settings(channel) for channel in request.get("InputDataConfig") or []}


def _settings(channel: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a channel. FastFile appears as File, because a container reads both in the same way."""
    settings = {"TrainingInputMode": "File", "RecordWrapperType": channel.get("RecordWrapperType", "None")}
    if source := channel["DataSource"].get("S3DataSource"):
        settings["S3DistributionType"] = source.get("S3DataDistributionType", "FullyReplicated")
    if "ContentType" in channel:
        settings["ContentType"] = channel["ContentType"]
    return settings


def _write(host: Host, name: str, content: Mapping[str, Any]) -> None:
    (host.base / "input" / "config" / f"{name}.json").write_text(json.dumps(content))
