"""What a grid with service queues may do in them: a child queues and follows its job, others look and end."""

from collections.abc import Iterable

from aws_cdk import Aws
from aws_cdk import aws_iam as iam

from stacks.grants import grant
from stacks.training_jobs import TAGS_OF_A_LINE
from traingrid import names
from traingrid.grid import Grid

_IDS = "AWS Batch chooses the ids of service jobs"
_NO_RESOURCE = "The actions know no resource"
_MADE_BY_BATCH = "AWS Batch names what it makes of our service jobs; only the beginning is known"


def regions_with_queues(grid: Grid) -> list[str]:
    """Return the Regions that have a service queue."""
    return [region for region in grid.regions if grid.service_queue(region)]


def let_queue(role: iam.Role, grid: Grid) -> None:
    """Allow a role to queue training jobs of this grid, and to read what comes of them and their logs.

    What is queued is a request that AWS Batch passes on unread and sends with a role of its own, so none of the
    conditions on CreateTrainingJob reach it (docs/security.md). Passing the execution role is asked of the sender, as
    for CreateTrainingJob (https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsbatch.html).
    """
    regions = regions_with_queues(grid)
    if not regions:
        return
    conditions = {
        "StringEquals": {f"aws:RequestTag/{names.TAG_GRID}": grid.name},
        "Null": {f"aws:RequestTag/{tag}": "false" for tag in TAGS_OF_A_LINE},
    }
    where = [_queue(grid, region) for region in regions]
    if quota := [region for region in regions if (queue := grid.regions[region].service_queue) and queue.quota_shares]:
        where += [f"{_queue(grid, region)}/quota-share/{share}" for region in quota for share in grid.shares]
    # No refusal of SubmitServiceJob is on public record. SubmitJob with tags is authorized as batch:TagResource on the
    # queue, too (stacks/intake_permissions.py), so both actions have the same resources.
    submitting = ["batch:SubmitServiceJob", "batch:TagResource"]
    grant(role, submitting, [*where, *_service_jobs(regions)], conditions=conditions, because=_IDS)
    let_see_queued(role, grid)
    let_end_queued(role, grid)
    begins = names.queued_training_jobs(grid.name)
    streams = [f"{_logs(region)}:log-stream:{begin}*" for region in regions for begin in begins]
    grant(role, ["logs:GetLogEvents"], streams, because=_MADE_BY_BATCH)


def let_list_queued(role: iam.Role, grid: Grid) -> None:
    """Allow a role to see which service jobs there are; what is not of this grid is not looked at."""
    if regions_with_queues(grid):
        grant(role, ["batch:ListServiceJobs"], ["*"], because=_NO_RESOURCE)


def let_see_queued(role: iam.Role, grid: Grid) -> None:
    """Allow a role to see what became of the service jobs of this grid, and of what Batch has made of them."""
    regions = regions_with_queues(grid)
    if not regions:
        return
    grant(role, ["batch:DescribeServiceJob", "batch:ListServiceJobs"], ["*"], because=_NO_RESOURCE)
    jobs = [f"arn:aws:sagemaker:{region}:{Aws.ACCOUNT_ID}:training-job" for region in regions]
    made = [f"{job}/{begin}*" for job in jobs for begin in names.queued_training_jobs(grid.name)]
    grant(role, ["sagemaker:DescribeTrainingJob"], made, because=_MADE_BY_BATCH)


def let_end_queued(role: iam.Role, grid: Grid) -> None:
    """Allow a role to end service jobs of this grid, whether they wait or train: those that bear its tag."""
    regions = regions_with_queues(grid)
    if not regions:
        return
    ours = {"StringEquals": {f"aws:ResourceTag/{names.TAG_GRID}": grid.name}}
    grant(role, ["batch:TerminateServiceJob"], _service_jobs(regions), conditions=ours, because=_IDS)


def _queue(grid: Grid, region: str) -> str:
    return f"arn:aws:batch:{region}:{Aws.ACCOUNT_ID}:job-queue/{grid.service_queue(region)}"


def _service_jobs(regions: Iterable[str]) -> list[str]:
    return [f"arn:aws:batch:{region}:{Aws.ACCOUNT_ID}:service-job/*" for region in regions]


def _logs(region: str) -> str:
    return f"arn:aws:logs:{region}:{Aws.ACCOUNT_ID}:log-group:/aws/sagemaker/TrainingJobs"
