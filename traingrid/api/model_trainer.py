"""Model trainer: converts a ModelTrainer of the SageMaker Python SDK into jobs in several Regions.

The SDK is not required: its objects are read by their attributes. docs/sagemaker-sdk.md lists them.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from traingrid.api.trainer_attributes import attributes, is_a
from traingrid.api.trainer_channels import channels_in_region, channels_of
from traingrid.api.trainer_script import script_fields
from traingrid.errors import UsageError
from traingrid.job.accelerators import accelerators
from traingrid.text import shown

_PATH = "trainer"
_ECR_REGION = re.compile(r"(\d{12}\.dkr\.ecr\.)([a-z0-9-]+)(\.amazonaws\.com)")
# The hyperparameters that start MPI in a container; a line has fields for them (backends/sagemaker/request.py).
_MPI = "sagemaker_mpi_enabled"
_MPI_FIELDS = {
    "sagemaker_mpi_num_of_processes_per_host": "processes_per_host",
    "sagemaker_mpi_custom_mpi_options": "mpi_options",
}


def from_model_trainer(
    trainer: object, regions: Sequence[str], data: Mapping[str, Mapping[str, str]] | None = None, image: str = ""
) -> list[dict[str, Any]]:
    """Convert a ModelTrainer of the SageMaker Python SDK v3 into a job for each Region, for `Grid.submit`.

        trainer = ModelTrainer(training_image=…, source_code=SourceCode(source_dir="src", entry_script="train.py"), …)
        jobs = tg.from_model_trainer(trainer, ["us-east-1", "eu-west-1"], data={
            "us-east-1": {"train": "s3://bucket/digits/train/"},
            "eu-west-1": {"train": "s3://other-bucket/digits/train/"},
        })
        submission = grid.submit(jobs)

    A job is a dictionary, so a program may change or copy it before it submits it. `Grid.submit` packs the source
    code and uploads it to each Region. The grid's execution role of the Region runs the job, not the trainer's role.
    The documentation lists the treatment of every attribute (docs/sagemaker-sdk.md). Nothing is sent to AWS.

    Args:
        trainer: The ModelTrainer. It is not changed.
        regions: Training Regions of the grid, each for one job.
        data: The URI of each channel by Region and channel, in place of the trainer's own URIs. It may contain channels
            that the trainer lacks. Not required if the trainer's URIs contain `{region}`, or for one Region.
        image: The training image in place of the trainer's: an alias of grid.yaml, or a URI, which may contain
            `{region}`.

    Returns:
        A dictionary for each Region with the fields of a manifest line.

    Raises:
        UsageError: The trainer has an attribute that a job cannot have. The text names it and the next step.
    """
    if not is_a(trainer, "ModelTrainer"):
        text = f"The trainer is a {type(trainer).__name__}, not a ModelTrainer of the SageMaker Python SDK v3."
        raise UsageError(text, "Write the jobs as dictionaries (docs/manifest-fields.md).")
    data = data or {}
    _check_regions(regions, data)
    attributes(trainer, _PATH)  # before a copy is made: a recipe's temporary folder is deleted with its trainer
    values = attributes(_with_configured_defaults(trainer), _PATH)
    if values["training_mode"].name != "SAGEMAKER_TRAINING_JOB":
        raise UsageError(f"{_PATH}.training_mode is {values['training_mode'].name}.", "Use SAGEMAKER_TRAINING_JOB.")
    mode = str(values.get("training_input_mode", "File"))
    channels = channels_of(values.get("input_data_config", ()), mode, f"{_PATH}.input_data_config")
    fields = {**_fields(values), **_hosts(values), **_launch(values), **_output(values)}
    lines = []
    for region in regions:
        inputs = channels_in_region(channels, region, data, several=len(regions) > 1)
        line = {"region": region, **fields, **_program(values, region, image), "inputs": inputs}
        if any(channel["input_mode"] == "Pipe" for channel in inputs.values()):
            line["streams"] = "host"  # as SageMaker without a grid, also if the grid's default differs
        lines.append({name: _in_region(value, region) for name, value in line.items()})
    return lines


def _check_regions(regions: object, data: object) -> None:
    """Check the arguments that are not the SDK's."""
    example = 'Give a list, for example regions=["us-east-1", "eu-west-1"].'
    if isinstance(regions, str) or not isinstance(regions, Sequence) or not regions:
        raise UsageError("The regions are not a list of Regions.", example)
    if len(set(regions)) < len(regions):
        raise UsageError("A Region is given twice.", "Copy a job of the result to run it twice.")
    if not isinstance(data, Mapping) or set(data) - set(regions):
        raise UsageError("data is not a dictionary by Region, for Regions in `regions`.", example)


def _with_configured_defaults(trainer: Any) -> Any:
    """Return a copy of a trainer with the defaults of the SDK's configuration files, which `train()` applies, too."""
    copy = trainer.model_copy()
    copy._temp_code_dir = None  # otherwise, the copy would delete the folder of the original
    if copy.networking is not None:
        copy.networking = copy.networking.model_copy()
    try:
        copy._populate_intelligent_defaults()
    except AttributeError as error:
        text = f"This version of the SageMaker Python SDK is not supported: {error}."
        raise UsageError(text, "Install sagemaker-train 1.27.0, or write the jobs as dictionaries.") from error
    return copy


