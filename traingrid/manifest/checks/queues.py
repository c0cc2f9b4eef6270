"""Queue check: a line's share, and its job against the service queues of its Regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid import names
from traingrid.backends.queued.request import MAX_PAYLOAD_BYTES, payload
from traingrid.backends.sagemaker.request import confined, training_job_request
from traingrid.job.job import job_in_region
from traingrid.manifest.errors import file_error
from traingrid.manifest.line import job_of_line
from traingrid.manifest.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traingrid.grid.deployment import Deployment
    from traingrid.grid.model import GridSettings
    from traingrid.job.job import Job
    from traingrid.manifest.allowed import Rules
    from traingrid.manifest.errors import LineError
    from traingrid.manifest.line import Line

# The longest possible name: an index of five digits, because a submission has at most 50,000 jobs, and a high attempt.
_LATEST = names.TrainingJobName(submission="0" * 8, index=49_999, attempt=999)


def check(line: Line, rules: Rules) -> Iterator[Problem]:
    """Yield the errors of a line's share and launch; its other fields are valid."""
    grid = rules.grid
    defaults = line.settings.applied_to(grid.job)
    share, launch = defaults.share, defaults.launch
    if share is None and grid.shares:
        next_step = f"Write {', '.join(grid.shares)}, or set `share` in grid.yaml."
        yield Problem("share", "", "a value is required", next_step)
    elif share is not None and share not in grid.shares:
        shares = ", ".join(grid.shares) or "defined by `shares` in grid.yaml, which has none"
        yield Problem("share", share, "not a share of this grid", f"The shares are {shares}.")
    elif launch == "queued":
        for region in line.places:
            yield from _wrong_in(region, line, share or "", rules.deployment)


def different_shares(lines: Sequence[Line], grid: GridSettings) -> list[LineError]:
    """Return an error if the lines have more than one share, because a submission is queued as one array job."""
    shares = dict.fromkeys(line.settings.applied_to(grid.job).share for line in lines) if grid.shares else {}
    if len(shares) < 2:
        return []
    reason = f"its lines have the shares {', '.join(map(str, shares))}, and a submission may have only one share"
    return file_error(reason, "Write one file for each share.").errors


def _wrong_in(region: str, line: Line, share: str, deployment: Deployment) -> Iterator[Problem]:
    grid = deployment.grid
    queue = grid.regions[region].service_queue
    if queue is None:
        next_step = f"Write direct, or give {region} a service_queue in grid.yaml and deploy."
        yield Problem("launch", "queued", f"{region} has no service queue", next_step)
        return
    defaults = line.settings.applied_to(grid.job)
    limit = queue.most(share, defaults.instance_type)
    if defaults.instance_count > limit:
        reason = f"the service queue of {region} runs at most {limit} of {defaults.instance_type} at once for this job"
        next_step = "Reduce it, or write launch direct; service_queue in grid.yaml sets the limit."
        yield Problem("instance_count", str(defaults.instance_count), reason, next_step)
    yield from _too_large(region, line, deployment)


def too_large_with_model(line: Line, deployment: Deployment) -> Iterator[Problem]:
    """Yield an error for each Region of a line whose queued request is too large with the line's initial model.

    `check` checks a line before the ledger is read. The request then lacks the channel of the model.

    Args:
        line: The line, with the Region and the URI of its model.
    """
    if line.settings.applied_to(deployment.grid.job).launch == "queued":
        for region in line.places:
            yield from _too_large(region, line, deployment)


def _too_large(region: str, line: Line, deployment: Deployment) -> Iterator[Problem]:
    job = job_in_region(job_of_line(line, _LATEST.index, deployment, _LATEST.submission), region)
    size = _payload_bytes(job, deployment)
    if size > MAX_PAYLOAD_BYTES:
        reason = f"the job's request has {size:,} bytes, and a service queue accepts at most {MAX_PAYLOAD_BYTES:,}"
        next_step = "Write direct, or fewer and shorter hyperparameters, environment variables and metrics."
        yield Problem("launch", "queued", reason, next_step)


def _payload_bytes(job: Job, deployment: Deployment) -> int:
    """Return the size of the request that a child will send for a job."""
    grid = deployment.grid
    name = names.training_job(grid.name, _LATEST.submission, job.index, _LATEST.attempt)
    request = training_job_request(name, job, deployment.execution_role_arn(job.region), {})
    key = grid.output_key(deployment.account_of(job.region), job.region)
    return len(payload(confined(request, grid.training, grid.regions[job.region], key)).encode())
