"""Contract: SageMaker's interface to a training container, parsed into frozen dataclasses.

Source: "How Amazon SageMaker Provides Training Information", SageMaker developer guide
(your-algorithms-training-algo-running-container.html). The launch hyperparameters have the names of AWS's
sagemaker-training toolkit 5.1 (params.py); toolkit.py provides its variables.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from training_container import outside_json
from training_container.contract import launch_options
from training_container.contract.launch_options import LaunchOptions


class ContractError(ValueError):
    """SageMaker's files, or the user's settings in them, are invalid. The text names the place and the reason."""


@dataclass(frozen=True, kw_only=True)
class Folders:
    """The folders under /opt/ml.

    Source: the same page of the developer guide; `output/tensorboard` is TensorBoardOutputConfig's default LocalPath.
    """

    base: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Return the folders under $SAGEMAKER_BASE_DIR (the toolkit's variable); its default is /opt/ml."""
        return cls(base=Path(environment.get("SAGEMAKER_BASE_DIR") or "/opt/ml"))

    def here(self, path: str) -> Path:
        """Return the local path of a hyperparameter's path: paths under /opt/ml are relative to this base folder."""
        given_path = Path(path)
        return self.base / given_path.relative_to("/opt/ml") if given_path.is_relative_to("/opt/ml") else given_path

    @property
    def config(self) -> Path:
        """Folder of hyperparameters.json, resourceconfig.json and inputdataconfig.json."""
        return self.base / "input" / "config"

    @property
    def data(self) -> Path:
        """Folder with a folder for each channel."""
        return self.base / "input" / "data"

    @property
    def code(self) -> Path:
        """Folder in which the archive of a custom script is unpacked."""
        return self.base / "code"

    @property
    def model(self) -> Path:
        """Folder that SageMaker uploads as model.tar.gz."""
        return self.base / "model"

    @property
    def checkpoints(self) -> Path:
        """Folder that SageMaker copies to S3 during training, if configured, and restores after an interruption."""
        return self.base / "checkpoints"

    @property
    def output(self) -> Path:
        """Folder that SageMaker reads after training."""
        return self.base / "output"

    @property
    def failure(self) -> Path:
        """File with the text that becomes FailureReason."""
        return self.output / "failure"

    @property
    def tensorboard(self) -> Path:
        """Folder of TensorBoard's events."""
        return self.output / "tensorboard"


