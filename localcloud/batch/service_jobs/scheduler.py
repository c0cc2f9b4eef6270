"""The service-job scheduler: starts service jobs when their queue has room, and follows their training jobs.

A training job that gets no instances or exceeds a quota does not fail its service job: the service job waits and is
retried, and this does not count as an attempt (User Guide, "Service job retry strategies in AWS Batch"). Running jobs
are not preempted: a quota share that lends instances waits until the borrower ends, where Batch would preempt it.
"""

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from localcloud.batch.jobs import now_ms
from localcloud.batch.service_jobs.jobs import ENDED, ServiceJob
from localcloud.batch.service_jobs.resources import ANY_TYPE, Queue
from localcloud.batch.waiting_jobs import weights_of
from localcloud.credentials.access_keys import BATCH_KEY
from localcloud.credentials.arn import name_of_arn, region_of_arn

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

LOOK_SECONDS = 0.1
AGAIN_SECONDS = 0.5
"""Delay before a job that had no capacity in SageMaker is retried; AWS does not document its delay."""

_PASSES = frozenset({"ResourceLimitExceeded", "ThrottlingException", "InternalFailure", "ServiceUnavailable"})
_BY_PHASE = {"Downloading": "STARTING", "Training": "RUNNING", "Uploading": "RUNNING"}
"""Batch's status by SageMaker's SecondaryStatus (User Guide, "Mapping AWS Batch service job status")."""


