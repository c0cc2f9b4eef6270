"""Field readers: functions that validate the value of one field of a line, and return it as a job has it.

A reader that also gets the allow-lists and the line's Region depends on the deployment.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, get_args

from traingrid.grid.residency import GEOGRAPHIES, unknown_areas
from traingrid.job.backend_traits import BackendName
from traingrid.job.initial_model import InitialModel
from traingrid.manifest.limits import choices, most
from traingrid.manifest.problem import RefusedError, literal
from traingrid.manifest.values import choice, count, flag, text, words

if TYPE_CHECKING:
    from traingrid.manifest.allowed import Rules

MAX_NAME_CHARACTERS = 128
MAX_STEPS = 1000
"""The maximum number of profiled steps: a profiler keeps all events in memory until the last step."""
_ENTRY_POINT = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]*\.(py|sh)")
_LOCAL_QUEUE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_STEPS = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)
_PROFILE = 'Write {"steps": "100-110"}, or a column profile.steps in CSV.'


def name(value: object) -> str:
    """Return a job's display name."""
    next_step = "Write a shorter name of printable characters."
    if not isinstance(value, str):
        raise RefusedError("must be text", next_step)
    if len(value) > MAX_NAME_CHARACTERS:
        raise RefusedError(f"must have at most {MAX_NAME_CHARACTERS} characters; got {len(value)}", next_step)
    if not value.isprintable():
        raise RefusedError("must not contain control characters", next_step)
    return value


def attribute_names(value: object) -> tuple[str, ...]:
    """Return the names of attributes of an augmented manifest, in the order in which they are streamed."""
    next_step = 'Write a list, for example ["source-ref", "label"].'
    longest = most("AttributeNames")
    if not isinstance(value, list | tuple) or not value:
        raise RefusedError("attributes must be a list of names", next_step)
    if len(value) > longest:
        raise RefusedError(f"SageMaker allows at most {longest} attributes", next_step)
    return tuple(text(attribute, "AttributeName", next_step) for attribute in value)


def input_mode(value: object) -> str:
    """Return SageMaker's training input mode."""
    return choice(*choices("TrainingInputMode"))(value)


def shuffle_seed(value: object) -> int:
    """Return a seed of SageMaker's ShuffleConfig, a 64-bit number."""
    return count(0, 2**63 - 1)(value)


def entry_point(value: object) -> str:
    """Return the path of a program inside `source`."""
    next_step = "Write the path of a .py or .sh file inside the archive, for example train.py."
    if not isinstance(value, str) or not _ENTRY_POINT.fullmatch(value):
        raise RefusedError("must be the path of a program inside the archive", next_step)
    return text(value, "HyperParameterValue", next_step)


def source(uri: object, rules: Rules, region: str) -> str:
    """Return the URI of a program's archive in the line's Region."""
    next_step = "Write s3://bucket/…/sourcedir.tar.gz; only `traingrid submit` packs and uploads a local folder."
    parsed = str(rules.data(uri, region, next_step))
    if not parsed.endswith(".tar.gz"):
        raise RefusedError("must be a .tar.gz archive", next_step)
    return text(parsed, "HyperParameterValue", next_step)


def image(value: object, rules: Rules, region: str) -> Any:
    """Return an image as the line names it: a replica resolves it in its own Region."""
    rules.image(value, region)
    return value


def algorithm(value: object, rules: Rules, region: str) -> Any:
    """Return an algorithm resource as the line names it: a replica resolves it in its own Region."""
    rules.algorithm(value, region)
    return value


def instance_types(value: object, rules: Rules, _: str) -> tuple[str, ...]:
    """Return a list of instance types."""
    return tuple(rules.instance_type(name) for name in words(value, "Write a list of instance types."))


def checkpoints(value: object, rules: Rules, region: str) -> bool | str:
    """Return whether checkpoints are kept, or the key of their folder in the output bucket of the Region."""
    is_uri = isinstance(value, str) and "://" in value
    return rules.output(value, region) if is_uri else flag(value)


def mpi_options(value: object) -> str:
    """Return mpirun's options."""
    return text(value, "HyperParameterValue", "Write mpirun's options on one line.")


def retries(value: object) -> int:
    """Return SageMaker's maximum number of retry attempts."""
    return count(0, most("MaximumRetryAttempts"))(value)


def share(value: object) -> str:
    """Return the name of a share."""
    if not isinstance(value, str) or len(value) > 64 or not value.isprintable():
        raise RefusedError("not a valid name of a share", "Write one of `shares` in grid.yaml.")
    return value


def backends(value: object) -> tuple[BackendName, ...]:
    """Return the backends of a line, in order of preference."""
    next_step = "Write sagemaker or eks, or both in order of preference: [eks, sagemaker], or in CSV eks sagemaker."
    entries = words(value, next_step)
    names = get_args(BackendName)
    if unknown := [word for word in entries if word not in names]:
        raise RefusedError(f"{unknown[0][:40]!r} is not a backend", next_step)
    return tuple(backend for word in entries for backend in names if backend == word)


def local_queue(value: object) -> str:
    """Return the name of a LocalQueue of Kueue, a DNS label."""
    if not isinstance(value, str) or not _LOCAL_QUEUE.fullmatch(value):
        reason = "must have at most 63 lower-case letters, digits and hyphens, and no hyphen at its start or end"
        raise RefusedError(reason, "Write the name of a LocalQueue in the cluster's namespace, such as gpus.")
    return value


def residency(value: object) -> tuple[str, ...]:
    """Return the geographies and Regions in which data may be."""
    next_step = f"Write geographies ({', '.join(GEOGRAPHIES)}) or Regions, such as [eu] or [eu-west-1, eu-central-1]."
    areas = words(value, next_step)
    if unknown := unknown_areas(areas):
        raise RefusedError(f"{unknown[0][:40]!r} is neither a geography nor a Region", next_step)
    return tuple(areas)


def initial_model(value: object) -> InitialModel:
    """Return the model that the field `init_from` names."""
    next_step = "Write for example 0123abcd/0; `traingrid status` lists submissions, and `describe` their jobs."
    if not isinstance(value, str):
        raise RefusedError("must be text", next_step)
    try:
        return InitialModel.parse(value)
    except ValueError as error:
        raise RefusedError(str(error), next_step) from None


def profile(value: object) -> str:
    """Return the steps of the field `profile`, as the text FIRST-LAST."""
    if not isinstance(value, dict):
        raise RefusedError("must be an object with the key steps", _PROFILE)
    if unknown := [key for key in value if key != "steps"]:
        raise RefusedError(f"unknown key {literal(unknown[0])}; the only key is steps", _PROFILE)
    return steps(value.get("steps"))


def steps(value: object) -> str:
    """Return a range of steps; the first step of a training has number 1."""
    match = _STEPS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise RefusedError("steps must be two step numbers, FIRST-LAST", _PROFILE)
    first, last = int(match[1]), int(match[2])
    if first < 1:
        raise RefusedError("the first step of a training has number 1", _PROFILE)
    if last < first:
        raise RefusedError(f"the last step, {last}, is before the first one, {first}", _PROFILE)
    if last - first >= MAX_STEPS:
        reason = f"the profile of {last - first + 1:,} steps would be too large; at most {MAX_STEPS:,} are allowed"
        raise RefusedError(reason, "Profile fewer steps.")
    return f"{first}-{last}"
