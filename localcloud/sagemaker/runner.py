"""Runs one training job from Starting to its end, in its own thread."""

import errno
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from localcloud.credentials.arn import account_of_arn
from localcloud.faults.plan import Stub
from localcloud.log_streams import ensure_group
from localcloud.sagemaker import transfer
from localcloud.sagemaker.algorithms import published
from localcloud.sagemaker.cluster import TrainingHosts, log_streams
from localcloud.sagemaker.containers import Containers
from localcloud.sagemaker.host_capacity import HostCapacity
from localcloud.sagemaker.hosts import HostNetwork
from localcloud.sagemaker.job import TrainingJob, now
from localcloud.sagemaker.job_files import JobFiles
from localcloud.sagemaker.metrics import Metrics, to_cloudwatch
from localcloud.sagemaker.opt_ml import FAILURE_CHARACTERS, algorithm_error
from localcloud.sagemaker.pipe import Pipes
from localcloud.sagemaker.spot_instances import LOOK_SECONDS, InterruptionError, SpotInstances, WaitExceededError
from localcloud.sagemaker.status import NO_INSTANCES
from localcloud.sagemaker.training_plans import TrainingPlans

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
INTERNAL_ERROR = "InternalServerError: We encountered an internal error. Please try again."
"""FailureReason of a job that failed because of SageMaker itself."""

_DISK_FULL = "ClientError: Artifact upload failed:Insufficient disk space"
"""FailureReason of a job without room for its results: SageMaker's words for a channel that does not fit
(https://github.com/aws/sagemaker-python-sdk/issues/128), here with the other step that copies."""
NO_CAPACITY = (
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a different ML instance type."
)
"""FailureReason of a job without instances (text: github.com/DIAGNijmegen/rse-grand-challenge/issues/2631)."""

ENDED_PLAN = "InsufficientCapacityError: the training plan has ended before the job could start"
"""FailureReason of a job that waited for a training plan. AWS documents the error's name, and that it follows after two
days of waiting (https://docs.aws.amazon.com/sagemaker/latest/dg/training-plan-utilization-for-training-jobs.html)."""


