"""Described algorithms: the rules of an algorithm resource, from the reply of DescribeAlgorithm.

An algorithm resource is one that the account created, or a subscription to one of AWS Marketplace. Its
TrainingSpecification lists hyperparameters, channels and instance types; SageMaker rejects a training job that does not
match it (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TrainingSpecification.html).
"""

from collections.abc import Mapping
from typing import Any

from traingrid.algorithms.algorithm import Algorithm, ChannelRule
from traingrid.algorithms.hyperparameter import Hyperparameter, Kind

_KINDS: dict[str, Kind] = {"Integer": "integer", "Continuous": "number", "Categorical": "choice"}
_RANGES = {"Integer": "IntegerParameterRangeSpecification", "Continuous": "ContinuousParameterRangeSpecification"}


def described(reply: Mapping[str, Any]) -> Algorithm:
    """Return the rules of an algorithm resource."""
    training = reply["TrainingSpecification"]
    return Algorithm(
        name=str(reply["AlgorithmName"]),
        hyperparameters=tuple(_hyperparameter(entry) for entry in training.get("SupportedHyperParameters") or ()),
        channels={entry["Name"]: _channel(entry) for entry in training["TrainingChannels"]},
        instance_types=tuple(training["SupportedTrainingInstanceTypes"]),
        distributed=bool(training.get("SupportsDistributedTraining")),
    )


def _hyperparameter(specification: Mapping[str, Any]) -> Hyperparameter:
    """Return a hyperparameter.

    A required one must be set even if it has a default value: the SageMaker Python SDK sends such a default itself
    (`AlgorithmEstimator`), and the service's page does not state that it fills it in.
    """
    kind, ranges = specification["Type"], specification.get("Range") or {}
    limits = ranges.get(_RANGES.get(kind, ""), {})
    choices = tuple(ranges.get("CategoricalParameterRangeSpecification", {}).get("Values", ()))
    return Hyperparameter(
        name=specification["Name"],
        kind="text" if kind == "Categorical" and not choices else _KINDS.get(kind, "text"),
        required=bool(specification.get("IsRequired")),
        least=float(limits["MinValue"]) if limits else None,
        greatest=float(limits["MaxValue"]) if limits else None,
        choices=choices,
    )


def _channel(specification: Mapping[str, Any]) -> ChannelRule:
    """Return a channel; a job without a content type is accepted, because the service model requires none."""
    types = tuple(specification.get("SupportedContentTypes") or ())
    modes = specification["SupportedInputModes"]
    return ChannelRule(
        required=bool(specification.get("IsRequired")),
        content_types=dict.fromkeys(modes, types),
        default=types[0] if types else "",
    )
