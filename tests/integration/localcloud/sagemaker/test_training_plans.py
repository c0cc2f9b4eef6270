"""Training plans in localcloud: they are listed and described, and jobs use them as AWS documents."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.faults.plan import FaultPlan, Stub
from localcloud.sagemaker.backend import TrainingBackend
from localcloud.sagemaker.initial_content import create_image, create_object
from localcloud.sagemaker.training_plans import PAGE, Plan
from localcloud.server.local_cloud import LocalCloud
from localcloud.server.page_client import ask
from tests.integration.localcloud.compute import ACCOUNT, role, wait_until

Client = Callable[..., Any]
KIND = "ml.p5.48xlarge"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-training:2.14-gpu"


@pytest.fixture(autouse=True)
def stubs(cloud: LocalCloud) -> Iterator[None]:
    """Jobs are stubs that train until they are stopped."""
    cloud.faults.set(FaultPlan(stubs=(Stub(seconds=60),)))
    yield
    cloud.faults.set(FaultPlan())


def plan(name: str, *, starts: float = -1, ends: float = 1, **others: Any) -> str:
    """Add a plan whose start and end are numbers of hours from now, and return its ARN."""
    now = datetime.now(UTC)
    hours = {"starts_at": now + timedelta(hours=starts), "ends_at": now + timedelta(hours=ends)}
    made = Plan(**{"region": "us-east-1", "name": name, "instance_type": KIND, "instances": 2, **hours, **others})
    TrainingBackend.plans.put(made)
    return made.arn


def create(client: Client, name: str, arn: str, *, hosts: int = 1, kind: str = KIND, **others: Any) -> None:
    create_image(ACCOUNT, IMAGE)
    create_object(ACCOUNT, "us-east-1", "campaigns", "a/train/part-0")
    role(client("iam"), "trains", "sagemaker.amazonaws.com")
    resources = {"InstanceType": kind, "InstanceCount": hosts, "VolumeSizeInGB": 1, "TrainingPlanArn": arn}
    wait = {"MaxWaitTimeInSeconds": 60} if others.get("EnableManagedSpotTraining") else {}
    client("sagemaker").create_training_job(
        TrainingJobName=name,
        AlgorithmSpecification={"TrainingInputMode": "File", "TrainingImage": IMAGE},
        RoleArn=f"arn:aws:iam::{ACCOUNT}:role/trains",
        OutputDataConfig={"S3OutputPath": "s3://campaigns/out"},
        ResourceConfig=resources,
        StoppingCondition={"MaxRuntimeInSeconds": 60, **wait},
        **others,
    )


def status(client: Client, name: str) -> tuple[str, str]:
    described = client("sagemaker").describe_training_job(TrainingJobName=name)
    return described["TrainingJobStatus"], described["SecondaryStatus"]


def test_plans_are_listed_by_status_and_described_by_name(client: Client) -> None:
    plan("now"), plan("later", starts=1, ends=2), plan("over", starts=-2, ends=-1), plan("bad", failed=True)
    plan("elsewhere", region="us-west-2")
    sagemaker = client("sagemaker")
    pages = sagemaker.get_paginator("list_training_plans").paginate(MaxResults=1)
    listed = [one for page in pages for one in page["TrainingPlanSummaries"]]
    statuses = {one["TrainingPlanName"]: one["Status"] for one in listed}
    assert statuses == {"now": "Active", "later": "Scheduled", "over": "Expired", "bad": "Failed"}
    active = sagemaker.list_training_plans(Filters=[{"Name": "Status", "Value": "Active"}])["TrainingPlanSummaries"]
    assert [one["TrainingPlanName"] for one in active] == ["now"]
    soon = sagemaker.list_training_plans(StartTimeAfter=datetime.now(UTC))["TrainingPlanSummaries"]
    assert [one["TrainingPlanName"] for one in soon] == ["later"]
    described = sagemaker.describe_training_plan(TrainingPlanName="now")
    assert described["ReservedCapacitySummaries"][0]["InstanceType"] == KIND
    assert (described["TotalInstanceCount"], described["AvailableInstanceCount"]) == (2, 2)
    with pytest.raises(sagemaker.exceptions.ResourceNotFound):
        sagemaker.describe_training_plan(TrainingPlanName="elsewhere")


@pytest.mark.parametrize(
    ("changed", "asked", "message"),
    [
        ({"starts": -2, "ends": -1}, {}, "status is Expired"),
        ({"failed": True}, {}, "status is Failed"),
        ({"target": "hyperpod-cluster"}, {}, "target resource is hyperpod-cluster"),
        ({}, {"kind": "ml.p4d.24xlarge"}, "instance type is ml.p5.48xlarge"),
        ({}, {"EnableManagedSpotTraining": True}, "EnableManagedSpotTraining is not supported"),
        ({}, {"hosts": 3}, "It has 2 instances"),
        ({"region": "us-west-2"}, {}, "does not exist in this account and Region"),
    ],
)
def test_a_job_that_cannot_use_its_plan_is_refused(
    client: Client, changed: dict[str, Any], asked: dict[str, Any], message: str
) -> None:
    arn = plan("refusing", **changed)
    with pytest.raises(ClientError, match=message):
        create(client, "refused", arn, **asked)


def test_an_unknown_plan_is_refused(client: Client) -> None:
    with pytest.raises(ClientError, match="does not exist"):
        create(client, "unknown", f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:training-plan/nowhere")


def test_jobs_use_the_instances_of_their_plan_and_others_wait(client: Client) -> None:
    arn = plan("shared")
    create(client, "first", arn, hosts=2)
    wait_until(lambda: status(client, "first") == ("InProgress", "Training"))
    described = client("sagemaker").describe_training_plan(TrainingPlanName="shared")
    assert (described["AvailableInstanceCount"], described["InUseInstanceCount"]) == (0, 2)
    create(client, "second", arn)
    assert status(client, "second") == ("InProgress", "Pending")
    client("sagemaker").stop_training_job(TrainingJobName="first")
    wait_until(lambda: status(client, "second") == ("InProgress", "Training"))
    client("sagemaker").stop_training_job(TrainingJobName="second")
    wait_until(lambda: status(client, "second")[0] == "Stopped")


def test_a_job_waits_for_the_start_of_its_plan(client: Client) -> None:
    arn = plan("starting", starts=1, ends=2)
    create(client, "early", arn)
    assert status(client, "early") == ("InProgress", "Pending")
    plan("starting")
    wait_until(lambda: status(client, "early") == ("InProgress", "Training"))


def test_a_waiting_job_fails_when_its_plan_ends_and_can_be_stopped(client: Client) -> None:
    arn = plan("ending", starts=1, ends=2)
    create(client, "late", arn)
    plan("ending", starts=-2, ends=-1)
    wait_until(lambda: status(client, "late")[0] == "Failed")
    reason = client("sagemaker").describe_training_job(TrainingJobName="late")["FailureReason"]
    assert reason.startswith("InsufficientCapacityError")
    create(client, "stopped", plan("waiting", starts=1, ends=2))
    client("sagemaker").stop_training_job(TrainingJobName="stopped")
    wait_until(lambda: status(client, "stopped")[0] == "Stopped")


def test_a_user_adds_and_removes_plans_by_the_page(cloud: LocalCloud, client: Client) -> None:
    asked: dict[str, Any] = {"region": "eu-west-1", "name": "paged", "instance_type": KIND, "instances": 4}
    asked |= {"starts_at": "2026-11-23T00:00:00Z", "ends_at": "2999-01-01T00:00:00Z"}
    answer = json.loads(ask(cloud.endpoint_url, cloud.secret, PAGE, json.dumps(asked).encode()))
    assert answer["TrainingPlanArn"].endswith(":training-plan/paged")
    sagemaker = client("sagemaker", "eu-west-1")
    assert sagemaker.describe_training_plan(TrainingPlanName="paged")["TotalInstanceCount"] == 4
    ask(cloud.endpoint_url, cloud.secret, PAGE, json.dumps({**asked, "instances": 0}).encode())
    assert sagemaker.list_training_plans()["TrainingPlanSummaries"] == []
    with pytest.raises(OSError, match="400"):
        ask(cloud.endpoint_url, cloud.secret, PAGE, b'{"region": "eu-west-1"}')
