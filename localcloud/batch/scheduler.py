"""The scheduler of AWS Batch: job states, queues, and the vCPUs of compute environments.

One thread starts the jobs that fit. A job has a thread only while one of its attempts runs, so an array of 10,000
children costs 10,000 small objects. Every status change goes through `_move`, which updates the parent's tally and
sends an event to EventBridge.
"""

import threading
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from moto.batch.models import ComputeEnvironment, JobQueue

from localcloud.batch.attempts import Attempt
from localcloud.batch.jobs import ENDED, NOT_STARTED, STATUSES, Job, now_ms
from localcloud.batch.retries import Outcome, should_retry
from localcloud.batch.waiting_jobs import WaitingJobs, weights_of
from localcloud.limits.quota import FARGATE_VCPUS
from localcloud.limits.rates import FARGATE_LAUNCHES
from localcloud.limits.throttle import TokenBuckets

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

CHILD_FAILED = "Array Child Job failed"
_UNTIL_NEXT_LAUNCH = 1 / FARGATE_LAUNCHES.per_second


class Scheduler:
    """Schedules all jobs of one localcloud, in every Region.

    Attributes:
        lock: Required to read or change a job.
    """

    def __init__(self, cloud: "LocalCloud") -> None:
        self._cloud = cloud
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._new_jobs: deque[Job] = deque()
        self._runnable: dict[JobQueue, WaitingJobs[Job]] = {}  # not by ARN: a deleted queue may be created again
        self._cpus_in_use: dict[str, int] = {}
        self._attempts: dict[str, Attempt] = {}
        self._launches = TokenBuckets()
        self._is_stopping = False
        self._wake = False
        self._is_throttled = False
        self._thread = threading.Thread(target=self._run, name="batch-scheduler", daemon=True)

    def start(self) -> None:
        """Start scheduling."""
        self._thread.start()

    def stop(self) -> None:
        """Kill every attempt and end the scheduler's threads; jobs keep their status."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
            attempts = list(self._attempts.values())
        for attempt in attempts:
            attempt.kill()
        for attempt in attempts:
            attempt.join()
        self._thread.join()

    def submit(self, job: Job) -> None:
        """Accept a job, or an array parent with its children, in status SUBMITTED."""
        with self._changed:
            if job.is_array:
                job.tally = dict.fromkeys(STATUSES, 0) | {"SUBMITTED": len(job.children)}
            self._new_jobs.append(job)
            self._notify()

    def poke(self) -> None:
        """Schedule again, because a queue or a compute environment may have changed."""
        with self._changed:
            self._notify()

    def cancel(self, job: Job, reason: str) -> None:
        """CancelJob: end jobs that have not started. STARTING and RUNNING jobs continue, and the call succeeds."""
        with self._changed:
            for child in job.ids():
                if child.status in NOT_STARTED:
                    child.is_cancelled = True
                    self._end_unstarted(child, reason)

    def terminate(self, job: Job, reason: str) -> None:
        """TerminateJob: end jobs that have not started and stop running ones; neither are retried."""
        with self._changed:
            for child in job.ids():
                if child.status in ENDED:
                    continue
                child.is_terminated = True
                child.stop_reason = reason
                attempt = self._attempts.get(child.id)
                if attempt:
                    attempt.stop(self._cloud.settings.batch_stop_grace_seconds)
                else:
                    self._end_unstarted(child, reason)

    def running(self, job: Job, log_stream: str) -> None:
        """Record that an attempt's process has started."""
        with self.lock:
            job.started_at = now_ms()
            job.log_stream = log_stream
            self._move(job, "RUNNING")

    def record_end(self, attempt: Attempt, outcome: Outcome) -> None:
        """Record the end of an attempt: free its vCPUs, then end its job or queue it again."""
        job = attempt.job
        with self._changed:
            self._cpus_in_use[attempt.environment.arn] -= job.submission.milli_vcpus
            self._runnable[job.submission.queue].use(job.submission.share, -job.submission.milli_vcpus)
            del self._attempts[job.id]
            if self._is_stopping:
                return
            number = job.attempt
            job.attempts.append(attempt.describe(job.started_at, outcome))
            job.exit_code, job.reason = outcome.exit_code, outcome.reason
            reason = job.stop_reason or outcome.status_reason
            if outcome.has_succeeded and job.stop_reason is None and not attempt.timed_out:
                self._end(job, "SUCCEEDED", reason)
            elif job.stop_reason is None and not attempt.timed_out and self._retries(job, number, outcome):
                self._queue(job, reason)
            else:
                self._end(job, "FAILED", reason)
            self._notify()

    def _retries(self, job: Job, attempt: int, outcome: Outcome) -> bool:
        return should_retry(job.submission.retry_strategy, attempt, outcome)

    def _notify(self) -> None:
        self._wake = True
        self._changed.notify_all()

    def _run(self) -> None:
        with self._changed:
            while not self._is_stopping:
                wait = _UNTIL_NEXT_LAUNCH if self._is_throttled else None
                self._changed.wait_for(lambda: self._wake or self._is_stopping, wait)
                self._wake = self._is_throttled = False
                self._accept_arrivals()
                self._dispatch()

    def _accept_arrivals(self) -> None:
        while self._new_jobs:
            job = self._new_jobs.popleft()
            for child in job.children if job.is_array else [job]:
                if child.status == "SUBMITTED":
                    self._queue(child, None)

    def _queue(self, job: Job, reason: str | None) -> None:
        queue = job.submission.queue
        job.started_at = job.stopped_at = None
        submitted = job.submission
        self._runnable.setdefault(queue, WaitingJobs()).add(job, submitted.share, submitted.priority)
        self._move(job, "RUNNABLE", reason)

    def _dispatch(self) -> None:
        """Start jobs from the head of every queue while capacity is available, highest queue priority first."""
        for queue, waiting in sorted(self._runnable.items(), key=lambda pair: -int(pair[0].priority)):
            weights = weights_of(queue.backend, queue.schedule_policy)
            while not self._is_stopping and (shares := waiting.shares(weights)):
                job = waiting.first(shares[0])
                if job.status == "RUNNABLE":  # otherwise it was cancelled or terminated while it waited
                    environment = self._room(queue.environments, job.submission.milli_vcpus)
                    if environment is None or not self._may_launch(environment):
                        break
                    waiting.use(shares[0], job.submission.milli_vcpus)
                    self._start(job, environment)
                waiting.remove_first(shares[0])

    def _room(self, environments: Iterable[ComputeEnvironment], needed: int) -> ComputeEnvironment | None:
        if len(self._attempts) >= self._cloud.settings.batch_max_processes:
            return None
        for environment in environments:
            milli_vcpus_in_use = self._cpus_in_use.get(environment.arn, 0)
            # moto stores None if the caller omitted the state; AWS uses ENABLED
            usable = environment.state != "DISABLED" and not environment.invalid_reason
            if (
                usable
                and milli_vcpus_in_use + needed <= _milli_vcpus(environment)
                and self._within_quota(environment, needed)
            ):
                return environment
        return None

    def _within_quota(self, environment: ComputeEnvironment, needed: int) -> bool:
        """Return True if the Region's Fargate quota has room for the job; otherwise the job stays RUNNABLE.

        The quota limits the vCPUs of all tasks (https://docs.aws.amazon.com/general/latest/gr/ecs-service.html).
        """
        if (environment.compute_resources or {}).get("type") != "FARGATE":
            return True
        place = environment.arn.split(":")[3:5]
        milli_vcpus_in_use = sum(amount for arn, amount in self._cpus_in_use.items() if arn.split(":")[3:5] == place)
        return milli_vcpus_in_use + needed <= 1000 * self._cloud.limits.value(place[1], place[0], FARGATE_VCPUS)

    def _may_launch(self, environment: ComputeEnvironment) -> bool:
        """Return True if Fargate launches another task in this Region now; otherwise jobs stay RUNNABLE."""
        kind = str((environment.compute_resources or {}).get("type"))
        if not kind.startswith("FARGATE"):
            return True
        region, account = environment.arn.split(":")[3:5]
        launches = self._launches.take_of(FARGATE_LAUNCHES, account, region, kind)
        self._is_throttled |= not launches
        return launches

    def _start(self, job: Job, environment: ComputeEnvironment) -> None:
        self._cpus_in_use[environment.arn] = self._cpus_in_use.get(environment.arn, 0) + job.submission.milli_vcpus
        attempt = Attempt(self._cloud, job, environment, on_running=self.running, on_end=self.record_end)
        self._attempts[job.id] = attempt
        self._move(job, "STARTING")
        attempt.start()

    def _end_unstarted(self, job: Job, reason: str) -> None:
        if not job.is_array:  # a parent ends with its last child
            job.stop_reason = reason
            self._end(job, "FAILED", reason)

    def _end(self, job: Job, status: str, reason: str) -> None:
        job.stopped_at = now_ms()
        self._move(job, status, reason)

    def _move(self, job: Job, status: str, reason: str | None = None) -> None:
        before, job.status = job.status, status
        job.status_reason = reason
        self._send_event(job)
        parent = job.parent
        if parent is None:
            return
        parent.tally[before] -= 1
        parent.tally[status] += 1
        if parent.status == "SUBMITTED":
            self._move(parent, "PENDING")
        elif parent.tally["SUCCEEDED"] + parent.tally["FAILED"] == parent.submission.size:
            parent.stopped_at = now_ms()
            failed = parent.tally["FAILED"] > 0
            self._move(parent, "FAILED" if failed else "SUCCEEDED", CHILD_FAILED if failed else None)

    def _send_event(self, job: Job) -> None:
        """Send the event of the AWS Batch User Guide, "AWS Batch job state change events"."""
        event: dict[str, Any] = {
            "source": "aws.batch",
            "detail-type": "Batch Job State Change",
            "resources": [job.arn],
            "detail": job.describe(),
        }
        self._cloud.put_event(job.submission.queue.backend.region_name, event)


def _milli_vcpus(environment: ComputeEnvironment) -> int:
    """Return the environment's vCPU limit; Batch knows none for an unmanaged environment."""
    limit = (environment.compute_resources or {}).get("maxvCpus")
    return 10**9 if limit is None else int(limit) * 1000
