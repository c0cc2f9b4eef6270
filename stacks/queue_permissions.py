"""Permissions for service queues: a child submits and follows its job, other parts list and terminate jobs."""

from collections.abc import Iterable

from aws_cdk import Aws
from aws_cdk import aws_iam as iam

from stacks.grants import grant
from stacks.training_job_permissions import TAGS_OF_A_LINE
from traingrid import names
from traingrid.grid.model import GridSettings

_IDS = "AWS Batch chooses the ids of service jobs"
_NO_RESOURCE = "The actions do not support resources"
_MADE_BY_BATCH = "AWS Batch names the training jobs of our service jobs; only the beginning of the names is known"


def regions_with_queues(grid: GridSettings) -> list[str]:
    """Return the Regions with a service queue."""
    return [region for region in grid.regions if grid.service_queue(region)]


def let_queue(role: iam.Role, grid: GridSettings) -> None:
    """Allow a role to submit training jobs to this grid's service queues, and to read their outcome and logs.

    AWS Batch does not interpret the CreateTrainingJob request in a service job, and sends it with its own role. So none
    of the conditions on CreateTrainingJob apply to it (docs/security.md). As for CreateTrainingJob, the sender needs
    iam:PassRole for the execution role
    (https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsbatch.html).
    """
    regions = regions_with_queues(grid)
    if not regions:
        return
    conditions = {
        "StringEquals": {f"aws:RequestTag/{names.TAG_GRID}": grid.name},
        "Null": {f"aws:RequestTag/{tag}": "false" for tag in TAGS_OF_A_LINE},
    }
    queues = [_queue(grid, region) for region in regions]
    for region in regions:
        queue = grid.regions[region].service_queue
        if queue and queue.quota_shares:
            queues += [f"{_queue(grid, region)}/quota-share/{share}" for share in grid.shares]
    # No refusal of SubmitServiceJob is publicly documented. SubmitJob with tags is authorized as batch:TagResource on
    # the queue, too (stacks/intake_permissions.py), so both actions get the same resources.
    submitting = ["batch:SubmitServiceJob", "batch:TagResource"]
    grant(role, submitting, [*queues, *_service_jobs(regions)], conditions=conditions, because=_IDS)
    let_see_queued(role, grid)
    let_end_queued(role, grid)
    begins = names.queued_training_job_prefixes(grid.name)
    streams = [f"{_logs(region)}:log-stream:{begin}*" for region in regions for begin in begins]
    grant(role, ["logs:GetLogEvents"], streams, because=_MADE_BY_BATCH)


def let_list_queued(role: iam.Role, grid: GridSettings) -> None:
    """Allow a role to list service jobs. The action cannot be limited; jobs of other owners are ignored."""
    if regions_with_queues(grid):
        grant(role, ["batch:ListServiceJobs"], ["*"], because=_NO_RESOURCE)


def let_see_queued(role: iam.Role, grid: GridSettings) -> None:
    """Allow a role to read the state of this grid's service jobs, and of the training jobs that Batch created."""
    regions = regions_with_queues(grid)
    if not regions:
        return
    grant(role, ["batch:DescribeServiceJob", "batch:ListServiceJobs"], ["*"], because=_NO_RESOURCE)
    jobs = [f"arn:aws:sagemaker:{region}:{Aws.ACCOUNT_ID}:training-job" for region in regions]
    training_jobs = [f"{job}/{prefix}*" for job in jobs for prefix in names.queued_training_job_prefixes(grid.name)]
    grant(role, ["sagemaker:DescribeTrainingJob"], training_jobs, because=_MADE_BY_BATCH)


def let_end_queued(role: iam.Role, grid: GridSettings) -> None:
    """Allow a role to terminate service jobs with this grid's tag, waiting or training."""
    regions = regions_with_queues(grid)
    if not regions:
        return
    has_tag_of_grid = {"StringEquals": {f"aws:ResourceTag/{names.TAG_GRID}": grid.name}}
    grant(role, ["batch:TerminateServiceJob"], _service_jobs(regions), conditions=has_tag_of_grid, because=_IDS)


def _queue(grid: GridSettings, region: str) -> str:
    return f"arn:aws:batch:{region}:{Aws.ACCOUNT_ID}:job-queue/{grid.service_queue(region)}"


def _service_jobs(regions: Iterable[str]) -> list[str]:
    return [f"arn:aws:batch:{region}:{Aws.ACCOUNT_ID}:service-job/*" for region in regions]


def _logs(region: str) -> str:
    return f"arn:aws:logs:{region}:{Aws.ACCOUNT_ID}:log-group:/aws/sagemaker/TrainingJobs"
