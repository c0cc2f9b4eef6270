"""AWS Batch: service jobs, which create SageMaker training jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from conformance.aws import Aws, refused
from conformance.claim import claim, documented
from conformance.resources.events import inbox
from conformance.resources.training import Training
from conformance.sources import model, page

if TYPE_CHECKING:
    from collections.abc import Mapping

_EVENTS = "https://docs.aws.amazon.com/batch/latest/userguide/service-job-events.html"
ENDED = ("SUCCEEDED", "FAILED")


class ServiceQueue:
    """A queue of service jobs with capacity for one training instance, which claims share."""

    def __init__(self, aws: Aws) -> None:
        self.aws, self.api, self.training = aws, aws.client("batch"), Training.of(aws)
        self.name = aws.name("service")
        aws.undo.later(f"service environment {self.name}", self._delete_environment)
        made = self.api.create_service_environment(
            serviceEnvironmentName=self.name,
            serviceEnvironmentType="SAGEMAKER_TRAINING",
            capacityLimits=[{"capacityUnit": "NUM_INSTANCES", "maxCapacity": 1}],
            tags=aws.tag_map,
        )
        aws.wait(lambda: self._environment_status() == "VALID", "the service environment")
        aws.undo.later(f"service queue {self.name}", self._delete_queue)
        self.api.create_job_queue(
            jobQueueName=self.name,
            jobQueueType="SAGEMAKER_TRAINING",
            priority=1,
            serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": made["serviceEnvironmentArn"]}],
            tags=aws.tag_map,
        )
        aws.wait(lambda: self._queue_status() == "VALID", "the service queue")

    @classmethod
    def of(cls, aws: Aws) -> ServiceQueue:
        """Return the queue that claims share."""
        return aws.once("service queue", lambda: cls(aws))

    def _environment_status(self) -> str:
        found = self.api.describe_service_environments(serviceEnvironments=[self.name])["serviceEnvironments"]
        return str(found[0]["status"]) if found else "DELETED"

    def _queue_status(self) -> str:
        found = self.api.describe_job_queues(jobQueues=[self.name])["jobQueues"]
        return str(found[0]["status"]) if found else "DELETED"

    def _delete_environment(self) -> None:
        self.api.update_service_environment(serviceEnvironment=self.name, state="DISABLED")
        self.aws.wait(lambda: self._environment_status() == "VALID", "the service environment")
        self.api.delete_service_environment(serviceEnvironment=self.name)
        self.aws.wait(lambda: self._environment_status() == "DELETED", "the end of the service environment")

    def _delete_queue(self) -> None:
        self.api.update_job_queue(jobQueue=self.name, state="DISABLED")
        self.aws.wait(lambda: self._queue_status() == "VALID", "the service queue")
        self.api.delete_job_queue(jobQueue=self.name)
        self.aws.wait(lambda: self._queue_status() == "DELETED", "the end of the service queue")

    def request(self, program: str = "nothing", **more: Any) -> dict[str, Any]:
        """Return a request of SubmitServiceJob for a training job that runs a program."""
        payload = self.training.request(program)
        payload.pop("Tags")
        name = str(payload["TrainingJobName"])[:31]
        return {
            "jobName": name,
            "jobQueue": self.name,
            "serviceJobType": "SAGEMAKER_TRAINING",
            "serviceRequestPayload": json.dumps({**payload, "TrainingJobName": name}),
            "clientToken": name,
            "tags": self.aws.tag_map,
            **more,
        }

    def submit(self, request: dict[str, Any], api: Any = None) -> str:
        """Submit a service job and return its id; at the end of the run it is terminated if it has not ended."""
        job = str((api or self.api).submit_service_job(**request)["jobId"])
        self.aws.undo.later(f"service job {job}", lambda: self._end(job))
        return job

    def submitted(self, program: str = "nothing") -> tuple[str, dict[str, Any]]:
        """Submit a service job for a training job that runs a program; return its id and its request."""
        request = self.request(program)
        return self.submit(request), request

    def _end(self, job: str) -> None:
        self.api.terminate_service_job(jobId=job, reason="the run is over")
        self.reached(job, *ENDED)

    def reached(self, job: str, *statuses: str) -> dict[str, Any]:
        """Wait until a service job has one of these statuses; return its description."""

        def found() -> dict[str, Any]:
            described = dict(self.api.describe_service_job(jobId=job))
            return described if described["status"] in statuses else {}

        return self.aws.wait(found, f"service job {job} to become {' or '.join(statuses)}")

    def specimen(self) -> dict[str, Any]:
        """Return the description of a service job that has succeeded, which claims share."""
        return self.aws.once("service job", lambda: self.reached(self.submitted()[0], *ENDED))


def training_job_arn(described: Mapping[str, Any]) -> str:
    """Return the ARN of the training job that a service job's last attempt created."""
    return str(described["latestAttempt"]["serviceResourceId"]["value"])


@claim(
    model("batch", "SubmitServiceJobRequest", "This token is used to ensure idempotency of requests"),
    used_by="traingrid/backends/queued/backend.py traingrid/backends/queued/request.py",
    trainings=1,
)
def client_token_makes_one_service_job(aws: Aws) -> None:
    """Repeating SubmitServiceJob with a token creates no second service job: it is refused, or returns the first."""
    queue = ServiceQueue.of(aws)
    first, request = queue.submitted()
    try:
        second = queue.submit(request)
    except queue.api.exceptions.ClientException:
        second = first
    assert second == first
    found = queue.api.list_service_jobs(
        jobQueue=queue.name, filters=[{"name": "JOB_NAME", "values": [request["jobName"]]}]
    )["jobSummaryList"]
    assert [job["jobId"] for job in found] == [first]


