"""Trainer attributes: which line field each attribute of the SageMaker Python SDK's ModelTrainer becomes, if any.

The tables name every attribute of ModelTrainer and of the classes below it, public and private, so that an attribute
of a later SDK is an error and never ignored. They follow the source of sagemaker-train 1.27.0 and sagemaker-core 2.27.0
(https://github.com/aws/sagemaker-python-sdk, model_trainer.py and core/training/configs.py). This module imports
nothing of the SDK.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from traingrid.errors import UsageError
from traingrid.text import shown


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """The treatment of one attribute.

    Attributes:
        fields: The fields of a line that it becomes, for the documentation; empty if there is none.
        note: The conversion, or the reason why the attribute is not used.
        next_step: The next step in the error for a value; empty if the attribute is not refused.
        accepted: Values of a refused attribute that need no conversion.
    """

    fields: str = ""
    note: str = ""
    next_step: str = ""
    accepted: tuple[object, ...] = ()


def _translated_to(fields: str, note: str = "") -> Attribute:
    return Attribute(fields=fields, note=note)


def _unused(reason: str) -> Attribute:
    return Attribute(note=reason)


def _not_supported(next_step: str, *accepted: object) -> Attribute:
    return Attribute(next_step=next_step, accepted=accepted)


_OWN_COPIES = "Remove it. The deployment encrypts volumes and results (`encryption` in grid.yaml)."
_NETWORK = "Remove it. grid.yaml sets subnets and security groups under `regions`."
_RECIPE = "The grid does not train recipes. Use a ModelTrainer with an image and source code."
_ONE_TYPE = "Remove it, and set compute.instance_type and compute.instance_count."
_RESULT = "A result of `train()`."

ATTRIBUTES: Mapping[str, Mapping[str, Attribute]] = {
    "ModelTrainer": {
        "training_mode": _translated_to("", "`SAGEMAKER_TRAINING_JOB`; `LOCAL_CONTAINER` is refused"),
        "sagemaker_session": _unused(
            "The grid has its own clients. Sessions for pipelines and local mode are refused."
        ),
        "role": _unused("The grid's execution role of each Region runs the job."),
        "base_job_name": _translated_to("`name`"),
        "input_s3_key_prefix": _not_supported(
            "Remove it. The grid stores source code in the data bucket of each Region."
        ),
        "source_code": _translated_to("`source`, `entry_point`", "packed and uploaded to each Region by `grid.submit`"),
        "distributed": _translated_to(
            "`launcher`, `processes_per_host`", "`MPI` or `Torchrun`; custom classes are refused"
        ),
        "compute": _translated_to("see Compute"),
        "networking": _translated_to("see Networking"),
        "stopping_condition": _translated_to("`max_runtime`, `max_wait`"),
        "training_image": _translated_to("`image`", "or the argument `image`, such as an alias of grid.yaml"),
        "training_image_config": _not_supported("Remove it. The grid pulls images from ECR only."),
        "algorithm_name": _translated_to("`algorithm`"),
        "output_data_config": _translated_to("`output`", "the SDK's default bucket becomes the grid's default output"),
        "input_data_config": _translated_to("`inputs`", "with the URIs of the argument `data`"),
        "checkpoint_config": _translated_to("`checkpoints`"),
        "training_input_mode": _translated_to("`inputs`", "`input_mode` of the channels that SageMaker applies it to"),
        "environment": _translated_to("`environment`"),
        "hyperparameters": _translated_to(
            "`hyperparameters`", "those that start MPI become `processes_per_host`, `mpi_options`"
        ),
        "tags": _translated_to("`tags`"),
        "local_container_root": _unused("Only local mode uses it."),
        "model_package_config": _not_supported(_RECIPE),
        "config_mgr": _unused("Defaults of the SDK's configuration files are applied first, as by `train()`."),
        "_metric_definitions": _translated_to("`metrics`"),
        "_retry_strategy": _translated_to("`retries`"),
        "_tensorboard_output_config": _not_supported(
            "Remove it. docs/training.md describes how a job keeps TensorBoard's events."
        ),
        "_infra_check_config": _not_supported("Remove it. The grid does not request health checks of instances."),
        "_session_chaining_config": _not_supported("Remove it. The grid does not request session tags."),
        "_remote_debug_config": _not_supported("Remove it, and set `training.remote_debug` in grid.yaml."),
        "_is_nova_recipe": _not_supported(_RECIPE, False),
        "_is_llmft_recipe": _not_supported(_RECIPE, False),
        "_temp_recipe_train_dir": _not_supported(_RECIPE),
        "_jumpstart_config": _not_supported(
            "The grid does not train JumpStart models. Set training_image and source_code."
        ),
        "_latest_training_job": _unused(_RESULT),
        "_temp_code_dir": _unused(_RESULT),
    },
    "SourceCode": {
        "source_dir": _translated_to(
            "`source`", "a local folder, or a .tar.gz in S3, whose URI may contain `{region}`"
        ),
        "requirements": _translated_to("`source`", "packed as requirements.txt, which the image installs"),
        "entry_script": _translated_to("`entry_point`", "a .py or .sh file"),
        "command": _translated_to(
            "`entry_point`", "a Python program that runs the command with bash is packed; refused with MPI"
        ),
        "args": _translated_to("`entry_point`", "quoted and added to the command"),
        "ignore_patterns": _translated_to("`source`", "the files are not packed"),
    },
    "Compute": {
        "instance_type": _translated_to("`instance_type`"),
        "instance_count": _translated_to("`instance_count`"),
        "volume_size_in_gb": _translated_to("`volume_gb`"),
        "enable_managed_spot_training": _translated_to("`spot`"),
        "training_plan_arn": _translated_to("`training_plan`", "`{region}` is the line's Region"),
        "volume_kms_key_id": _not_supported(_OWN_COPIES),
        "keep_alive_period_in_seconds": _not_supported("Remove it, and write `keep_alive` in a manifest.", 0),
        "instance_groups": _not_supported(_ONE_TYPE),
        "instance_placement_config": _not_supported(_ONE_TYPE),
        "instance_preferences": _not_supported(_ONE_TYPE),
        "selected_instance_type": _not_supported(_ONE_TYPE),
        "selected_instance_count": _not_supported(_ONE_TYPE),
    },
    "Networking": {
        "security_group_ids": _not_supported(_NETWORK, []),
        "subnets": _not_supported(_NETWORK, []),
        "enable_network_isolation": _not_supported(
            "Remove it, and set `training.network_isolation` in grid.yaml.", False
        ),
        "enable_inter_container_traffic_encryption": _not_supported(
            "Remove it, and set `training.encrypt_traffic` in grid.yaml.", False
        ),
    },
    "StoppingCondition": {
        "max_runtime_in_seconds": _translated_to("`max_runtime`"),
        "max_wait_time_in_seconds": _translated_to("`max_wait`"),
        "max_pending_time_in_seconds": _not_supported(
            "Remove it. The grid does not limit the time in the state Pending."
        ),
    },
    "OutputDataConfig": {
        "s3_output_path": _translated_to(
            "`output`", "below the output bucket of the Region; `{region}` is the line's Region"
        ),
        "kms_key_id": _not_supported(_OWN_COPIES),
        "compression_type": _not_supported("Remove it. The grid's jobs write model.tar.gz.", "GZIP"),
    },
    "CheckpointConfig": {
        "s3_uri": _translated_to(
            "`checkpoints`", "below the output bucket of the Region; without it, the line's own folder there"
        ),
        "local_path": _not_supported("Write checkpoints to /opt/ml/checkpoints.", "/opt/ml/checkpoints"),
    },
    "MPI": {
        "process_count_per_node": _translated_to(
            "`processes_per_host`", "by default one for each GPU of the instance type"
        ),
        "mpi_additional_options": _translated_to("`mpi_options`"),
    },
    "Torchrun": {
        "process_count_per_node": _translated_to(
            "`processes_per_host`", "by default one for each GPU of the instance type"
        ),
        "smp": _not_supported("Remove it. The grid does not configure SageMaker's model parallelism library."),
    },
    "InputData": {
        "channel_name": _translated_to("`inputs`"),
        "data_source": _translated_to("`uri`", "an S3 URI; local paths are refused"),
        "content_type": _translated_to("`content_type`"),
    },
    "Channel": {
        "channel_name": _translated_to("`inputs`"),
        "data_source": _translated_to("see DataSource"),
        "content_type": _translated_to("`content_type`"),
        "input_mode": _translated_to("`input_mode`"),
        "shuffle_config": _translated_to("`shuffle_seed`"),
        "compression_type": _not_supported("Decompress the data, or let the script do it.", "None"),
        "record_wrapper_type": _translated_to("`record_wrapper`"),
    },
    "DataSource": {
        "s3_data_source": _translated_to("see S3DataSource"),
        "file_system_data_source": _not_supported(
            "Write a manifest line (docs/file-systems.md), or copy the data to S3."
        ),
        "dataset_source": _not_supported("Give the S3 URI of the data."),
    },
    "S3DataSource": {
        "s3_uri": _translated_to("`uri`", "in a bucket of the line's Region; `{region}` is the line's Region"),
        "s3_data_type": _translated_to(
            "`manifest`", "`S3Prefix`, `ManifestFile` or `AugmentedManifestFile`; others are refused"
        ),
        "s3_data_distribution_type": _translated_to("`distribution`"),
        "attribute_names": _translated_to("`attributes`"),
        "instance_group_names": _not_supported("Remove it. All hosts of a job are alike."),
        "model_access_config": _not_supported("Copy the data to a bucket of the grid."),
        "hub_access_config": _not_supported("Copy the data to a bucket of the grid."),
    },
    "ShuffleConfig": {"seed": _translated_to("`shuffle_seed`")},
    "Tag": {"key": _translated_to("`tags`"), "value": _translated_to("`tags`")},
    "MetricDefinition": {"name": _translated_to("`metrics`"), "regex": _translated_to("`metrics`")},
    "RetryStrategy": {"maximum_retry_attempts": _translated_to("`retries`")},
}
"""The treatment of each attribute, by the names of class and attribute."""

REFUSED_CLASSES: Mapping[str, str] = {
    "FileSystemDataSource": "Write a manifest line (docs/file-systems.md), or copy the data to S3.",
    "DatasetSource": "Give the S3 URI of the data.",
    "PipelineVariable": "Give the value itself. Only SageMaker Pipelines know the value of a variable.",
    "PipelineSession": "Use a plain session. A pipeline's steps run in one Region.",
    "LocalSession": "Use a plain session. The grid trains in SageMaker, not on this machine.",
}
"""The next step for a value whose class, or a class above it, cannot be converted."""


def attributes(value: object, path: str) -> dict[str, Any]:
    """Return the attributes of an SDK object that are set and are not refused, by name.

    Args:
        value: A ModelTrainer, or an object below it.
        path: The object's place, for errors.

    Raises:
        UsageError: An attribute cannot be converted, or is not known. The text names it.
    """
    check_class(value, path)
    table = _table(value, path)
    values = {}
    for name, default in _defaults(value).items():
        attribute_value = _value_or_none(getattr(value, name, None))
        place = f"{path}.{name}"
        for entry in _entries(attribute_value):
            check_class(entry, place)
        if name not in table:
            if attribute_value not in (None, default):
                text = f"{place} is {shown(str(attribute_value))}"
                text += ", and this version of traingrid does not know the attribute."
                raise UsageError(text, "Remove it, or write the line by hand (docs/manifest-fields.md).")
            continue
        step = table[name].next_step
        if step and attribute_value is not None and attribute_value not in table[name].accepted:
            raise UsageError(f"{place} cannot be converted into a line.", step)
        if attribute_value is not None and not step:
            values[name] = attribute_value
    return values


def check_class(value: object, path: str) -> None:
    """Raise a UsageError if an object's class cannot be converted."""
    for name in _class_names(value):
        if name in REFUSED_CLASSES:
            raise UsageError(f"{path} is a {name}, which cannot be converted.", REFUSED_CLASSES[name])


def is_a(value: object, name: str) -> bool:
    """Return True if a class of this name is the class of an object, or above it."""
    return name in _class_names(value)


def _class_names(value: object) -> list[str]:
    return [owner.__name__ for owner in type(value).__mro__]


def _table(value: object, path: str) -> Mapping[str, Attribute]:
    class_name = next((name for name in _class_names(value) if name in ATTRIBUTES), None)
    if class_name is None:
        text = f"{path} is a {type(value).__name__}, which cannot be converted."
        raise UsageError(text, "docs/sagemaker-sdk.md lists the classes that can.")
    return ATTRIBUTES[class_name]


def _defaults(value: Any) -> dict[str, object]:
    """Return the default of each attribute of a pydantic model, public and private."""
    public, private = type(value).model_fields, type(value).__private_attributes__
    return {name: field.default for name, field in {**public, **private}.items()}


def _value_or_none(value: object) -> object:
    """Return a value, with None for the SDK's marker of attributes that are not set."""
    return None if is_a(value, "Unassigned") else value


def _entries(value: object) -> Iterable[object]:
    """Return a value, or the entries of a list or dictionary."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, (list, tuple)) else (value,)
