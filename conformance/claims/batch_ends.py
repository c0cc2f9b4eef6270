"""AWS Batch: retries, and ways to end a job."""

from conformance.aws import Aws
from conformance.claim import claim, documented
from conformance.resources.batch import Batch
from conformance.sources import model, page

_RETRIES = "https://docs.aws.amazon.com/batch/latest/userguide/job_retries.html"
_TIMEOUTS = "https://docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html"
_UNMATCHED = model("batch", "EvaluateOnExit", "conditions in a RetryStrategy match, then the job is retried")
_SIGKILL = page(
    "https://github.com/aws/agent-toolkit-for-aws/blob/main/skills/core-skills/aws-containers/references/"
    "ecs-troubleshooting-guide.md",
    "137 | SIGKILL | Killed",
)
_STRATEGY = "stacks/orchestrator.py traingrid/job/failures.py"
GRACE_SECONDS = 30.0


def _exit_codes(aws: Aws, index: int) -> list[int]:
    return [attempt["container"].get("exitCode") for attempt in Batch.of(aws).child(index)["attempts"]]


@claim(page(_RETRIES, "none of the retry strategies match, then the job is retried"), _UNMATCHED, used_by=_STRATEGY)
def exit_code_75_is_retried(aws: Aws) -> None:
    """A job that exits with 75, which no condition matches, is retried."""
    assert _exit_codes(aws, 1) == [75, 0]


@claim(page(_RETRIES, "a final entry with an action of EXIT"), used_by=_STRATEGY)
def exit_code_2_is_not_retried(aws: Aws) -> None:
    """A job that exits with 2, for which a condition has the action EXIT, is not retried."""
    assert _exit_codes(aws, 2) == [2]


@claim(page(_RETRIES, "none of the retry strategies match, then the job is retried"), _UNMATCHED, used_by=_STRATEGY)
def unmatched_exit_code_is_retried(aws: Aws) -> None:
    """A job that exits with a code that no condition matches is retried."""
    assert _exit_codes(aws, 3) == [9, 0]


@claim(page(_RETRIES, "Any non-zero exit code from a container job"), _SIGKILL, used_by=_STRATEGY)
def killed_container_is_retried(aws: Aws) -> None:
    """A container whose main process is killed has exit code 137, and is retried."""
    assert _exit_codes(aws, 4) == [137, 0]


@claim(
    model(
        "batch", "TerminateJob", "STARTING or RUNNING state are terminated, which causes them to transition to FAILED"
    ),
    page(_TIMEOUTS, "If the container is still running after 30 seconds"),
    _SIGKILL,
    used_by="traingrid/child/main.py traingrid/submission/cancel.py",
)
def terminated_container_has_30_seconds(aws: Aws) -> None:
    """TerminateJob sends SIGTERM; a container that does not exit is killed about 30 seconds later, with code 137."""
    batch = Batch.of(aws)
    job = batch.submit(batch.define("ignores_sigterm", retryStrategy={"attempts": 2}))
    batch.prints(job, "running")
    batch.api.terminate_job(jobId=job, reason="the claim")
    ended = batch.ended(job)
    lived = [float(line.rpartition(" ")[2]) for line in batch.lines(ended) if line.startswith("seconds since")]
    assert lived, "the container printed no line after SIGTERM"
    assert aws.near(lived[-1], GRACE_SECONDS), f"killed {lived[-1]} s after SIGTERM"
    assert ended["container"]["exitCode"] == 137


@claim(
    model("batch", "JobDetail", "Indicates whether the job is terminated"),
    page(_RETRIES, "Jobs that are cancelled or terminated aren't retried"),
    used_by="traingrid/submission/batch_children.py traingrid/reconciler/reconciler.py",
)
def terminated_job_is_not_retried(aws: Aws) -> None:
    """A terminated job becomes FAILED with isTerminated and the caller's reason, and is not retried."""
    batch = Batch.of(aws)
    job = batch.submit(batch.define("exits_on_sigterm", retryStrategy={"attempts": 3}))
    batch.prints(job, "running")
    batch.api.terminate_job(jobId=job, reason="the claim's reason")
    ended = batch.ended(job)
    assert ended["status"] == "FAILED"
    assert ended["isTerminated"]
    assert not ended.get("isCancelled")
    assert len(ended["attempts"]) == 1
    assert ended["statusReason"] == "the claim's reason"
    assert "asked to end" in batch.lines(ended), "the container did not receive SIGTERM"