class ServiceScheduler:
    """Schedules the service jobs of one localcloud, in every Region.

    Attributes:
        lock: Required to read or change a service job.
    """

    def __init__(self, cloud: "LocalCloud") -> None:
        self._cloud = cloud
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._queues: list[tuple[Any, Queue]] = []
        self._active: list[ServiceJob] = []
        self._is_stopping = False
        self._clients: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._run, name="batch-services", daemon=True)

    def start(self) -> None:
        """Start scheduling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop scheduling; jobs keep their status."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        self._thread.join()

    def submit(self, backend: Any, job: ServiceJob) -> None:
        """Accept a service job; `backend` is the Batch backend of its Region."""
        with self._changed:
            if job.queue not in [queue for _, queue in self._queues]:
                self._queues.append((backend, job.queue))
            job.queue.jobs.append(job)
            self._move(job, "SUBMITTED")
            self._wait(job)
            self._changed.notify_all()

    def terminate(self, job: ServiceJob, reason: str) -> None:
        """TerminateServiceJob: end a waiting job; stop the training job of an active one first."""
        with self._changed:
            if job.status in ENDED:
                return
            job.stop_reason = reason
            if job not in self._active:
                self._end(job, "FAILED", reason)
        if job.training_job and job in self._active:
            self._stop_training(job)

    def _run(self) -> None:
        while True:
            with self._changed:
                busy = self._active or any(job.status == "RUNNABLE" for _, queue in self._queues for job in queue.jobs)
                if not busy and not self._is_stopping:
                    self._changed.wait()
                elif not self._is_stopping:
                    self._changed.wait(LOOK_SECONDS)
                if self._is_stopping:
                    return
                started = [job for backend, queue in self._queues for job in self._dispatch(backend, queue)]
            for job in started:
                self._create(job)
            for job in list(self._active):
                self._follow(job)

    def _dispatch(self, backend: Any, queue: Queue) -> list[ServiceJob]:
        """Take the jobs that fit from the heads of a queue's shares. A head that does not fit blocks its share."""
        started: list[ServiceJob] = []
        blocked: set[str] = set()
        while True:
            waiting_shares = queue.waiting.shares(weights_of(backend, queue.policy))
            shares = [share for share in waiting_shares if share not in blocked]
            if not shares:
                return started
            share = shares[0]
            job = queue.waiting.first(share)
            if job.status != "RUNNABLE":  # terminated while it waited
                queue.waiting.remove_first(share)
            elif time.monotonic() < job.not_before or not self._fits(queue, job):
                # Quota shares are separate queues; otherwise no job overtakes the first one.
                if queue.environment.has_quota:
                    blocked.add(share)
                else:
                    blocked |= set(shares)
            else:
                queue.waiting.remove_first(share)
                queue.waiting.use(share, job.needs[1])
                self._active.append(job)
                job.scheduled_at = now_ms()
                self._move(job, "SCHEDULED")
                started.append(job)

    def _fits(self, queue: Queue, job: ServiceJob) -> bool:
        instance_type, count = job.needs
        running = [active for active in self._active if active.queue is queue]
        if not queue.environment.has_quota:
            instances_in_use = sum(active.needs[1] for active in running)
            return (
                queue.environment.state == "ENABLED" and instances_in_use + count <= queue.environment.limits[ANY_TYPE]
            )
        used_by: Counter[str] = Counter()
        for active in running:
            if active.needs[0] == instance_type:
                used_by[active.share] += active.needs[1]
        share = queue.shares[job.share]
        if used_by[job.share] + count <= share.limits.get(instance_type, 0):
            return True
        return share.may_borrow and used_by.total() + count <= queue.environment.limits.get(instance_type, 0)

    def _create(self, job: ServiceJob) -> None:
        try:
            reply = self._sagemaker(job).create_training_job(**job.training_job_request())
        except ClientError as error:
            code, message = error.response["Error"]["Code"], error.response["Error"]["Message"]
            reason = f"Received status from SageMaker: {code}: {message}"
            with self._changed:
                self._requeue(job, reason) if code in _PASSES else self._leave_and_end(job, "FAILED", reason)
        except BotoCoreError as error:
            with self._changed:
                self._leave_and_end(job, "FAILED", f"Received status from SageMaker: {error}")
        else:
            with self._changed:
                job.training_job = reply["TrainingJobArn"]
            if job.stop_reason is not None:
                self._stop_training(job)

    def _follow(self, job: ServiceJob) -> None:
        if not job.training_job:
            return
        try:
            description = self._sagemaker(job).describe_training_job(TrainingJobName=name_of_arn(job.training_job))
        except (ClientError, BotoCoreError):
            return  # not visible yet, or SageMaker does not answer; the next round asks again
        status = description["TrainingJobStatus"]
        reason = description.get("FailureReason", "")
        with self._changed:
            if status == "Completed":
                self._leave_and_end(job, "SUCCEEDED", "Received status from SageMaker: Training job completed")
            elif status == "Stopped":
                self._leave_and_end(
                    job, "FAILED", job.stop_reason or "Received status from SageMaker: Training job stopped"
                )
            elif status == "Failed" and reason.startswith("CapacityError") and job.stop_reason is None:
                self._requeue(job, f"Received status from SageMaker: {reason}")
            elif status == "Failed":
                self._leave_and_end(job, "FAILED", job.stop_reason or f"Received status from SageMaker: {reason}")
            elif (now := _BY_PHASE.get(description["SecondaryStatus"])) and now != job.status:
                job.started_at = now_ms() if now == "RUNNING" else job.started_at
                self._move(job, now)

    def _stop_training(self, job: ServiceJob) -> None:
        try:
            self._sagemaker(job).stop_training_job(TrainingJobName=name_of_arn(job.training_job))
        except ClientError:
            return  # the training job has already ended

    def _requeue(self, job: ServiceJob, reason: str) -> None:
        """Put a job back into its queue, because SageMaker had no capacity for it."""
        self._end_job(job, reason)
        job.training_job, job.not_before = "", time.monotonic() + AGAIN_SECONDS
        if job.stop_reason is not None:
            self._end(job, "FAILED", job.stop_reason)
        else:
            self._wait(job, reason)

    def _leave_and_end(self, job: ServiceJob, status: str, reason: str) -> None:
        self._end_job(job, reason)
        self._end(job, status, reason)

    def _end_job(self, job: ServiceJob, reason: str) -> None:
        self._active.remove(job)
        job.queue.waiting.use(job.share, -job.needs[1])
        if job.training_job:
            job.end_attempt(reason)

    def _wait(self, job: ServiceJob, reason: str | None = None) -> None:
        job.queue.waiting.add(job, job.share, job.priority)
        self._move(job, "RUNNABLE", reason)

    def _end(self, job: ServiceJob, status: str, reason: str) -> None:
        job.stopped_at = now_ms()
        self._move(job, status, reason)

    def _move(self, job: ServiceJob, status: str, reason: str | None = None) -> None:
        """Set the status and send the event of the User Guide, "Service job state change events"."""
        job.status, job.status_reason = status, reason
        detail = {key: value for key, value in job.describe().items() if key not in ("tags", "serviceRequestPayload")}
        event = {"source": "aws.batch", "detail-type": "Batch Service Job State Change", "resources": [job.arn]}
        self._cloud.put_event(_region(job), {**event, "detail": detail})

    def _sagemaker(self, job: ServiceJob) -> Any:
        region = _region(job)
        if region not in self._clients:
            session = boto3.Session(aws_access_key_id=BATCH_KEY, aws_secret_access_key=self._cloud.secret)
            config = Config(retries={"total_max_attempts": 1}, parameter_validation=False)
            self._clients[region] = session.client(
                "sagemaker", region_name=region, endpoint_url=self._cloud.endpoint_url, config=config
            )
        return self._clients[region]


def _region(job: ServiceJob) -> str:
    return region_of_arn(job.arn)