@claim(
    model("batch", "SubmitServiceJobRequest", "If this parameter is specified and two submit requests"),
    used_by="traingrid/backends/queued/backend.py",
    trainings=1,
)
def client_token_of_another_request_is_refused(aws: Aws) -> None:
    """SubmitServiceJob refuses a token that was used with a different request."""
    queue = ServiceQueue.of(aws)
    _, request = queue.submitted()
    with refused("ClientException"):
        queue.submit(queue.request() | {"clientToken": request["clientToken"]})


@claim(
    page(_EVENTS, "training-job/AWSBatch"),
    used_by="traingrid/backends/queued/jobs.py traingrid/names.py stacks/queue_permissions.py",
    trainings=1,
)
def batch_names_the_training_job(aws: Aws) -> None:
    """A service job's training job has the name AWSBatch<name>..., and latestAttempt contains its ARN."""
    job = ServiceQueue.of(aws).specimen()
    name = training_job_arn(job).rpartition(":training-job/")[2]
    assert name.startswith(f"AWSBatch{job['jobName'][:20]}"), name
    assert len(name) <= 63
    assert Training.of(aws).describe(name)["TrainingJobStatus"] == "Completed"


@claim(
    model("batch", "SubmitServiceJobRequest", "The tags that you apply to the service job request"),
    used_by="traingrid/backends/queued/backend.py traingrid/job/ownership.py",
    trainings=1,
)
def training_job_has_the_tags_of_the_service_job(aws: Aws) -> None:
    """The training job of a service job has the service job's tags."""
    arn = training_job_arn(ServiceQueue.of(aws).specimen())
    assert aws.tags()[0] in aws.client("sagemaker").list_tags(ResourceArn=arn)["Tags"]


@claim(
    model("batch", "DescribeServiceJobResponse", "The request, in JSON, for the service"),
    used_by="traingrid/backends/queued/jobs.py",
    trainings=1,
)
def service_job_keeps_its_request(aws: Aws) -> None:
    """DescribeServiceJob returns the request for SageMaker exactly as it was submitted."""
    queue = ServiceQueue.of(aws)
    job, request = queue.submitted()
    described = queue.api.describe_service_job(jobId=job)
    assert json.loads(described["serviceRequestPayload"]) == json.loads(request["serviceRequestPayload"])


@claim(
    page(
        "https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html",
        "Maximum job service request payload size",
    ),
    used_by="traingrid/backends/queued/request.py traingrid/backends/queued/backend.py",
)
def payload_of_a_service_job_is_limited(aws: Aws) -> None:
    """SubmitServiceJob refuses a request for SageMaker of more than 10 KiB."""
    queue = ServiceQueue.of(aws)
    request = queue.request()
    payload = json.loads(request["serviceRequestPayload"]) | {"HyperParameters": {str(n): "v" * 2400 for n in range(5)}}
    with refused("ClientException"):
        queue.submit(request | {"serviceRequestPayload": json.dumps(payload)})


@claim(
    model("batch", "TerminateServiceJob", "Terminates a service job in a job queue"),
    used_by="traingrid/backends/queued/jobs.py",
    trainings=1,
)
def terminated_service_job_stops_its_training_job(aws: Aws) -> None:
    """TerminateServiceJob stops the training job, and the service job becomes FAILED with isTerminated."""
    queue = ServiceQueue.of(aws)
    job, _ = queue.submitted("exits_on_sigterm")
    arn = training_job_arn(queue.reached(job, "RUNNING"))
    queue.api.terminate_service_job(jobId=job, reason="the claim")
    assert queue.reached(job, *ENDED)["isTerminated"]
    assert queue.training.ended(arn.rpartition("/")[2])["TrainingJobStatus"] == "Stopped"


@claim(
    page(_EVENTS, "existing service job changes states, an event is created"),
    used_by="lambda/record_job_event.py stacks/event_forwarding.py",
    trainings=1,
)
def service_job_changes_are_events(aws: Aws) -> None:
    """A service job sends events of aws.batch when it changes; their detail has jobName, jobId and status."""
    queue = ServiceQueue.of(aws)
    pattern = {"source": ["aws.batch"], "detail-type": ["Batch Service Job State Change"]}
    box = inbox(aws, {**pattern, "detail": {"jobName": [{"prefix": f"tgc-{aws.run}-"}]}})
    job, request = queue.submitted()
    event = box.event(lambda event: event["detail"]["status"] == "SUCCEEDED" and event["detail"]["jobId"] == job)
    assert event["detail"]["jobName"] == request["jobName"]
    assert event["region"] == aws.home


@documented(
    page(
        "https://docs.aws.amazon.com/batch/latest/userguide/service-job-retries.html",
        "capacity-based retries don't consume your configured retry attempts",
    ),
    model("batch", "LatestServiceJobAttempt", "back to RUNNABLE state when they encounter capacity constraints"),
    used_by="traingrid/backends/queued/backend.py docs/queues.md",
    why="a lack of capacity cannot be provoked",
)
def missing_capacity_is_no_attempt_of_a_service_job(aws: Aws) -> None:
    """While SageMaker has no capacity, a service job waits, which does not count as an attempt."""
