"""Metric variables: the environment variables that make the grid's training image write its metric history to S3.

training_container/metric_history/settings.py reads them.
"""

import json
from collections.abc import Mapping

from traingrid import names
from traingrid.job.job import Job

PREFIX = "TRAINGRID_METRICS_"
"""The prefix of the variables: one with the destination, and numbered ones with the regular expressions."""
MAX_VARIABLES = 100
"""The maximum number of variables: TrainingEnvironmentMap in botocore's service model of SageMaker."""
MAX_CHARACTERS = 512
"""The maximum length of a variable: TrainingEnvironmentValue in the same model."""


def with_metric_variables(environment: Mapping[str, str], job: Job, name: str) -> dict[str, str]:
    """Return an environment with the variables of a job's metric history.

    The regular expressions are cut into pieces. A job without metric history gets none, and neither does one whose
    variables would exceed SageMaker's limits: its metrics are read from the log.
    """
    if not (job.metric_history and job.metrics):
        return dict(environment)
    text = json.dumps(job.metrics, separators=(",", ":"))
    pieces = [text[start : start + MAX_CHARACTERS] for start in range(0, len(text), MAX_CHARACTERS)]
    metric_variables = {f"{PREFIX}S3": names.metric_parts(job.output, name)}
    metric_variables |= {f"{PREFIX}{number}": piece for number, piece in enumerate(pieces)}
    variables = {**environment, **metric_variables}
    fits = len(variables) <= MAX_VARIABLES and len(metric_variables[f"{PREFIX}S3"]) <= MAX_CHARACTERS
    return variables if fits else dict(environment)