@claim(
    model("batch", "CancelJob", "the API operation still succeeds, even if no job is cancelled"),
    used_by="traingrid/submission/cancel.py",
)
def cancel_job_leaves_a_running_job_alone(aws: Aws) -> None:
    """CancelJob for a running job succeeds without ending the job; TerminateJob ends it."""
    batch = Batch.of(aws)
    job = batch.submit(batch.define("exits_on_sigterm"))
    batch.prints(job, "running")
    batch.api.cancel_job(jobId=job, reason="the claim")
    aws.stays_false(lambda: batch.job(job)["status"] != "RUNNING", of_aws=20)
    batch.api.terminate_job(jobId=job, reason="the claim")
    assert batch.ended(job)["isTerminated"]


@claim(
    model("batch", "TerminateJob", "Jobs that have not progressed to the STARTING state are cancelled"),
    model("batch", "JobDetail", "Indicates whether the job is cancelled"),
    used_by="traingrid/submission/batch_children.py traingrid/reconciler/reconciler.py",
)
def waiting_job_that_is_terminated_never_starts(aws: Aws) -> None:
    """A job that is terminated before it starts becomes FAILED with isCancelled or isTerminated, and has no attempt."""
    batch = Batch.of(aws)
    wide = {"resourceRequirements": [{"type": "VCPU", "value": "4"}, {"type": "MEMORY", "value": "8192"}]}
    definition = batch.define("exits_on_sigterm")
    first, second = (batch.submit(definition, containerOverrides=wide) for _ in range(2))  # together exceed the queue

    def waits_for_the_other() -> tuple[str, ...]:
        """Return the job that waits and the one that runs: each job is RUNNABLE for a moment before it starts."""
        of_status = {batch.job(job)["status"]: job for job in (first, second)}
        return (of_status["RUNNABLE"], of_status["RUNNING"]) if of_status.keys() == {"RUNNABLE", "RUNNING"} else ()

    waiting, other = aws.wait(waits_for_the_other, "a job that waits for a running one")
    batch.api.terminate_job(jobId=waiting, reason="the claim")
    ended = batch.ended(waiting)
    batch.api.terminate_job(jobId=other, reason="the claim")
    assert ended["status"] == "FAILED"
    assert ended.get("isCancelled") or ended.get("isTerminated")
    assert not ended.get("attempts")


@claim(
    page(
        "https://docs.aws.amazon.com/batch/latest/userguide/array_jobs.html",
        "all of the child jobs are cancelled or terminated with it",
    ),
    used_by="traingrid/submission/cancel.py",
)
def terminated_array_terminates_its_children(aws: Aws) -> None:
    """TerminateJob for the parent of an array terminates its children."""
    batch = Batch.of(aws)
    job = batch.submit(batch.define("exits_on_sigterm"), arrayProperties={"size": 2})
    aws.wait(lambda: all(batch.job(f"{job}:{index}")["status"] == "RUNNING" for index in (0, 1)), "both children")
    batch.api.terminate_job(jobId=job, reason="the claim")
    assert batch.ended(job)["status"] == "FAILED"
    assert [batch.ended(f"{job}:{index}")["status"] for index in (0, 1)] == ["FAILED", "FAILED"]


@documented(
    page(_TIMEOUTS, "exceeding the timeout duration, it isn't retried"),
    used_by="stacks/orchestrator.py traingrid/submission/batch_children.py",
    why="a timeout takes at least 60 seconds in localcloud as well",
)
def job_that_timed_out_is_not_retried(aws: Aws) -> None:
    """A job that exceeds its timeout receives SIGTERM and then SIGKILL, and is not retried."""


@documented(
    model("batch", "SubmitJob", "after 14 days, Fargate resources might become unavailable"),
    used_by="stacks/orchestrator.py traingrid/reconciler/reconciler.py",
    why="it takes 14 days",
)
def fargate_job_may_end_after_14_days(aws: Aws) -> None:
    """A Fargate job may be ended after 14 days, which is less than the maximum runtime of a training job."""


@documented(
    page(
        "https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-maintenance.html",
        "all tasks running on that revision are stopped",
    ),
    model("ecs", "StopTask", "will default to SIGTERM"),
    used_by="traingrid/child/main.py",
    why="the retirement of a host cannot be provoked",
)
def retired_host_sends_sigterm(aws: Aws) -> None:
    """A task on a retired Fargate host receives SIGTERM, so SIGTERM does not imply that a user terminated the job."""
