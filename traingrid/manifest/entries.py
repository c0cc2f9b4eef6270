"""Entries of mappings: readers of one hyperparameter, environment variable or tag."""

from __future__ import annotations

import re

from traingrid.manifest.characters import invisible_in_name, not_of_number
from traingrid.manifest.limits import limit_problem
from traingrid.manifest.problem import RefusedError
from traingrid.manifest.secrets import is_secret
from traingrid.manifest.values import scalar, text

# Variables that the container platform sets, or that change which code runs (`ld.so`(8), Python's and bash's manuals).
_RESERVED_VARIABLES = re.compile(
    r"(AWS|SAGEMAKER|SM|LD|TRAINGRID)_.*|PATH|PYTHON(PATH|HOME|STARTUP|INSPECT)|BASH_ENV|ENV|IFS", re.IGNORECASE
)
_MPI = "Write launcher, processes_per_host or mpi_options."
_LAUNCHER = "Write launcher, and instance_type for another type."
_SCRIPT = "Write source and entry_point."
OURS = {
    "sagemaker_mpi_enabled": _MPI,
    "sagemaker_mpi_num_of_processes_per_host": _MPI,
    "sagemaker_mpi_custom_mpi_options": _MPI,
    "sagemaker_torch_distributed_enabled": _LAUNCHER,
    "sagemaker_instance_type": _LAUNCHER,
    "sagemaker_launcher": _LAUNCHER,
    "sagemaker_submit_directory": _SCRIPT,
    "sagemaker_program": _SCRIPT,
}
"""Hyperparameters that traingrid sets itself (backends/sagemaker/request.py), and the fields to use instead."""


def hyperparameter(name: str, value: object) -> str:
    """Return a hyperparameter's value as text."""
    next_step = "Shorten it, or store it in a file of a channel."
    _check_name(name, "HyperParameterKey", "Give the hyperparameter another name.")
    if name in OURS:
        raise RefusedError("traingrid sets this hyperparameter", OURS[name])
    return text(_checked_value(name, scalar(value)), "HyperParameterValue", next_step)


def variable(name: str, value: object) -> str:
    """Return an environment variable's value as text."""
    _check_name(name, "TrainingEnvironmentKey", "Write letters, digits and underscores.")
    if _RESERVED_VARIABLES.fullmatch(name):
        raise RefusedError("reserved for the platform or the loader", "Remove it, or set it in the image.")
    return text(_checked_value(name, scalar(value)), "TrainingEnvironmentValue", "Shorten it.")


def tag(name: str, value: object) -> str:
    """Return a tag's value as text."""
    _check_name(name, "TagKey", "Write letters, digits, spaces and _.:/=+-@.")
    if name.lower().startswith(("aws:", "traingrid:")):
        raise RefusedError("this prefix is reserved for AWS or traingrid", "Give the tag another name.")
    return text(_checked_value(name, scalar(value)), "TagValue", "Write letters, digits, spaces and _.:/=+-@.")


def _check_name(name: str, shape: str, next_step: str) -> None:
    """Refuse a name that breaks SageMaker's limits, or that differs from its appearance."""
    if problem := limit_problem(shape, name):
        raise RefusedError(problem, next_step)
    if hidden := invisible_in_name(name):
        raise RefusedError(f"the name has {hidden}", "Remove the character, or type the name again.")
    if name != name.strip():
        raise RefusedError("the name begins or ends with a blank", "Remove the blank.")


def _checked_value(name: str, value: str) -> str:
    """Return a value that is no secret, and not a number with a character that is none of a number."""
    if is_secret(name, value):
        reason = "looks like a secret, and any user who may describe the training job could read it"
        next_step = "Store it in AWS Secrets Manager and read it in the training code."
        raise RefusedError(reason, next_step, secret=True)
    if character := not_of_number(value):
        raise RefusedError(f"looks like a number, and has {character}", "Type the number again.")
    return value
