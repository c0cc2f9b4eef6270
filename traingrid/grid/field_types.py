"""Field types: validated types that grid.yaml and manifests share, such as Regions, durations and channel names."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, StringConstraints, ValidationInfo
from pydantic_core import PydanticCustomError

MAX_KEEP_ALIVE = 3600
"""Seconds: https://docs.aws.amazon.com/sagemaker/latest/dg/train-warm-pools.html (Considerations)."""
MAX_RUNTIME_LIMIT = 28 * 24 * 3600
"""Maximum runtime of a training job in seconds: 28 days (StoppingCondition in the SageMaker API reference)."""

_OTHER_PARTITIONS = ("cn-", "us-gov-", "us-iso", "eu-isoe-", "eusc-")
"""Prefixes of Regions in other partitions, whose ARNs do not begin with "arn:aws:"
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html; botocore's partitions.json)."""

_DURATION = re.compile(r"(\d{1,9})\s*([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def broken_rule(rule: str, at: str = "", *, example: bool = False) -> PydanticCustomError:
    """Return the validation error of a value that violates a rule.

    Args:
        rule: The rule, as a sentence without its period.
        at: The name of a field within the value being validated, if the error concerns that field.
        example: Let the error end with an example of the field; for a rule that does not name the fix itself.
    """
    return PydanticCustomError("broken_rule", "{rule}", {"rule": rule, "at": at, "example": example})


def parse_duration(text: object) -> int:
    """Return the seconds of a duration such as "90m", "24h" or "2d" (units s, m, h, d).

    Raises:
        ValueError: The text is not a duration. A number without a unit is rejected as ambiguous.
    """
    match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError("a duration is a whole number and a unit: s, m, h or d")
    return int(match[1]) * _SECONDS[match[2]]


def _duration(text: object) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise broken_rule(str(error), example=True) from error


def _known_region(region: str, info: ValidationInfo) -> str:
    """Reject a Region that is not in the validation context's `regions`, if the context has them."""
    regions: tuple[str, ...] | None = (info.context or {}).get("regions")
    if regions is not None and region.startswith(_OTHER_PARTITIONS):
        raise broken_rule("the Region is in another AWS partition, which a grid cannot use; choose another Region")
    if regions is not None and region not in regions:
        raise PydanticCustomError("unknown_region", "no Region with this name offers SageMaker", {"choices": regions})
    return region


def _hyperparameter(value: object) -> object:
    """Convert a scalar to the text that SageMaker passes to the training: `true`, not `True`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _one_line(text: str) -> str:
    """Reject text with line breaks, because SageMaker's pattern for hyperparameters, ".*", does not match them."""
    if text.splitlines() not in ([], [text]):
        raise broken_rule("a hyperparameter must be a single line; in YAML write >- instead of > or |")
    return text


RegionName = Annotated[
    str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-\d+$", strict=True), AfterValidator(_known_region)
]
AccountId = Annotated[str, StringConstraints(pattern=r"^[0-9]{12}$", strict=True)]
BucketName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", strict=True)]
Text = Annotated[str, StringConstraints(min_length=1, strict=True)]
# Limits of names and values: the shapes HyperParameterKey, HyperParameterValue, MetricName, ChannelName and
# TrainingInstanceType of botocore's SageMaker service model; image tags and repositories: its ECR service model.
HyperparameterKey = Annotated[
    str, StringConstraints(min_length=1, max_length=256, strict=True), AfterValidator(_one_line)
]
HyperparameterValue = Annotated[
    str,
    StringConstraints(max_length=2500, strict=True),
    BeforeValidator(_hyperparameter),
    AfterValidator(_one_line),
]
MetricName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_./-]{0,254}$", strict=True)]
ChannelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$", strict=True)]
InstanceType = Annotated[str, StringConstraints(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9-]+$", strict=True)]
ImageTag = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$", strict=True)]
# An ECR registry (https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html), or a part of it.
ImageRegistry = Annotated[
    str,
    StringConstraints(
        pattern=r"^[0-9]{12}\.dkr\.ecr\.(\{region\}|[a-z0-9-]+)\.amazonaws\.com(\.cn)?(/[a-z0-9]+([._/-][a-z0-9]+)*)?$",
        strict=True,
    ),
]
# The shape ArnOrName of SageMaker's service model.
AlgorithmName = Annotated[
    str,
    StringConstraints(
        pattern=r"^(arn:aws[a-z-]*:sagemaker:(\{region\}|[a-z0-9-]+):[0-9]{12}:algorithm/)?[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$",
        strict=True,
    ),
]
# The shape TrainingPlanName of SageMaker's service model.
TrainingPlanName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,63}$", strict=True)]
# EC2's ids have eight hexadecimal digits or, since 2018, seventeen
# (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html).
SubnetId = Annotated[str, StringConstraints(pattern=r"^subnet-([0-9a-f]{8}|[0-9a-f]{17})$", strict=True)]
SecurityGroupId = Annotated[str, StringConstraints(pattern=r"^sg-([0-9a-f]{8}|[0-9a-f]{17})$", strict=True)]
Repository = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*$", strict=True)]
Count = Annotated[int, Field(ge=1, strict=True)]
Duration = Annotated[
    int, BeforeValidator(_duration), Field(ge=1), PlainSerializer(lambda seconds: f"{seconds}s", return_type=str)
]
"""An integer number of seconds in Python; a duration such as "24h" in files."""
