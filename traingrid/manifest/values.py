"""Manifest values: functions that validate one value of a manifest and convert it for a job."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from traingrid.grid.field_types import MAX_KEEP_ALIVE, MAX_RUNTIME_LIMIT, parse_duration
from traingrid.manifest.limits import MAX_INTEGER, broken_limit, choices, most
from traingrid.manifest.secrets import is_secret
from traingrid.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable

# Tools that have no missing integers, such as pandas, write a column with an empty cell as floats.
_DIGITS = re.compile(r"(\d{1,10})(\.0+)?", re.ASCII)
_EXACT_FLOATS = 2**53
"""Below it, every whole number is a float. A larger float may have been another whole number."""
_METRIC_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,254}")
# What follows a number: the end of the line; an ASCII character that no number has; one that separates digits in
# numbers (,'_ and any outside ASCII, such as no-break blanks) without a digit after it; the first letter of a unit such
# as GB, but not k, M, G or T alone, which multiply the number; or an x that begins no hexadecimal number. It has no
# lookahead, because SageMaker does not document its engine.
_END_OF_NUMBER = (
    r"(?:$|[\t-&(-*/:-DFH-JLN-SU-WYZ[-^`a-df-jl-wyz-~]|[^\t-&(-+\--^`-~](?:$|[^0-9])"
    r"|[kKMGT][A-Za-z]|[xX](?:$|[^0-9A-Fa-f]))"
)
_ENTRY_POINT = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]*\.(py|sh)")
# Variables that the container platform sets, or that change which code runs (`ld.so`(8), Python's and bash's manuals).
_RESERVED_VARIABLES = re.compile(
    r"(AWS|SAGEMAKER|SM|LD|TRAINGRID)_.*|PATH|PYTHON(PATH|HOME|STARTUP|INSPECT)|BASH_ENV|ENV|IFS", re.IGNORECASE
)
_DAY = 86400
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
"""Hyperparameters that traingrid sets itself (backends/sagemaker_request.py), and the fields to use instead."""


class RefusedError(ValueError):
    """A value is invalid; gives the reason and the next step."""

    def __init__(self, reason: str, next_step: str, *, secret: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.next_step = next_step
        self.secret = secret


def literal(value: object) -> str:
    """Return a value in the form used by error messages."""
    return shown(value if isinstance(value, str) else json.dumps(value, default=str)[:200])


def text(value: object, shape: str, next_step: str) -> str:
    """Return a text that satisfies the limits of a shape of the service model."""
    if not isinstance(value, str):
        raise RefusedError("must be text", next_step)
    broken = broken_limit(shape, value)
    if broken:
        raise RefusedError(broken, next_step)
    return value


def attribute_names(value: object) -> tuple[str, ...]:
    """Return the names of attributes of an augmented manifest, in the order in which they are streamed."""
    next_step, longest = 'Write a list, for example ["source-ref", "label"].', most("AttributeNames")
    if not isinstance(value, list | tuple) or not value:
        raise RefusedError("attributes must be a list of names", next_step)
    if len(value) > longest:
        raise RefusedError(f"SageMaker allows at most {longest} attributes", next_step)
    return tuple(text(name, "AttributeName", next_step) for name in value)


def scalar(value: object) -> str:
    """Return a text, number or boolean as the text that the container receives."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise RefusedError("must be text, a number or a boolean", "Write it as JSON text in quotes.")
    return str(value)


def count(least: int, greatest: int = MAX_INTEGER) -> Callable[[object], int]:
    """Return a reader of whole numbers: also digits as text, because CSV has no numbers, and floats such as 2.0."""

    def read(value: object) -> int:
        next_step = f"Write a whole number from {least} to {greatest}, in digits only."
        if isinstance(value, str) and (match := _DIGITS.fullmatch(value)):
            value = int(match[1])
        elif isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOATS:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise RefusedError("must be a whole number", next_step)
        if not least <= value <= greatest:
            raise RefusedError("out of range", next_step)
        return value

    return read


def choice(*offered: str) -> Callable[[object], str]:
    """Return a reader that accepts only the given words."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in offered:
            raise RefusedError("not a valid value", f"Write {' or '.join(offered)}.")
        return value

    return read


def input_mode(value: object) -> str:
    """Return SageMaker's training input mode."""
    return choice(*choices("TrainingInputMode"))(value)


def shuffle_seed(value: object) -> int:
    """Return a seed of SageMaker's ShuffleConfig, a 64-bit number."""
    return count(0, 2**63 - 1)(value)


