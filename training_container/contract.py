"""SageMaker's contract with a training container, read into frozen dataclasses.

Source: "How Amazon SageMaker Provides Training Information", SageMaker developer guide
(your-algorithms-training-algo-running-container.html). The names of the launch hyperparameters are those of
AWS's sagemaker-training toolkit 5.1 (params.py); toolkit.py has its variables.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from training_container import launch_options
from training_container.launch_options import LaunchOptions
from training_container.trainer import aliases


class ContractError(ValueError):
    """SageMaker's files, or what a user put into them, cannot be trained with; the text says what, where and why."""


@dataclass(frozen=True, kw_only=True)
class Folders:
    """The folders under /opt/ml.

    Source: the same page of the developer guide; `output/tensorboard` is TensorBoardOutputConfig's default LocalPath.
    """

    base: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Return the folders under $SAGEMAKER_BASE_DIR (the toolkit's variable), which is /opt/ml where unset."""
        return cls(base=Path(environment.get("SAGEMAKER_BASE_DIR") or "/opt/ml"))

    def here(self, path: str) -> Path:
        """Return where something lies that a hyperparameter gives by its path under /opt/ml, or by any other path."""
        named = Path(path)
        return self.base / named.relative_to("/opt/ml") if named.is_relative_to("/opt/ml") else named

    @property
    def config(self) -> Path:
        """hyperparameters.json, resourceconfig.json and inputdataconfig.json."""
        return self.base / "input" / "config"

    @property
    def data(self) -> Path:
        """One folder per channel."""
        return self.base / "input" / "data"

    @property
    def code(self) -> Path:
        """Where an archive with a script of the user's is unpacked."""
        return self.base / "code"

    @property
    def model(self) -> Path:
        """What becomes model.tar.gz."""
        return self.base / "model"

    @property
    def checkpoints(self) -> Path:
        """What SageMaker keeps in S3 while training runs, where asked to, and brings back after an interruption."""
        return self.base / "checkpoints"

    @property
    def output(self) -> Path:
        """What SageMaker looks into after training."""
        return self.base / "output"

    @property
    def failure(self) -> Path:
        """The file whose text becomes FailureReason."""
        return self.output / "failure"

    @property
    def tensorboard(self) -> Path:
        """TensorBoard's events."""
        return self.output / "tensorboard"


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """One training job, as one of its hosts sees it.

    Attributes:
        folders: where this host reads and writes.
        hosts: the names of all hosts, sorted; rank 0 runs on the first.
        current_host: this host's name.
        network_interface: the interface the hosts talk over ("eth0" on SageMaker), or None where not said.
        channels: each input channel's name and folder on this host.
        hyperparameters: the trainer's own, as text; those that steer the launch are in `launch`.
        launch: how ranks are started, and what they run.
        flags: what followed `train` on its command line; it is in `hyperparameters` as well.
        resources: what resourceconfig.json holds.
        channel_settings: what inputdataconfig.json holds: each channel's TrainingInputMode, S3DistributionType, ...
    """

    folders: Folders
    hosts: tuple[str, ...]
    current_host: str
    network_interface: str | None
    channels: Mapping[str, Path]
    hyperparameters: Mapping[str, str]
    launch: LaunchOptions
    flags: tuple[str, ...] = ()
    resources: Mapping[str, Any] = field(default_factory=dict)
    channel_settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def main_host(self) -> str:
        """The host that rank 0 runs on and that starts all ranks."""
        return self.hosts[0]

    @property
    def is_main_host(self) -> bool:
        """Whether this host starts the ranks."""
        return self.current_host == self.main_host

    @property
    def has_streams(self) -> bool:
        """Whether a channel comes in input mode Pipe."""
        return any(settings.get("TrainingInputMode") == "Pipe" for settings in self.channel_settings.values())

    @property
    def world_size(self) -> int:
        """How many ranks there must be: hosts times processes per host."""
        return len(self.hosts) * self.launch.processes_per_host


def read_training_job(folders: Folders, flags: Sequence[str] = ()) -> TrainingJob:
    """Read this host's view of the training job.

    Args:
        folders: where SageMaker has put its files.
        flags: the command line's `--name value`, which go before hyperparameters of the same name.

    Raises:
        ContractError: a file is missing or malformed, a launch hyperparameter is wrong, or a flag is none.
    """
    resources = _read_json(folders.config / "resourceconfig.json")
    hosts, current_host = tuple(sorted(resources.get("hosts", ()))), str(resources.get("current_host"))
    if current_host not in hosts:
        raise ContractError(f"resourceconfig.json: current_host is {current_host!r}, which is none of hosts {hosts}.")
    raw = _read_json(folders.config / "hyperparameters.json", default={})
    texts = {name: _text(value) for name, value in raw.items()}
    try:
        launch = launch_options.parse({name: text for name, text in texts.items() if name.startswith("sagemaker_")})
        flagged = _flagged(flags)
    except ValueError as error:
        raise ContractError(str(error)) from error
    channel_settings = _read_json(folders.config / "inputdataconfig.json", default={})
    return TrainingJob(
        folders=folders,
        hosts=hosts,
        current_host=current_host,
        network_interface=resources.get("network_interface_name"),
        channels={name: folders.data / name for name in channel_settings},
        hyperparameters={name: text for name, text in texts.items() if not _is_sagemakers(name)} | flagged,
        launch=launch,
        flags=tuple(flags),
        resources=resources,
        channel_settings=channel_settings,
    )


def _is_sagemakers(name: str) -> bool:
    """Return whether a hyperparameter is no trainer's or script's: the SDK's, or that of automatic model tuning.

    Source: sagemaker-training toolkit, params.py (SAGEMAKER_PREFIX, TUNING_METRIC).
    """
    return name.startswith("sagemaker_") or name == "_tuning_objective_metric"


def _flagged(flags: Sequence[str]) -> dict[str, str]:
    """Return the hyperparameters of a command line.

    Raises:
        ValueError: an argument is no flag, or one that says how ranks are started, which other processes read too.
    """
    found = aliases.from_flags(flags)
    for name in found:
        if name.startswith("sagemaker_"):
            raise ValueError(f"Flag --{name} is no flag of `train`. Write it into hyperparameters.json.")
    return found


def _read_json(path: Path, default: dict[str, Any] | None = None) -> dict[str, Any]:
    if default is not None and not path.exists():
        return default
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ContractError(
            f"{path} is missing. SageMaker writes it before it starts `train`; "
            "to train elsewhere, write it and point SAGEMAKER_BASE_DIR at the folder that stands for /opt/ml."
        ) from error
    except ValueError as error:
        raise ContractError(f"{path} is not JSON: {error}.") from error
    if not isinstance(content, dict):
        raise ContractError(f"{path} must hold a JSON object, not a {type(content).__name__}.")
    return content


def _text(value: object) -> str:
    """Return a hyperparameter's plain text: the SageMaker SDK JSON-encodes strings, a manifest does not."""
    if not isinstance(value, str):
        return json.dumps(value)
    if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        try:
            decoded = json.loads(value)
        except ValueError:
            return value
        return decoded if isinstance(decoded, str) else value
    return value
