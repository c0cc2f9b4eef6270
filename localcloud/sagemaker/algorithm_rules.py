"""Algorithm rules: a CreateTrainingJob request against the TrainingSpecification of an algorithm resource.

Sources, in https://docs.aws.amazon.com/sagemaker/latest/APIReference/: API_TrainingSpecification.html ("If set to
false, buyers can't request more than one instance during training"), API_HyperParameterSpecification.html and
API_ChannelSpecification.html. The messages are ours: no public record of AWS's texts was found.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from localcloud.sagemaker.algorithms.published_rules import contains

_RANGES = {
    "Integer": ("IntegerParameterRangeSpecification", int),
    "Continuous": ("ContinuousParameterRangeSpecification", float),
}


def problem(algorithm: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    """Return the first problem of a request; empty if the algorithm supports it."""
    return next(_problems(str(algorithm["AlgorithmName"]), algorithm["TrainingSpecification"], request), "")


def _problems(name: str, training: Mapping[str, Any], request: Mapping[str, Any]) -> Iterator[str]:
    yield from _hyperparameter_problems(name, training, request.get("HyperParameters") or {})
    yield from _channel_problems(name, training, request)
    resources = request.get("ResourceConfig") or {}
    if resources.get("InstanceType") not in training["SupportedTrainingInstanceTypes"]:
        yield f"{name} does not train on this instance type: {resources.get('InstanceType')}"
    if resources.get("InstanceCount", 1) > 1 and not training.get("SupportsDistributedTraining"):
        yield f"{name} trains on one instance only"


def _hyperparameter_problems(name: str, training: Mapping[str, Any], values: Mapping[str, str]) -> Iterator[str]:
    """Yield problems of hyperparameters; a required one has no default value, so each job must set it."""
    specifications = {entry["Name"]: entry for entry in training.get("SupportedHyperParameters") or ()}
    for key, value in values.items():
        if key not in specifications:
            yield f"hyperparameters {key}: {name} has no hyperparameter of this name"
        elif not _accepts(specifications[key], value):
            yield f"hyperparameters {key} {value}: out of range"
    for key, specification in specifications.items():
        if specification.get("IsRequired") and key not in values:
            yield f"hyperparameters {key}: {name} requires it"


def _accepts(specification: Mapping[str, Any], value: str) -> bool:
    limits: Mapping[str, Any] = specification.get("Range") or {}
    if specification["Type"] not in _RANGES:
        choices: list[str] = limits.get("CategoricalParameterRangeSpecification", {}).get("Values", [])
        return not choices or value in choices
    table, parse = _RANGES[specification["Type"]]
    interval = limits.get(table) or {}
    return contains(f"[{interval.get('MinValue', '-inf')}, {interval.get('MaxValue', 'inf')}]", value, parse)


def _channel_problems(name: str, training: Mapping[str, Any], request: Mapping[str, Any]) -> Iterator[str]:
    """Yield problems of channels; a channel without a content type has the first one that is supported."""
    default_mode = request["AlgorithmSpecification"].get("TrainingInputMode")
    entries = {entry["ChannelName"]: entry for entry in request.get("InputDataConfig") or ()}
    specifications = {entry["Name"]: entry for entry in training["TrainingChannels"]}
    for key, specification in specifications.items():
        if specification.get("IsRequired") and key not in entries:
            yield f"inputs: {name} requires the channel {key}"
    for key, entry in entries.items():
        if key not in specifications:
            yield f"inputs {key}: {name} has no channel of this name"
            continue
        mode = entry.get("InputMode", default_mode)
        types = specifications[key].get("SupportedContentTypes") or ()
        if mode not in specifications[key]["SupportedInputModes"]:
            yield f"inputs {key}: {name} does not support the input mode {mode}"
        if types and entry.get("ContentType", types[0]) not in types:
            yield f"inputs {key}: {name} does not support the content type {entry['ContentType']}"
