"""Algorithm resources: checks lines with `algorithm` against the algorithm's own rules, from DescribeAlgorithm.

Commands check them before an upload. The intake does not: SageMaker checks the same rules when the training job is
created, before any instance starts.
"""

from __future__ import annotations

import logging
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid.algorithms.algorithm import Algorithm, BrokenRule
from traingrid.algorithms.described import described
from traingrid.aws.clients import client
from traingrid.job.job import job_in_region
from traingrid.manifest.checks.algorithms import use_of
from traingrid.manifest.errors import LineError
from traingrid.manifest.line import NO_SUBMISSION, job_of_line
from traingrid.manifest.problem import literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.manifest.line import Line

logger = logging.getLogger(__name__)
_MISSING = ("ValidationException", "ResourceNotFound", "ResourceNotFoundException")


def wrong_resources(lines: Sequence[Line], deployment: Deployment) -> list[LineError]:
    """Return the errors of the lines that name an algorithm resource.

    An algorithm that the caller may not describe is not checked. Each algorithm is described once for each Region.
    """
    describe = cache(partial(_describe, deployment))
    return [error for line in lines if line.settings.algorithm for error in _errors(line, deployment, describe)]


def _errors(
    line: Line, deployment: Deployment, describe: Callable[[str, str], Algorithm | BrokenRule | None]
) -> Iterator[LineError]:
    job = job_of_line(line, 0, deployment, NO_SUBMISSION)
    reported = set[BrokenRule]()
    for region in job.regions:
        rules = describe(region, job_in_region(job, region).algorithm)
        violations = [rules] if isinstance(rules, BrokenRule) else _violations(rules, job_in_region(job, region))
        for violation in violations:
            if violation not in reported:
                reported.add(violation)
                yield _error(line, violation)


def _violations(rules: Algorithm | None, job: Job) -> list[BrokenRule]:
    return rules.violations(use_of(job, job.instance_type)) if rules else []


def _error(line: Line, violation: BrokenRule) -> LineError:
    return LineError(
        line=line.number,
        field=f"{violation.field}.{violation.entry}" if violation.entry else violation.field,
        value=literal(violation.value) if violation.value else "",
        reason=violation.reason,
        next_step=violation.next_step,
    )


def _describe(deployment: Deployment, region: str, algorithm: str) -> Algorithm | BrokenRule | None:
    """Return an algorithm's rules, the reason why it cannot train, or None if the caller may not describe it."""
    sagemaker: Any = client("sagemaker", region, deployment.acting_role_in(region))
    try:
        reply = sagemaker.describe_algorithm(AlgorithmName=algorithm)
    except ClientError as error:
        code = str(error.response["Error"].get("Code", ""))
        message = str(error.response["Error"].get("Message", ""))
        if code not in _MISSING:
            logger.info("%s in %s was not checked: %s", algorithm, region, code)
            return None
        reason = f"SageMaker finds no such algorithm in {region} ({message.rstrip('.')})"
        step = "Create it or subscribe to it in that Region, or correct `algorithms` in grid.yaml."
        return BrokenRule(field="algorithm", value=algorithm, reason=reason, next_step=step)
    if reply["AlgorithmStatus"] != "Completed":
        reason = f"the algorithm in {region} is in status {reply['AlgorithmStatus']}"
        step = "Wait until its status is Completed, or use another algorithm."
        return BrokenRule(field="algorithm", value=algorithm, reason=reason, next_step=step)
    return described(reply)
