"""One attempt of a Batch job: pulls the image, runs it as a process and reports the exit code."""

import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moto.batch.models import ComputeEnvironment
from moto.logs.exceptions import ResourceNotFoundException

from localcloud.batch.jobs import Job, now_ms
from localcloud.batch.retries import Outcome
from localcloud.credentials.arn import name_of_arn
from localcloud.ecr.process_images import InvalidImageError, ProcessImage
from localcloud.ecr.pulls import ImageNotFoundError, resolve
from localcloud.iam.resource_policies import allows_service
from localcloud.iam.roles import trust_of
from localcloud.log_streams import LogStream, ensure_group
from localcloud.processes.process_group import ProcessGroup

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

DEFAULT_LOG_GROUP = "/aws/batch/job"
EXITED = "Essential container in task exited"
NOT_STARTED = "Task failed to start"
HOST_LOST = "ECS is performing maintenance on the underlying infrastructure hosting the task."
TIMED_OUT = "Job attempt duration exceeded timeout"
"""Reasons as DescribeJobs returns them (AWS Batch User Guide, "Job timeouts" and "Automated job retries"); HOST_LOST is
Fargate's (Amazon ECS Developer Guide, "Task retirement and maintenance for AWS Fargate")."""

_RESERVED = "AWS_BATCH"
"""Prefix of variables that only Batch may set (API reference, SubmitJob, containerOverrides). Batch accepts such names
in definitions and overrides but does not pass them to the container
(https://github.com/raster-foundry/raster-foundry/pull/2525, https://github.com/azavea/raster-vision/pull/926)."""


class CannotStartError(Exception):
    """The container could not be started; the message is the container's reason."""