_TOOLKITS_OWN = frozenset(
    f"sagemaker_{name}"
    for name in (
        *("program", "submit_directory", "enable_cloudwatch_metrics", "region"),
        *("container_log_level", "job_name", "s3_output"),
    )
)
"""SAGEMAKER_HYPERPARAMETERS of sagemaker-training toolkit, params.py."""


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """One training job from the perspective of one of its hosts.

    Attributes:
        hosts: The names of all hosts, sorted. Rank 0 runs on the first.
        network_interface: The interface for traffic between hosts ("eth0" on SageMaker); None if not specified.
        channels: The folder of each input channel on this host, by name.
        hyperparameters: The trainer's hyperparameters, as text. Those that control the launch are in `launch`.
        launch: The options for starting ranks, and the program that they run.
        flags: The command-line arguments of `train`; `hyperparameters` contains them, too.
        resources: The content of resourceconfig.json.
        channel_settings: The content of inputdataconfig.json: each channel's TrainingInputMode, S3DistributionType, ...
        framework_parameters: The hyperparameters of launchers, as text, for a script that reads them.
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
    framework_parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def main_host(self) -> str:
        """The host that starts all ranks, and runs rank 0."""
        return self.hosts[0]

    @property
    def is_main_host(self) -> bool:
        """True if this host starts the ranks."""
        return self.current_host == self.main_host

    @property
    def has_streams(self) -> bool:
        """True if a channel has the input mode Pipe."""
        return any(settings.get("TrainingInputMode") == "Pipe" for settings in self.channel_settings.values())

    @property
    def world_size(self) -> int:
        """The number of ranks: hosts times processes per host."""
        return len(self.hosts) * self.launch.processes_per_host


def read_training_job(folders: Folders, flags: Sequence[str] = ()) -> TrainingJob:
    """Read this host's view of the training job.

    Args:
        folders: The folders with SageMaker's files.
        flags: Command-line arguments `--name value`, which take precedence over hyperparameters of the same name.

    Raises:
        ContractError: A file is missing or malformed, a launch hyperparameter is invalid, or an argument is not a flag.
    """
    resources = _read_json(folders.config / "resourceconfig.json")
    hosts = tuple(sorted(resources.get("hosts", ())))
    current_host = str(resources.get("current_host"))
    if current_host not in hosts:
        raise ContractError(f"resourceconfig.json: current_host must be one of hosts {hosts}; got {current_host!r}.")
    raw = _read_json(folders.config / "hyperparameters.json", default={})
    texts = {name: _text(value) for name, value in raw.items()}
    try:
        launch = launch_options.parse({name: text for name, text in texts.items() if name.startswith("sagemaker_")})
    except ValueError as error:
        raise ContractError(str(error)) from error
    channel_settings = _read_json(folders.config / "inputdataconfig.json", default={})
    return TrainingJob(
        folders=folders,
        hosts=hosts,
        current_host=current_host,
        network_interface=resources.get("network_interface_name"),
        channels={name: folders.data / name for name in channel_settings},
        hyperparameters={name: text for name, text in texts.items() if not _is_sagemakers(name)} | from_flags(flags),
        launch=launch,
        flags=tuple(flags),
        resources=resources,
        channel_settings=channel_settings,
        framework_parameters={name: text for name, text in texts.items() if _is_of_framework(name)},
    )


def _is_of_framework(name: str) -> bool:
    """Return True if a hyperparameter is one of a launcher, not of the toolkit itself.

    Source: sagemaker-training toolkit, environment.py (additional_framework_parameters).
    """
    return name.startswith("sagemaker_") and name not in _TOOLKITS_OWN


def _is_sagemakers(name: str) -> bool:
    """Return True if a hyperparameter belongs to SageMaker's SDK or automatic model tuning, not to the trainer.

    Source: sagemaker-training toolkit, params.py (SAGEMAKER_PREFIX, TUNING_METRIC).
    """
    return name.startswith("sagemaker_") or name == "_tuning_objective_metric"


def from_flags(arguments: Sequence[str]) -> dict[str, str]:
    """Return hyperparameters from a command line: `--name value`, `--name=value`, or `--name` alone for true.

    Args:
        arguments: The arguments after the program's name. Config replaces aliases.

    Raises:
        ContractError: An argument is not a flag, a flag is repeated, or it sets a launch option, which other processes
            must also be able to read.
    """
    texts: dict[str, str] = {}
    for name, value in _pairs(arguments):
        if name in texts:
            raise ContractError(f"Flag --{name} is repeated on the command line. Remove one of them.")
        if name.startswith("sagemaker_"):
            raise ContractError(f"Flag --{name} is not supported by `train`. Set it in hyperparameters.json.")
        texts[name] = value
    return texts


def _pairs(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    remaining = list(arguments)
    while remaining:
        flag = remaining.pop(0)
        name, equals, value = flag.lstrip("-").partition("=")
        if not flag.startswith("-") or not name:
            raise ContractError(
                f"Argument {flag!r} is not a flag. Pass hyperparameters as --name value, for example --epochs 90."
            )
        if not equals:
            value = "true" if not remaining or remaining[0].startswith("--") else remaining.pop(0)
        yield name.replace("-", "_"), value


def _read_json(path: Path, default: dict[str, Any] | None = None) -> dict[str, Any]:
    if default is not None and not path.exists():
        return default
    try:
        content = outside_json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ContractError(
            f"{path} is missing. SageMaker writes it before it starts `train`. "
            "To train elsewhere, create it and set SAGEMAKER_BASE_DIR to the folder that replaces /opt/ml."
        ) from error
    except ValueError as error:
        raise ContractError(f"{path} is not JSON: {error}.") from error
    if not isinstance(content, dict):
        raise ContractError(f"{path} must contain a JSON object, not a {type(content).__name__}.")
    return content


def _text(value: object) -> str:
    """Return a hyperparameter's plain text. The SageMaker SDK encodes strings as JSON, a manifest does not."""
    if not isinstance(value, str):
        return json.dumps(value)
    if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        try:
            decoded = outside_json.loads(value)
        except ValueError:
            return value
        return decoded if isinstance(decoded, str) else value
    return value
