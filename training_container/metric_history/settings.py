"""Settings: the variables with which traingrid enables a job's metric history.

traingrid/backends/sagemaker/metric_variables.py writes them.

The regular expressions are JSON, {"name": "regular expression"}, cut into several variables: SageMaker limits the value
of an environment variable to 512 characters (botocore's service model, TrainingEnvironmentValue).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from training_container import outside_json

PREFIX = "TRAINGRID_METRICS_"
_DESTINATION = f"{PREFIX}S3"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The metrics and the destination of a job's history.

    Attributes:
        prefix: The prefix of the parts' keys, with a slash at its end.
        metrics: The regular expression of each metric, by name. The first group is the value.
    """

    bucket: str
    prefix: str
    metrics: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """Return the settings; None if the job has no metric history.

        Raises:
            ValueError: A variable is malformed.
        """
        uri = environment.get(_DESTINATION, "")
        if not uri:
            return None
        scheme, _, place = uri.partition("://")
        bucket, _, prefix = place.partition("/")
        if scheme != "s3" or not bucket or not prefix.endswith("/"):
            raise ValueError(f"{_DESTINATION} is {uri!r}; it must have the form s3://bucket/prefix/")
        return cls(bucket=bucket, prefix=prefix, metrics=_metrics(environment))

    @property
    def uri(self) -> str:
        """The destination, for messages."""
        return f"s3://{self.bucket}/{self.prefix}"


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without these variables, which ranks do not need."""
    return {name: value for name, value in environment.items() if not name.startswith(PREFIX)}


def _metrics(environment: Mapping[str, str]) -> dict[str, str]:
    text, number = "", 0
    while (piece := environment.get(f"{PREFIX}{number}")) is not None:
        text += piece
        number += 1
    try:
        metrics = outside_json.loads(text)
    except ValueError as error:
        raise ValueError(f"{PREFIX}0 and the following variables are not JSON: {error}") from error
    if not isinstance(metrics, dict) or not all(isinstance(regex, str) for regex in metrics.values()):
        raise ValueError(f"{PREFIX}0 and the following variables must contain a regular expression for each metric")
    return metrics