def _fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are equal in every Region and independent of hosts and output."""
    fields = () if "algorithm_name" in values else (_MPI, *_MPI_FIELDS)  # the intake refuses them for an algorithm
    hyperparameters = values.get("hyperparameters", {})
    line_fields: dict[str, Any] = {
        "name": values.get("base_job_name"),
        "hyperparameters": {name: _text(value) for name, value in hyperparameters.items() if name not in fields},
        "environment": dict(values.get("environment", {})),
        "tags": _value_by_name(values.get("tags", ()), "tags", "key", "value"),
        "metrics": _value_by_name(values.get("_metric_definitions", ()), "_metric_definitions", "name", "regex"),
    }
    if "_retry_strategy" in values:
        line_fields["retries"] = attributes(values["_retry_strategy"], f"{_PATH}._retry_strategy")[
            "maximum_retry_attempts"
        ]
    if "networking" in values:
        attributes(values["networking"], f"{_PATH}.networking")
    return {name: value for name, value in line_fields.items() if value not in (None, "", {})}


def _text(value: object) -> str:
    """Return a hyperparameter as the SDK passes it to SageMaker (`safe_serialize` in train/utils.py)."""
    try:
        return value if isinstance(value, str) else json.dumps(value)
    except TypeError:
        return str(value)


def _value_by_name(entries: Sequence[object], name: str, key: str, value: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for number, entry in enumerate(entries):
        pair = attributes(entry, f"{_PATH}.{name}[{number}]")
        pairs[pair[key]] = pair[value]
    return pairs


def _hosts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the hosts and of the time that they may take."""
    compute = attributes(values["compute"], f"{_PATH}.compute")
    condition = attributes(values["stopping_condition"], f"{_PATH}.stopping_condition")
    fields = {
        "instance_type": compute.get("instance_type"),
        "instance_count": compute.get("instance_count"),
        "volume_gb": compute.get("volume_size_in_gb"),
        "spot": compute.get("enable_managed_spot_training") or None,
        "training_plan": compute.get("training_plan_arn"),
        "max_runtime": _seconds(condition.get("max_runtime_in_seconds")),
        "max_wait": _seconds(condition.get("max_wait_time_in_seconds")),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _seconds(number: int | None) -> str | None:
    return None if number is None else f"{number}s"


def _launch(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the launcher, the processes of a host, and the options of mpirun."""
    if "algorithm_name" in values and "distributed" not in values:
        return {}
    if "distributed" in values:
        return _launch_of_distributed(values)
    hyperparameters = values.get("hyperparameters", {})
    mpi_fields = {field: hyperparameters[name] for name, field in _MPI_FIELDS.items() if name in hyperparameters}
    if "source_code" in values and not mpi_fields:
        return {"launcher": "none"}  # as `train()`: every host runs the program by itself
    return {"launcher": "mpi", "processes_per_host": 1, **mpi_fields}


def _launch_of_distributed(values: Mapping[str, Any]) -> dict[str, Any]:
    distribution = attributes(values["distributed"], f"{_PATH}.distributed")
    if "algorithm_name" in values or getattr(values.get("source_code"), "command", None):
        text = f"{_PATH}.distributed is set, but an algorithm or a command (source_code.command) starts without it."
        raise UsageError(text, "Set an entry_script in place of it, or remove distributed.")
    instance_type = attributes(values["compute"], f"{_PATH}.compute").get("instance_type")
    options = " ".join(shlex.quote(option) for option in distribution.get("mpi_additional_options", ()))
    processes = distribution.get("process_count_per_node") or _one_for_each_gpu(str(instance_type))
    launcher = "torchrun" if is_a(values["distributed"], "Torchrun") else "mpi"
    launch = {"launcher": launcher, "processes_per_host": processes}
    if options:
        launch["mpi_options"] = options
    return launch


def _one_for_each_gpu(instance_type: str) -> int:
    """Return the number of processes that the SDK's drivers start by default (`get_process_count`)."""
    unknown = -1
    gpus = accelerators(instance_type, unknown)
    if gpus == unknown:
        text = f"The number of GPUs of {instance_type} is not known, and process_count_per_node is not set."
        raise UsageError(text, "Set process_count_per_node of distributed.")
    return gpus or 1


def _output(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of results and checkpoints; the SDK's own default output is the grid's default."""
    fields: dict[str, Any] = {}
    if "output_data_config" in values:
        uri = attributes(values["output_data_config"], f"{_PATH}.output_data_config").get("s3_output_path")
        session = values["sagemaker_session"]
        bucket = getattr(session, "_default_bucket", None)
        prefix = getattr(session, "default_bucket_prefix", None)
        parts = (bucket, prefix, values.get("base_job_name"))
        if uri and uri.rstrip("/") != "s3://" + "/".join(part for part in parts if part):
            fields["output"] = uri
    if "checkpoint_config" in values:
        config = attributes(values["checkpoint_config"], f"{_PATH}.checkpoint_config")
        fields["checkpoints"] = config.get("s3_uri", True)
    return fields


def _program(values: Mapping[str, Any], region: str, image: str) -> dict[str, Any]:
    """Return the fields of the image or algorithm and of the source code, in a Region."""
    if "algorithm_name" in values and image:
        raise UsageError(
            f"The trainer has an algorithm_name, which image={shown(image)} cannot replace.", "Omit image."
        )
    if "algorithm_name" in values:
        fields: dict[str, Any] = {"algorithm": values["algorithm_name"]}
    else:
        fields = {"image": _image(image or values["training_image"], region)}
    if "source_code" in values:
        fields |= script_fields(values["source_code"], f"{_PATH}.source_code")
    return fields


def _image(image: str, region: str) -> str:
    match = _ECR_REGION.match(image)
    if match and match[2] != region:
        text = f"{_PATH}.training_image {shown(image)} is in {match[2]}, but the job in {region} can only use its own."
        example = _ECR_REGION.sub(r"\1{region}\3", image)
        raise UsageError(text, f"Give an alias of grid.yaml, or a URI for each Region: image={example!r}.")
    return image


def _in_region(value: Any, region: str) -> Any:
    return value.replace("{region}", region) if isinstance(value, str) else value
