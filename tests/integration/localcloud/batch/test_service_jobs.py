"""Service jobs of localcloud's AWS Batch: training jobs that wait for capacity of their queue or of SageMaker."""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.faults.plan import CapacityQuota, FaultPlan
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import wait_until
from tests.integration.localcloud.training_side import SageMaker

_numbers = itertools.count()
WAITS = "import time; time.sleep(60)"


class Queue:
    """A queue of service jobs, with SageMaker."""

    def __init__(
        self, client: Callable[..., Any], sagemaker: SageMaker, limits: dict[str, int], **shares: float
    ) -> None:
        self.api, self.sagemaker, self.name = client("batch", sagemaker.region), sagemaker, f"queue-{next(_numbers)}"
        self.environment = self.api.create_service_environment(
            serviceEnvironmentName=self.name,
            serviceEnvironmentType="SAGEMAKER_TRAINING",
            capacityLimits=[{"capacityUnit": unit, "maxCapacity": most} for unit, most in limits.items()],
        )["serviceEnvironmentArn"]
        fair = [{"shareIdentifier": share, "weightFactor": factor} for share, factor in shares.items()]
        policy = {"schedulingPolicyArn": self._policy(fair)} if fair else {}
        self.arn = self.api.create_job_queue(
            jobQueueName=self.name,
            jobQueueType="SAGEMAKER_TRAINING",
            priority=1,
            serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": self.environment}],
            **policy,
        )["jobQueueArn"]

    def _policy(self, fair: list[dict[str, Any]]) -> str:
        made = self.api.create_scheduling_policy(name=self.name, fairsharePolicy={"shareDistribution": fair})
        return str(made["arn"])

    def request(self, code: str = "pass", hosts: int = 1, **more: Any) -> dict[str, Any]:
        name = f"traingrid-0123abcd-{next(_numbers)}-1"
        payload = self.sagemaker.request(code, hosts) | {"TrainingJobName": name}
        asked = {"jobName": name, "jobQueue": self.name, "serviceJobType": "SAGEMAKER_TRAINING"}
        return {**asked, "serviceRequestPayload": json.dumps(payload), "clientToken": name, **more}

    def submit(self, code: str = "pass", hosts: int = 1, **more: Any) -> str:
        return str(self.api.submit_service_job(**self.request(code, hosts, **more))["jobId"])

    def job(self, job: str) -> dict[str, Any]:
        return dict(self.api.describe_service_job(jobId=job))

    def reached(self, job: str, *statuses: str) -> dict[str, Any]:
        return wait_until(lambda: ((found := self.job(job))["status"] in statuses and found) or {})

    def training_jobs(self) -> list[str]:
        listed = self.sagemaker.api.list_training_jobs(NameContains="AWSBatchtraingrid")["TrainingJobSummaries"]
        return [job["TrainingJobName"] for job in listed]


@pytest.fixture
def make(client: Callable[..., Any], sagemaker: SageMaker) -> Iterator[Callable[..., Queue]]:
    made: list[Queue] = []

    def make(limits: dict[str, int] | None = None, **shares: float) -> Queue:
        made.append(Queue(client, sagemaker, limits or {"NUM_INSTANCES": 4}, **shares))
        return made[-1]

    yield make
    for queue in made:
        for status in ("RUNNABLE", "SCHEDULED", "STARTING", "RUNNING"):
            for job in queue.api.list_service_jobs(jobQueue=queue.name, jobStatus=status)["jobSummaryList"]:
                queue.api.terminate_service_job(jobId=job["jobId"], reason="the test is over")


def test_a_service_job_creates_a_training_job_with_batchs_name_and_its_tags(make: Callable[..., Queue]) -> None:
    queue = make()
    job = queue.submit(tags={"traingrid:grid": "traingrid"})
    ended = queue.reached(job, "SUCCEEDED", "FAILED")
    assert ended["status"] == "SUCCEEDED", ended
    arn = ended["latestAttempt"]["serviceResourceId"]["value"]
    trained = queue.sagemaker.job(arn.rpartition("/")[2])
    assert trained["TrainingJobStatus"] == "Completed"
    assert trained["TrainingJobName"].startswith("AWSBatchtraingrid-0123abcd")
    tags = queue.sagemaker.api.list_tags(ResourceArn=arn)["Tags"]
    assert {"Key": "traingrid:grid", "Value": "traingrid"} in tags
    assert [attempt["statusReason"] for attempt in ended["attempts"]] == [
        "Received status from SageMaker: Training job completed"
    ]


def test_a_client_token_is_idempotent_and_refuses_other_requests(make: Callable[..., Queue]) -> None:
    queue = make()
    request, before = queue.request(), len(queue.training_jobs())
    first, again = queue.api.submit_service_job(**request), queue.api.submit_service_job(**request)
    assert first["jobId"] == again["jobId"]
    with pytest.raises(ClientError, match="clientToken"):
        queue.api.submit_service_job(**{**request, "schedulingPriority": 3})
    queue.reached(first["jobId"], "SUCCEEDED")
    assert len(queue.training_jobs()) == before + 1


