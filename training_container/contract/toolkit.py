"""Toolkit: the SM_* variables and the command line that AWS's sagemaker-training toolkit passes to a script.

Source: sagemaker-training toolkit 5.1, ENVIRONMENT_VARIABLES.md and Environment.to_env_vars (environment.py).
"""

import json
import os
from collections.abc import Mapping

from training_container import outside_json
from training_container.contract import launch_options
from training_container.contract.training_job import TrainingJob

_LOG_LEVEL = 20  # logging.INFO, the toolkit's default


def sagemaker_variables(job: TrainingJob) -> dict[str, str]:
    """Return the SM_* variables for this host."""
    environment = _training_environment(job)
    variables = {
        **environment,
        "hps": environment["hyperparameters"],
        "channels": sorted(job.channels),
        "training_env": environment | {"job_name": os.environ.get("TRAINING_JOB_NAME"), "is_master": job.is_main_host},
    }
    del variables["hyperparameters"], variables["channel_input_dirs"]  # replaced by one variable for each entry
    if job.launch.script:
        variables["user_args"] = script_arguments(job.hyperparameters)
        variables["framework_params"] = {name: _decode(text) for name, text in job.framework_parameters.items()}
    variables |= {f"channel_{name}": str(folder) for name, folder in job.channels.items()}
    variables |= {f"hp_{name}": text for name, text in job.hyperparameters.items()}
    return {f"SM_{name.upper()}": _text(value) for name, value in variables.items()}


def script_arguments(hyperparameters: Mapping[str, str]) -> list[str]:
    """Return hyperparameters as a command line, sorted by name: `--name value`, or `-n value` for a single letter.

    An empty value is a flag, `--name`. Otherwise as in the source: sagemaker-training toolkit, mapping.to_cmd_args.
    """
    parts = []
    for name in sorted(hyperparameters):
        parts.append(f"--{name}" if len(name) > 1 else f"-{name}")
        if hyperparameters[name]:
            parts.append(hyperparameters[name])
    return parts


def _training_environment(job: TrainingJob) -> dict[str, object]:
    """Return the content of SM_TRAINING_ENV, which includes most of the other variables."""
    folders, resources = job.folders, job.resources
    environment: dict[str, object] = {
        "hosts": job.hosts,
        "current_host": job.current_host,
        "master_hostname": job.main_host,
        "current_instance_type": resources.get("current_instance_type", "local"),
        "current_instance_group": resources.get("current_group_name", "homogeneousCluster"),
        "network_interface_name": job.network_interface or "",
        "num_cpus": os.cpu_count() or 1,
        "num_gpus": launch_options.gpu_count(),
        "log_level": _LOG_LEVEL,
        "model_dir": str(folders.model),
        "input_dir": str(folders.base / "input"),
        "input_config_dir": str(folders.config),
        "output_dir": str(folders.output),
        "output_data_dir": str(folders.output / "data"),
        "output_intermediate_dir": str(folders.output / "intermediate"),
        "resource_config": resources,
        "input_data_config": job.channel_settings,
        "channel_input_dirs": {name: str(path) for name, path in job.channels.items()},
        "hyperparameters": {name: _decode(text) for name, text in job.hyperparameters.items()},
    }
    if script := job.launch.script:
        environment |= {
            "module_dir": script.archive or str(folders.code),
            "module_name": script.entry_point.removesuffix(".py"),
            "user_entry_point": script.entry_point,
        }
    return environment


def _decode(text: str) -> object:
    """Return a hyperparameter as the toolkit does: JSON values become numbers, lists, true, ..."""
    try:
        return outside_json.loads(text)
    except ValueError:
        return text


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
