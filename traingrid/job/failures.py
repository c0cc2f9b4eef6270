"""Failures: one table of failure classes, and pure functions that classify errors and outcomes.

A row specifies if traingrid retries automatically (`retried`), if the retry counts against the line's `retries`
(`counted`), the child's exit code when it gives up, and the message for a person. A rejected CreateTrainingJob request
is retried under the same name, because no training job exists yet. After a training job has ended, a retry is the next
attempt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.aws.error_codes import (
    INVALID_CODES,
    INVALID_CREDENTIAL_CODES,
    PERMISSION_CODES,
    QUOTA_CODE,
    THROTTLED_CODES,
)
from traingrid.job.observed import INTERRUPTED
from traingrid.job.state import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traingrid.job.observed import TrainingJobDescription

# The exit codes of a child.
TRAINED, JOB_FAILED, LINE_IS_WRONG, TRY_AGAIN, STOPPED = 0, 1, 2, 75, 143
CAPACITY_WAIT_EXCEEDED = "CapacityWaitExceeded"
"""The phase of a training job that a backend describes as stopped because it got no capacity in time."""
_DIVERGED = "training diverged"
"""The words of the trainer about numbers that are not finite (training_container/trainer/training_state.py)."""
FOR_GOOD = (JOB_FAILED, LINE_IS_WRONG, STOPPED)
"""The exit codes after which Batch does not retry a child; it retries after all others (stacks/orchestrator.py)."""


@dataclass(frozen=True)
class Failure:
    """One class of failures: a row of the table.

    Attributes:
        name: The name, which the ledger records in `failure`.
        retried: True if traingrid retries automatically.
        counted: True if the retry counts against the line's `retries`.
        exit_code: The child's exit code if it does not retry.
        sentence: The description, as a sentence.
        next_step: The next step for a person, as a sentence; empty if none is needed.
        of_line: True if the line or its program is the cause, so that a retry of the same line fails again.
    """

    name: str
    retried: bool
    counted: bool
    exit_code: int
    sentence: str
    next_step: str
    of_line: bool = False


QUOTA = Failure(
    "quota",
    retried=True,
    counted=False,
    exit_code=TRY_AGAIN,
    sentence="A quota of the account is used up; the job waits until quota is available.",
    next_step="Wait, or request a higher quota in the Service Quotas console of that Region.",
)
THROTTLED = Failure(
    "throttled",
    retried=True,
    counted=False,
    exit_code=TRY_AGAIN,
    sentence="AWS is throttling the requests of this account.",
    next_step="",
)
SERVICE_ERROR = Failure(
    "service_error",
    retried=True,
    counted=False,
    exit_code=TRY_AGAIN,
    sentence="The service did not confirm that it accepted the training job.",
    next_step="",
)
CAPACITY = Failure(
    "capacity",
    retried=True,
    counted=True,
    exit_code=JOB_FAILED,
    sentence="The Region has no capacity for this instance type.",
    next_step="Set higher `retries`, add replicas of the data in other Regions, or choose another instance_type.",
)
SHORTAGE = Failure(
    "shortage",
    retried=True,
    counted=False,  # no training job was requested
    exit_code=JOB_FAILED,
    sentence="Another job found no capacity in the Region for this instance type.",
    next_step="",
)
DEADLINE = Failure(
    "deadline",
    retried=True,
    counted=False,  # it is traingrid's own decision
    exit_code=JOB_FAILED,
    sentence="Spot instances might not end the job by its deadline.",
    next_step="Retry the line (`traingrid retry`), if necessary with a later finish_by.",
)
RETURN_TO_SPOT = Failure(
    "return_to_spot",
    retried=True,
    counted=False,  # as above
    exit_code=JOB_FAILED,
    sentence="Spot instances are cheaper, and there is time for them.",
    next_step="",
)
SPOT_INTERRUPTION = Failure(
    "spot_interruption",
    retried=True,
    counted=True,
    exit_code=JOB_FAILED,
    sentence="AWS interrupted the spot instances, and none became available in time.",
    next_step="Set `checkpoints` and a higher max_wait or `retries`, or train without spot.",
)
LOST_NODE = Failure(
    "lost_node",
    retried=True,
    counted=True,
    exit_code=JOB_FAILED,
    sentence="A node or pod of the cluster was lost: drained, evicted, refused, preempted or deleted.",
    next_step="Set `checkpoints` and a higher `retries`; `kubectl get events` shows why nodes and pods are lost.",
)
NOT_STARTED = Failure(
    "not_started",
    retried=True,
    counted=True,
    exit_code=JOB_FAILED,
    sentence="A pod of the training job did not start in time.",
    next_step="Fix the cause that the reason names, in the line or the cluster; then retry the line: traingrid retry.",
)
INTERNAL_ERROR = Failure(
    "internal_error",
    retried=False,  # SageMaker has retried, as often as the RetryStrategy allows; a pod has retried its transfers
    counted=False,
    exit_code=JOB_FAILED,
    sentence="The service that runs the training had an internal error.",
    next_step="Retry the line: traingrid retry.",
)
ALGORITHM = Failure(
    "algorithm",
    retried=False,
    counted=False,
    exit_code=JOB_FAILED,
    sentence="The training program ended with an error.",
    next_step="Read its log (traingrid logs), fix the program, and submit the line again.",
    of_line=True,
)
COMMAND = Failure(
    "command",
    retried=False,
    counted=False,
    exit_code=JOB_FAILED,
    sentence="The training image does not have a program that the training calls, or cannot execute it.",
    next_step="Find the command in the log (traingrid logs), correct it or add it to the image, and submit the line "
    "again.",
    of_line=True,
)
"""The exit codes 127 and 126 of a shell
(https://pubs.opengroup.org/onlinepubs/9699919799/utilities/V3_chap02.html#tag_18_08_02)."""
IMAGE = Failure(
    "image",
    retried=False,
    counted=False,
    exit_code=LINE_IS_WRONG,
    sentence="The training image cannot be pulled or started.",
    next_step="Push it to the Region's registry, or fix `image` in the manifest or grid.yaml.",
)
DATA = Failure(
    "data",
    retried=False,
    counted=False,
    exit_code=LINE_IS_WRONG,
    sentence="The data cannot be read, or the results cannot be written.",
    next_step="Check that the line's S3 URIs exist in the job's Region, and that volume_gb is large enough.",
)
PERMISSION = Failure(
    "permission",
    retried=False,
    counted=False,
    exit_code=LINE_IS_WRONG,
    sentence="A role lacks a permission that the training needs.",
    next_step="Follow the reason, or deploy the grid again. Other buckets require `data_buckets` in grid.yaml.",
)
PERMISSION_DELAY = Failure(
    "permission_delay",
    retried=True,
    counted=False,
    exit_code=TRY_AGAIN,
    sentence="A role lacks a permission, or IAM has not distributed it yet after a deployment.",
    next_step="",
)
"""The first refusals of a child. IAM distributes a new role or policy within 10 to 30 seconds
(https://github.com/hashicorp/terraform-provider-aws/issues/6566), rarely within a minute
(https://github.com/DataDog/stratus-red-team/pull/358)."""
NETWORK = Failure(
    "network",
    retried=False,
    counted=False,
    exit_code=LINE_IS_WRONG,
    sentence="The subnets of the training do not reach S3, or their VPC lacks a setting.",
    next_step="Give the subnets in grid.yaml a route to S3; traingrid doctor checks the network of training jobs.",
)
MEMORY = Failure(
    "memory",
    retried=False,
    counted=False,
    exit_code=JOB_FAILED,
    sentence="The instance ran out of memory.",
    next_step="Choose an instance_type with more memory, smaller batches, or fewer processes_per_host.",
    of_line=True,
)
COPY = Failure(
    "copy",
    retried=False,
    counted=False,
    exit_code=LINE_IS_WRONG,
    sentence="The data could not be copied into the Region of the job.",
    next_step="Check copy_from and s3_uri of the line, and submit it again or retry it.",
)
STOPPED_BY_USER = Failure(
    "stopped_by_user",
    retried=False,
    counted=False,
    exit_code=STOPPED,
    sentence="The training job was stopped.",
    next_step="",
)
MAX_RUNTIME = Failure(
    "max_runtime",
    retried=False,
    counted=False,
    exit_code=JOB_FAILED,
    sentence="The training took longer than max_runtime, and was stopped.",
    next_step="Set a longer max_runtime, or `checkpoints` from which a retry resumes.",
)
CONFLICT = Failure(
    "conflict",
    retried=False,
    counted=False,
    exit_code=JOB_FAILED,
    sentence="Another training job has this job's name.",
    next_step="Find out who created it; traingrid never uses another name for a job.",
)
OTHER_REQUEST = Failure(
    "other_request",
    retried=False,
    counted=False,
    exit_code=JOB_FAILED,
    sentence="Another training job of this grid, with a different request, has this job's name.",
    next_step="The reconciler stops it within minutes; then retry the line: traingrid retry.",
)
DELETED = Failure(
    "deleted",
    retried=False,
    counted=False,
    exit_code=JOB_FAILED,
    sentence="The training job was deleted before its end was recorded, so its outcome is unknown.",
    next_step="If its results are not below the line's output, retry the line: traingrid retry.",
)
INVALID_REQUEST = Failure(
    "invalid_request",
    retried=False,
    counted=False,
    exit_code=LINE_IS_WRONG,
    sentence="The service rejected the parameters of the training job.",
    next_step="Fix the manifest line or grid.yaml, and submit it again.",
    of_line=True,
)

FAILURES: Mapping[str, Failure] = {
    failure.name: failure
    for failure in (
        *(QUOTA, THROTTLED, SERVICE_ERROR, CAPACITY, SHORTAGE, DEADLINE, RETURN_TO_SPOT, SPOT_INTERRUPTION),
        *(LOST_NODE, NOT_STARTED, INTERNAL_ERROR, ALGORITHM, PERMISSION_DELAY),
        *(
            COMMAND,
            IMAGE,
            DATA,
            PERMISSION,
            NETWORK,
            MEMORY,
            COPY,
            STOPPED_BY_USER,
            MAX_RUNTIME,
            CONFLICT,
            OTHER_REQUEST,
            DELETED,
        ),
        INVALID_REQUEST,
    )
}
TAKEN_NAMES = frozenset({CONFLICT.name, OTHER_REQUEST.name})
"""The failures of a line whose training job name another training job has; that job's outcome is not the line's."""
EARLY_STOPS = frozenset({CAPACITY.name, DEADLINE.name, RETURN_TO_SPOT.name})
"""The failure classes for which a child itself stops a training job that runs or waits, to go on in another attempt."""

# Messages of ValidationException, and of a FailureReason without another prefix, as public records have them
# (tests/unit/job/failure_texts.jsonl, with their sources). The order matters: messages about an image, the network and
# missing data also mention permissions and S3, and those about invalid parameters name them, such as s3OutputPath.
_TEXTS = tuple(
    (failure, re.compile(pattern, re.IGNORECASE))
    for failure, pattern in (
        (INVALID_REQUEST, r"failed to satisfy constraint|invalid characters"),
        (CAPACITY, r"INSUFFICIENT_INSTANCE_CAPACITY"),
        (MEMORY, r"with more memory|out of memory"),
        (IMAGE, r"training image|requested image|algorithm container|repository|\bECR\b"),
        (IMAGE, r"container registry|Cannot\w+Container|manifest unknown"),
        (NETWORK, r"S3 VPC endpoint|Unable to execute request to S3|DHCP options"),
        (DATA, r"No S3 objects found|NoSuchBucket|NoSuchKey|bucket is in this region"),
        (PERMISSION, r"assume (the )?role|AssumeRole|Access ?Denied|not authorized|Forbidden|KMS|not subscribed"),
        (DATA, r"data download|artifact upload|disk space|S3|error when parsing"),
    )
)
_ALGORITHM_TEXTS = (
    (MEMORY, re.compile(r"with more memory|out of memory|OutOfMemory|exit code:? 137\b", re.IGNORECASE)),
    (IMAGE, re.compile(r"Cannot\w+Container", re.IGNORECASE)),
    (COMMAND, re.compile(r"exit code:? 12[67]\b|exit status 12[67]\b", re.IGNORECASE)),
)
"""Texts of an AlgorithmError that have a more precise class. 137 is the exit code of SIGKILL, which SageMaker itself
sends only to training jobs that it stops; the kernel sends it when the memory is used up."""
_NAMES = re.compile(r"s3://\S+|arn:\S+", re.IGNORECASE)
"""Names of buckets, keys and roles, which can contain any word."""
_NOT_OFFERED = "not available in this region"
"""SageMaker refuses an instance type that a Region does not have with the code of an exceeded quota
(https://github.com/aws/amazon-sagemaker-examples/issues/1001). Waiting does not help."""


def failure_of_refusal(code: str, message: str = "") -> Failure:
    """Return the failure class of a rejected CreateTrainingJob request.

    Args:
        code: The error's code; empty if the service did not answer.
    """
    if code == QUOTA_CODE:
        return INVALID_REQUEST if _NOT_OFFERED in message else QUOTA
    if code in THROTTLED_CODES:
        return THROTTLED
    if code in PERMISSION_CODES | INVALID_CREDENTIAL_CODES:
        return PERMISSION
    if code in INVALID_CODES:
        return _failure_by_text(message)
    return SERVICE_ERROR  # InternalFailure, ServiceUnavailable, ResourceInUse by a job not visible yet, or no reply


def failure_of_end(training_job: TrainingJobDescription, stopped_for: str = "") -> Failure | None:
    """Return the failure class of an ended training job, or None if it completed or has not ended.

    Args:
        stopped_for: The name of the failure class for which traingrid has stopped it (`JobItem.stopped_for`).

    SecondaryStatus contains the reason of a Stopped job, and FailureReason that of a Failed job
    (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html).
    """
    if training_job.failure in FAILURES:
        return FAILURES[training_job.failure]
    if training_job.state == JobState.STOPPED:
        by_phase = {"MaxRuntimeExceeded": MAX_RUNTIME, "MaxWaitTimeExceeded": SPOT_INTERRUPTION}
        by_phase |= {INTERRUPTED: SPOT_INTERRUPTION, CAPACITY_WAIT_EXCEEDED: CAPACITY}
        return by_phase.get(training_job.phase) or FAILURES.get(stopped_for, STOPPED_BY_USER)
    if training_job.state != JobState.FAILED:
        return None
    prefix = training_job.reason.partition(":")[0]
    if prefix == "AlgorithmError":
        return failure_of_program(training_job.reason)
    # "CapacityError: Unable to provision requested ML compute capacity." (rse-grand-challenge #2631)
    by_prefix = {"CapacityError": CAPACITY, "InternalServerError": INTERNAL_ERROR}
    if "InsufficientCapacity" in prefix:
        return CAPACITY
    return by_prefix.get(prefix) or _failure_by_text(training_job.reason)


def failure_of_program(text: str) -> Failure:
    """Return the failure class of a training program that ended with an error and this text."""
    return next((failure for failure, pattern in _ALGORITHM_TEXTS if pattern.search(text)), ALGORITHM)


def may_try_again(failure: Failure, earlier: Sequence[str], retries: int, candidates: int) -> bool:
    """Return True if another attempt follows a training job that failed this way.

    Every candidate (`traingrid.job.candidates`) may be tried once. Beyond that, the line's `retries` limit the counted
    failures.

    Args:
        failure: The failure class of the training job.
        earlier: The names of the failures of the earlier attempts, without those before a user's retry.
    """
    if not failure.retried:
        return False
    counted_retries = sum(map(_is_counted, earlier))
    return not failure.counted or counted_retries < max(retries, candidates - 1)


def _is_counted(name: str) -> bool:
    failure = FAILURES.get(name)
    return failure is None or failure.counted


def _failure_by_text(text: str) -> Failure:
    text = _NAMES.sub(lambda name: name[0][:3], text)
    return next((failure for failure, pattern in _TEXTS if pattern.search(text)), INVALID_REQUEST)


def is_divergence(reason: str) -> bool:
    """Return True if the reason of a failed job is that the image's trainer found numbers that are not finite."""
    return _DIVERGED in reason