def test_jobs_without_capacity_wait_and_never_train_if_terminated(make: Callable[..., Queue]) -> None:
    queue = make({"NUM_INSTANCES": 2})
    first, second = queue.submit(WAITS, hosts=2), queue.submit(hosts=1)
    queue.reached(first, "RUNNING")
    assert queue.job(second)["status"] == "RUNNABLE"
    before = len(queue.training_jobs())
    queue.api.terminate_service_job(jobId=second, reason="not wanted")
    assert (queue.job(second)["status"], queue.job(second)["statusReason"]) == ("FAILED", "not wanted")
    queue.api.terminate_service_job(jobId=first, reason="not wanted either")
    ended = queue.reached(first, "FAILED")
    assert (ended["isTerminated"], ended["statusReason"]) == (True, "not wanted either")
    name = ended["latestAttempt"]["serviceResourceId"]["value"].rpartition("/")[2]
    assert queue.sagemaker.job(name)["TrainingJobStatus"] == "Stopped"
    assert len(queue.training_jobs()) == before


def test_waiting_for_a_sagemaker_quota_does_not_count_as_an_attempt(
    make: Callable[..., Queue], cloud: LocalCloud
) -> None:
    queue = make()
    cloud.faults.set(FaultPlan(quotas=(CapacityQuota(instance_type="ml.c5.xlarge", instances=0),)))
    job = queue.submit()
    waiting = wait_until(lambda: ((found := queue.job(job)).get("statusReason") and found) or {})
    assert "ResourceLimitExceeded" in waiting["statusReason"]
    cloud.faults.set(FaultPlan())
    assert len(queue.reached(job, "SUCCEEDED", "FAILED")["attempts"]) == 1


def test_shares_are_served_by_weight_and_their_jobs_by_priority(make: Callable[..., Queue]) -> None:
    queue = make({"NUM_INSTANCES": 1}, research=1.0, production=0.25)
    holds = queue.submit(WAITS, shareIdentifier="research")
    queue.reached(holds, "RUNNING")
    late, urgent = (queue.submit(shareIdentifier="research", schedulingPriority=number) for number in (0, 9))
    other = queue.submit(shareIdentifier="production")
    queue.api.terminate_service_job(jobId=holds, reason="make room")
    ends = {name: queue.reached(job, "SUCCEEDED")["scheduledAt"] for name, job in
            (("late", late), ("urgent", urgent), ("other", other))}  # fmt: skip
    assert ends["urgent"] < ends["late"]
    with pytest.raises(ClientError, match="shareIdentifier must be given"):
        queue.submit()


def test_quota_shares_are_counted_separately_by_instance_type(make: Callable[..., Queue]) -> None:
    queue = make({"ml.c5.xlarge": 2})
    for share in ("research", "production"):
        queue.api.create_quota_share(
            quotaShareName=share,
            jobQueue=queue.arn,
            capacityLimits=[{"capacityUnit": "ml.c5.xlarge", "maxCapacity": 1}],
            resourceSharingConfiguration={"strategy": "RESERVE"},
            preemptionConfiguration={"inSharePreemption": "DISABLED"},
        )
    holds = queue.submit(WAITS, quotaShareName="research")
    queue.reached(holds, "RUNNING")
    waits, other = queue.submit(quotaShareName="research"), queue.submit(quotaShareName="production")
    queue.reached(other, "SUCCEEDED")
    assert queue.job(waits)["status"] == "RUNNABLE"
    with pytest.raises(ClientError, match="no quota share missing"):
        queue.submit(quotaShareName="missing")


def test_too_long_payloads_are_refused_and_invalid_ones_fail_when_scheduled(
    make: Callable[..., Queue],
) -> None:
    queue = make()
    with pytest.raises(ClientError, match="the maximum is 10240"):
        queue.submit(serviceRequestPayload=json.dumps({"x": "y" * 10_240}))
    wrong = queue.submit(serviceRequestPayload=json.dumps({"TrainingJobName": "x"}))
    ended = queue.reached(wrong, "FAILED")
    assert ended["statusReason"].startswith("Received status from SageMaker: ValidationException")
    assert "latestAttempt" not in ended


def test_service_jobs_are_listed_by_name_or_by_status(make: Callable[..., Queue]) -> None:
    queue = make()
    done, runs = queue.submit(), queue.submit(WAITS)
    queue.reached(done, "SUCCEEDED")
    name = queue.reached(runs, "RUNNING")["jobName"]

    def listed(**more: Any) -> list[str]:
        return [job["jobId"] for job in queue.api.list_service_jobs(jobQueue=queue.name, **more)["jobSummaryList"]]

    assert listed() == [runs]
    assert listed(jobStatus="SUCCEEDED") == [done]
    assert listed(filters=[{"name": "JOB_NAME", "values": [name]}]) == [runs]
    assert set(listed(filters=[{"name": "JOB_NAME", "values": ["traingrid-0123abcd-*"]}])) == {done, runs}