class Runner:
    """Manages the instances, containers and transfers of one job.

    Args:
        stub: The stub that the fault plan defined at creation; None for a job that really trains.
        capacity: Capacity for hosts on this machine.
    """

    def __init__(
        self, cloud: "LocalCloud", job: TrainingJob, stub: Stub | None, capacity: HostCapacity, plans: TrainingPlans
    ) -> None:
        self.job = job
        self._cloud = cloud
        self._stub = stub
        self._capacity = capacity
        self._plans = plans
        self._spot = SpotInstances(job, cloud.faults)
        self._files = JobFiles(cloud, job)
        specification = job.specification
        definitions = specification.get("MetricDefinitions") or published.metric_definitions(
            specification.get("TrainingImage", "")
        )
        self._metrics = Metrics(definitions, to_cloudwatch(account_of_arn(job.arn), job.region, job.name))
        self._cluster: TrainingHosts | None = None
        self._pipes: Pipes | None = None
        self._overtime = ""
        self._pretended_seconds = 0.0
        self._is_abandoned = False
        self._thread = threading.Thread(target=self._run, name=f"training-{job.name}", daemon=True)

    def start(self) -> None:
        """Start the job's thread."""
        self._send_event()
        self._thread.start()

    def stop(self) -> None:
        """StopTrainingJob: set Stopping, send SIGTERM to every host, and SIGKILL after the grace period."""
        with self.job.lock:
            if self.job.progress.status == "InProgress":
                self._advance("Stopping")
            self.job.stop_requested.set()
            if self._cluster:
                self._cluster.stop()

    def join(self) -> None:
        """Wait until the files of an ended job are deleted."""
        self._thread.join()

    def abandon(self) -> None:
        """Kill all processes and keep the job's status, because the server stops."""
        self._is_abandoned = True
        self.job.stop_requested.set()
        if self._cluster:
            self._cluster.kill()
        if self._thread.is_alive():  # a job created while the server stops has not been started
            self._thread.join()

    def _run(self) -> None:
        """Run the job, and record the end that an error causes."""
        try:
            self._run_job()
        except transfer.TransferInterruptedError:
            self._finish("Stopped")
        except WaitExceededError:
            with self.job.lock:
                if self.job.progress.status == "InProgress":
                    self._advance("Stopping")
                self._finish("MaxWaitTimeExceeded")
        except transfer.TransferError as error:
            self._fail(str(error))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._fail(_DISK_FULL)
        finally:
            if not self.job.progress.is_final:  # a defect of localcloud: the traceback is on stderr, the job must end
                self._fail(INTERNAL_ERROR)
            if not self._cloud.settings.keep_training_folders:
                self._files.remove()

    def _run_job(self) -> None:
        self._wait_for_spot_capacity()
        while True:
            try:
                self._run_until_interrupted()
            except InterruptionError:
                with self.job.lock:
                    self.job.end_instances(now())
                    self._step("Interrupted")
            else:
                return
            self._wait_for_spot_capacity()
            self._step("Starting")

    def _wait_for_spot_capacity(self) -> None:
        with self.job.lock:
            if self.job.progress.secondary == "Starting" and not self._spot.are_available:
                self.job.progress.describe_step(NO_INSTANCES)
        if not self._spot.wait():
            raise transfer.TransferInterruptedError

    def _run_until_interrupted(self) -> None:
        with self._spot.watched(self._interrupt):
            try:
                self._step("Pending")
                self._wait_for_instances()
                self._run_with_plan()
            except transfer.TransferInterruptedError:
                if self.job.stop_requested.is_set():
                    raise
                raise InterruptionError from None

    def _interrupt(self) -> None:
        with self.job.lock:
            if self._cluster and self.job.progress.status == "InProgress":
                self._cluster.interrupt()

    def _run_with_plan(self) -> None:
        with self._plans.held(self.job.request, self.job.stop_requested) as may_start:
            if may_start:
                self._run_with_instances()
            elif self.job.stop_requested.is_set():
                raise transfer.TransferInterruptedError
            else:
                self._fail(ENDED_PLAN)

    def _run_with_instances(self) -> None:
        if self._stub:
            self._pretend(self._stub)
            return
        # Pending: "waiting for compute capacity" (botocore's service model, DescribeTrainingJobResponse).
        with self._capacity.held(len(self._files.hosts), self.job.stop_requested) as has_capacity:
            if has_capacity:
                self._run_on_hosts()
            else:
                raise transfer.TransferInterruptedError

    def _run_on_hosts(self) -> None:
        """Download, train and upload on this machine's processes."""
        containers = Containers(self._cloud, self.job, self._files)
        environment = containers.platform_environment()
        s3 = transfer.s3_client(environment)
        self.job.start_instances()
        # The limits include all runs: with RetryStrategy, they are "the maximum time for all of the attempts in total"
        # (API reference, StoppingCondition), which does not mention interruptions.
        runtime_ends = time.monotonic() + self.job.max_runtime_seconds - self.job.instance_seconds
        self._prepare(containers, s3)
        self._step("Training")
        try:
            self._train(containers, containers.environment(environment), s3, runtime_ends)
        except OSError as error:
            self._fail(algorithm_error(f"the container could not be started: {error}", 127))
            return
        if not self._is_abandoned:
            self._upload(s3, environment)
            self._conclude()

    def _wait_for_instances(self) -> None:
        """Fail after some time if the fault plan has no instances for this job."""
        types = {host.instance_type for host in self._files.hosts}
        waits = (self._cloud.faults.no_capacity(self.job.region, instance_type) for instance_type in sorted(types))
        seconds = next((seconds for seconds in waits if seconds is not None), None)
        if seconds is not None:
            self._pass(seconds)
            raise transfer.TransferError(NO_CAPACITY)

    def _pretend(self, stub: Stub) -> None:
        """Simulate training as the fault plan requires, without a process, data or a model.

        After an interruption, a job with checkpoints continues, and any other one begins again.
        """
        self.job.start_instances()
        self._step("Training")
        began = time.monotonic()
        try:
            self._pass(stub.seconds - self._pretended_seconds)
        except transfer.TransferInterruptedError:
            if self.job.request.get("CheckpointConfig"):
                self._pretended_seconds += time.monotonic() - began
            time.sleep(stub.stop_seconds)
            raise
        if stub.outcome == "Failed":
            raise transfer.TransferError(stub.reason)
        self._step("Uploading")
        self._finish("Completed", has_artifacts=True)

    def _pass(self, seconds: float) -> None:
        """Wait, unless the job is being stopped or loses its instances."""
        until = time.monotonic() + seconds
        while (remaining_seconds := until - time.monotonic()) > 0:
            if self.job.stop_requested.wait(
                min(remaining_seconds, LOOK_SECONDS) if self.job.is_spot else remaining_seconds
            ):
                raise transfer.TransferInterruptedError
            if self._spot.lost.is_set():
                raise transfer.TransferInterruptedError
            if time.monotonic() >= self._spot.deadline:
                raise WaitExceededError

    def _prepare(self, containers: Containers, s3: Any) -> None:
        self._files.create(containers.image)
        if self._files.channels or self._files.checkpoints:
            self._step("Downloading")
        self._pipes = Pipes(s3, self._files.channels, self._files.bases)
        self._files.download(s3, lambda: self.job.stop_requested.is_set() or self._spot.lost.is_set())

    def _train(self, containers: Containers, environment: dict[str, str], s3: Any, runtime_ends: float) -> None:
        """Run the containers until all have ended, while checkpoints are copied and channels are streamed."""
        ensure_group(self.job.account, self.job.region, LOG_GROUP)
        logs = log_streams(self.job.account, self.job.region, LOG_GROUP, self.job.name, self._files.hosts)
        checkpoints = self._files.checkpoints
        sync = transfer.CheckpointSync(s3, checkpoints.folders, checkpoints.uri) if checkpoints else None
        network = HostNetwork([host.name for host in self._files.hosts])
        deadline = min(runtime_ends, self._spot.deadline)
        cluster = TrainingHosts(grace_seconds=self._cloud.settings.training_stop_grace_seconds, deadline=deadline)
        try:
            containers.start(cluster, environment, network, logs, self._metrics.read)
            self._cluster = cluster
            self._repeat_signals(cluster)
            if sync:
                sync.start()
            if self._pipes:
                self._pipes.start(cluster.stop)
            cluster.follow(lambda: self._on_overtime(runtime_ends))
        finally:
            cluster.kill()
            if self._pipes:
                self._pipes.close()
            network.close()
            for stream in logs.values():
                stream.flush()
        if sync:
            sync.finish()
        if cluster.is_interrupted and not self._overtime and not self._is_abandoned:
            raise InterruptionError

    def _repeat_signals(self, cluster: TrainingHosts) -> None:
        """Stop the hosts if that was required before the cluster existed."""
        if self.job.stop_requested.is_set():
            cluster.stop()
        if self._spot.lost.is_set():
            cluster.interrupt()
        if self._is_abandoned:
            cluster.kill()

    def _on_overtime(self, runtime_ends: float) -> None:
        with self.job.lock:
            if self.job.progress.status == "InProgress":
                exceeds_wait = self._spot.deadline < runtime_ends
                self._overtime = "MaxWaitTimeExceeded" if exceeds_wait else "MaxRuntimeExceeded"
                self._advance("Stopping")

    def _upload(self, s3: Any, environment: Mapping[str, str]) -> None:
        with self.job.lock:
            self._advance("Uploading")
            self.job.final_metrics = self._metrics.final()
        self._files.upload(s3, environment)

    def _conclude(self) -> None:
        failure = self._cluster.first_failure if self._cluster else None
        if self._overtime:
            self._finish(self._overtime, has_artifacts=True)
        elif self.job.progress.status == "Stopping":
            self._finish("Stopped", has_artifacts=True)
        elif self._pipes and self._pipes.failure:
            self._fail(self._pipes.failure)
        elif failure:
            host, code = failure
            self._fail(algorithm_error(self._files.opt_ml[host].failure(), code))
        else:
            self._finish("Completed", has_artifacts=True)

    def _step(self, secondary: str) -> None:
        """Advance to a status, unless the job is being stopped."""
        with self.job.lock:
            if self.job.stop_requested.is_set():
                raise transfer.TransferInterruptedError
            self._advance(secondary)

    def _fail(self, reason: str) -> None:
        with self.job.lock:
            self.job.failure_reason = reason[:FAILURE_CHARACTERS]
            self._finish("Failed")

    def _finish(self, secondary: str, *, has_artifacts: bool = False) -> None:
        if self._is_abandoned:
            return
        with self.job.lock:
            self.job.has_artifacts = has_artifacts
            ended_at = now()
            self.job.ended_at = ended_at
            self.job.end_instances(ended_at)
            self._advance(secondary, ended_at)

    def _advance(self, secondary: str, at: datetime | None = None) -> None:
        self.job.progress.advance(secondary, at or now())
        self._send_event()

    def _send_event(self) -> None:
        self._cloud.put_event(self.job.region, self.job.event(), self.job.account)