def flag(value: object) -> bool:
    """Return a boolean from JSON, or from the text that a spreadsheet writes for one."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise RefusedError("must be true or false", "Write true or false.")
    return value


def duration(longest: int) -> Callable[[object], int]:
    """Return a reader that converts durations such as "24h" to seconds."""

    def read(value: object) -> int:
        days, minutes = f"90m, 24h or 2d; at most {longest // _DAY}d", f"10m; at most {longest // 60}m"
        next_step = f"Write for example {days if longest >= _DAY else minutes}."
        try:
            seconds = parse_duration(value)
        except ValueError as error:
            raise RefusedError(str(error), next_step) from None
        if not 1 <= seconds <= longest:
            raise RefusedError("out of range", next_step)
        return seconds

    return read


def entry_point(value: object) -> str:
    """Return the path of a program inside `source`."""
    next_step = "Write the path of a .py or .sh file inside the archive, for example train.py."
    if not isinstance(value, str) or not _ENTRY_POINT.fullmatch(value):
        raise RefusedError("must be the path of a program inside the archive", next_step)
    return text(value, "HyperParameterValue", next_step)


def metrics(value: object) -> dict[str, str]:
    """Return metrics with their regular expressions, from names separated by spaces, a list or a mapping."""
    next_step = 'Write names such as "train_loss validation_top1", or {"name": "regular expression"} in JSON Lines.'
    if isinstance(value, str):
        value = value.split()
    if isinstance(value, list):
        value = {name: metric_regex(name) if isinstance(name, str) else "" for name in map(_hashable, value)}
    if not isinstance(value, dict) or not value:
        raise RefusedError("must name at least one metric", next_step)
    if len(value) > most("MetricDefinitionList"):
        raise RefusedError(f"SageMaker allows at most {most('MetricDefinitionList')} metrics", next_step)
    for name, regex in value.items():
        if not isinstance(name, str) or not _METRIC_NAME.fullmatch(name):
            raise RefusedError(f"{literal(name)} is not a valid metric name", next_step)
        text(regex, "MetricRegex", f"Give {name} a regular expression.")
        try:
            groups = re.compile(regex).groups
        except (re.error, RecursionError, OverflowError) as error:
            raise RefusedError(f"{literal(regex)} is not a regular expression ({error})", next_step) from None
        if groups < 1:
            raise RefusedError(f"{literal(regex)} has no group for the value", "Put the number in (…).")
    return value


@lru_cache(maxsize=1024)
def metric_regex(name: str) -> str:
    """Return the regular expression that finds a metric printed as `name=value`.

    Its first group is the whole number as it was printed: of `1,234.5` it finds nothing, rather than 1.
    """
    return rf"\b{re.escape(name)}=([-+0-9.eE]+){_END_OF_NUMBER}"


def hyperparameter(name: str, value: object) -> str:
    """Return a hyperparameter's value as text."""
    next_step = "Shorten it, or store it in a file of a channel."
    text(name, "HyperParameterKey", "Give the hyperparameter another name.")
    if name in OURS:
        raise RefusedError("traingrid sets this hyperparameter", OURS[name])
    return text(_not_secret(name, scalar(value)), "HyperParameterValue", next_step)


def variable(name: str, value: object) -> str:
    """Return an environment variable's value as text."""
    text(name, "TrainingEnvironmentKey", "Write letters, digits and underscores.")
    if _RESERVED_VARIABLES.fullmatch(name):
        raise RefusedError("reserved for the platform or the loader", "Remove it, or set it in the image.")
    return text(_not_secret(name, scalar(value)), "TrainingEnvironmentValue", "Shorten it.")


def tag(name: str, value: object) -> str:
    """Return a tag's value as text."""
    text(name, "TagKey", "Write letters, digits, spaces and _.:/=+-@.")
    if name.lower().startswith(("aws:", "traingrid:")):
        raise RefusedError("this prefix is reserved for AWS or traingrid", "Give the tag another name.")
    return text(_not_secret(name, scalar(value)), "TagValue", "Write letters, digits, spaces and _.:/=+-@.")


def _not_secret(name: str, value: str) -> str:
    if is_secret(name, value):
        reason = "looks like a secret, and any user who may describe the training job could read it"
        next_step = "Store it in AWS Secrets Manager and read it in the training code."
        raise RefusedError(reason, next_step, secret=True)
    return value


def _hashable(value: object) -> object:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _retries(value: object) -> int:
    return count(0, most("MaximumRetryAttempts"))(value)


def _share(value: object) -> str:
    if not isinstance(value, str) or len(value) > 64 or not value.isprintable():
        raise RefusedError("not a valid name of a share", "Write one of `shares` in grid.yaml.")
    return value


SETTINGS: dict[str, Callable[[object], Any]] = {
    "input_mode": input_mode,
    "streams": choice("host", "rank"),
    "shuffle_seed": shuffle_seed,
    "instance_count": count(1),
    "volume_gb": count(1),
    "launcher": choice("mpi", "torchrun", "none"),
    "processes_per_host": count(1),
    "mpi_options": lambda value: text(value, "HyperParameterValue", "Write mpirun's options on one line."),
    "spot": flag,
    "max_runtime": duration(MAX_RUNTIME_LIMIT),
    "max_wait": duration(2 * MAX_RUNTIME_LIMIT),
    "keep_alive": duration(MAX_KEEP_ALIVE),
    "entry_point": entry_point,
    "metrics": metrics,
    "priority": count(0, 9999),
    "launch": choice("direct", "queued"),
    "share": _share,
    "retries": _retries,
}
"""The fields that can be checked without the deployment or other fields."""