class Attempt:
    """Runs one attempt in its own thread.

    Attributes:
        environment: The compute environment whose vCPUs the attempt uses.
        timed_out: True if the job's timeout ended the attempt.
    """

    def __init__(
        self,
        cloud: "LocalCloud",
        job: Job,
        environment: ComputeEnvironment,
        *,
        on_running: Callable[[Job, str], None],
        on_end: Callable[["Attempt", Outcome], None],
    ) -> None:
        self.job, self.environment, self.timed_out = job, environment, False
        self._cloud, self._on_running, self._on_end = cloud, on_running, on_end
        self._number = job.attempt
        self._task = uuid.uuid4().hex
        self._log_stream: str | None = None
        self._group: ProcessGroup | None = None
        self._stop_after: float | None = None
        self._thread = threading.Thread(target=self._run, name=f"batch-{job.id}", daemon=True)

    def start(self) -> None:
        """Start the attempt's thread."""
        self._thread.start()

    def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM, then SIGKILL after the grace period. An attempt that has not started will not start."""
        self._stop_after = grace_seconds
        if self._group:
            self._group.stop(grace_seconds)

    def kill(self) -> None:
        """Send SIGKILL immediately."""
        self.stop(0)

    def join(self) -> None:
        """Wait for the attempt to end."""
        self._thread.join()

    def describe(self, started_at: int | None, outcome: Outcome) -> dict[str, Any]:
        """Return the finished attempt as DescribeJobs shows it (AttemptDetail)."""
        container = {"exitCode": outcome.exit_code, "reason": outcome.reason, "logStreamName": self._log_stream}
        container["taskArn"] = self._task_arn
        description: dict[str, Any] = {
            "container": {key: value for key, value in container.items() if value is not None}
        }
        if started_at is not None:
            description["startedAt"] = started_at
        return description | {"stoppedAt": now_ms(), "statusReason": outcome.status_reason}

    @property
    def _task_arn(self) -> str:
        region, account = self._region_and_account
        return f"arn:aws:ecs:{region}:{account}:task/{self.environment.name}/{self._task}"

    @property
    def _region_and_account(self) -> tuple[str, str]:
        backend = self.job.submission.queue.backend
        return str(backend.region_name), str(backend.account_id)

    def _run(self) -> None:
        outcome = Outcome(exit_code=None, reason="localcloud failed; see its log", status_reason=NOT_STARTED)
        try:
            outcome = self._outcome()
        except CannotStartError as error:
            outcome = Outcome(exit_code=None, reason=str(error), status_reason=NOT_STARTED)
        finally:
            self._on_end(self, outcome)

    def _outcome(self) -> Outcome:
        image = self._image()
        log = self._log()
        self._group = self._spawn(image, log)
        if self._stop_after is not None:  # stopped after the check in _spawn
            self._group.stop(self._stop_after)
        self._on_running(self.job, self._log_stream or "")
        limit = (self.job.submission.timeout or {}).get("attemptDurationSeconds")
        code = self._group.wait(limit)
        if code is None:
            self.timed_out = True
            self._group.stop(self._cloud.settings.batch_stop_grace_seconds)
            code = self._group.wait()
        log.flush()
        if self._group.lost:
            return Outcome(exit_code=None, reason=None, status_reason=HOST_LOST)
        return Outcome(exit_code=code, reason=None, status_reason=TIMED_OUT if self.timed_out else EXITED)

    def _image(self) -> ProcessImage:
        uri = str(self.job.submission.container["image"])
        try:
            return resolve(self._region_and_account[1], uri)
        except (InvalidImageError, ImageNotFoundError) as error:
            raise CannotStartError(f"CannotPullContainerError: failed to resolve ref {error}") from error

    def _log(self) -> LogStream:
        region, account = self._region_and_account
        configuration = self.job.submission.container.get("logConfiguration") or {}
        options = configuration.get("options") or {}
        region = options.get("awslogs-region", region)
        group = options.get("awslogs-group", DEFAULT_LOG_GROUP)
        if group == DEFAULT_LOG_GROUP or str(options.get("awslogs-create-group")).lower() == "true":
            ensure_group(account, region, group)
        prefix = options.get("awslogs-stream-prefix", self.job.submission.definition.name)
        self._log_stream = f"{prefix}/default/{self._task}"
        try:
            return LogStream(account, region, group, self._log_stream)
        except ResourceNotFoundException as error:
            message = (
                "ResourceInitializationError: failed to validate logger args: failed to create Cloudwatch log stream: "
                f"ResourceNotFoundException: The specified log group does not exist: {group} in {region}"
            )
            raise CannotStartError(message) from error

    def _spawn(self, image: ProcessImage, log: LogStream) -> ProcessGroup:
        if self._stop_after is not None:
            raise CannotStartError("the job was stopped before its container started")
        container = self.job.submission.container
        region, _ = self._region_and_account
        variables = dict(image.environment)
        variables |= {
            entry["name"]: str(entry.get("value", ""))
            for entry in container["environment"]
            if not entry["name"].startswith(_RESERVED)
        }
        variables |= self._batch_variables()
        environment = self._cloud.environment_for(region, self._role(container.get("jobRoleArn")), variables)
        command = [*image.command, *container["command"]]
        try:
            return ProcessGroup(
                command,
                environment=environment,
                working_directory=image.working_directory,
                on_line=log.write,
                label=f"batch/{self.job.id}/{self._number}",
                spawn=self._cloud.spawn,
            )
        except OSError as error:
            raise CannotStartError(f"CannotStartContainerError: {command[0]}: {error}") from error

    def _role(self, role_arn: str | None) -> str | None:
        if not role_arn:
            return None
        trust = trust_of(name_of_arn(role_arn), self._region_and_account[1])
        if not allows_service(trust, "sts:AssumeRole", "ecs-tasks.amazonaws.com", self._task_arn):
            message = (
                f"ECS was unable to assume the role {role_arn!r} that was provided for this task. Please verify that "
                "the role being passed has the proper trust relationship and permissions and that your IAM user has "
                "permissions to pass this role."
            )
            raise CannotStartError(message)
        return role_arn

    def _batch_variables(self) -> dict[str, str]:
        """Return the variables that Batch sets; the array variables exist in children only.

        Source: https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html. The variables of Kubernetes and
        multi-node parallel jobs are omitted, because localcloud runs neither.
        """
        variables = {
            "AWS_BATCH_JOB_ID": self.job.id,
            "AWS_BATCH_JOB_ATTEMPT": str(self._number),
            "AWS_BATCH_JQ_NAME": self.job.submission.queue.name,
            "AWS_BATCH_CE_NAME": self.environment.name,
        }
        if self.job.index is not None:
            variables["AWS_BATCH_JOB_ARRAY_INDEX"] = str(self.job.index)
            variables["AWS_BATCH_JOB_ARRAY_SIZE"] = str(self.job.submission.size)
        return variables
