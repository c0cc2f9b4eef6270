import json
import sys
import time
import urllib.error
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, HTTPClientError

from localcloud.faults.events import FaultyWay
from localcloud.faults.faults import CallPlace, Faults
from localcloud.faults.plan import CallFault, Capacity, CapacityQuota, EventFault, FaultPlan, Lag, Stub
from localcloud.processes.process_group import ProcessGroup, group_of
from localcloud.server.local_cloud import LocalCloud
from localcloud.server.page_client import ask
from tests.integration.localcloud.compute import image, role, runs, wait_until

Client = Callable[..., Any]
ONCE = Config(retries={"total_max_attempts": 1})
_numbers = count()


@pytest.fixture(autouse=True)
def no_faults_afterwards(cloud: LocalCloud) -> Iterator[None]:
    yield
    cloud.faults.set(FaultPlan())


@pytest.fixture(scope="module")
def queues(cloud: LocalCloud, client: Client) -> Any:
    """Return an SQS client that does not retry, so that its calls are easy to count."""
    return boto3.client(
        "sqs",
        region_name="us-east-1",
        endpoint_url=cloud.endpoint_url,
        aws_access_key_id="localcloud",
        aws_secret_access_key=cloud.secret,
        config=ONCE,
    )


def accepted(cloud: LocalCloud, action: str, name: str) -> int:
    return sum(name in json.dumps(entry["parameters"]) for entry in cloud.record.entries(action=action))


def create(queues: Any) -> tuple[str, Exception | None]:
    name = f"queue-{next(_numbers)}"
    try:
        queues.create_queue(QueueName=name)
    except (ClientError, HTTPClientError) as error:
        return name, error
    return name, None


def strike(cloud: LocalCloud, **fault: Any) -> None:
    cloud.faults.set(FaultPlan(calls=(CallFault(service="sqs", **fault),)))


def test_a_call_with_a_lost_reply_takes_effect(cloud: LocalCloud, queues: Any) -> None:
    strike(cloud, effect="lose_reply", action="CreateQueue", times=1)
    name, error = create(queues)
    assert isinstance(error, ConnectionClosedError)
    assert accepted(cloud, "CreateQueue", name) == 1
    assert create(queues)[1] is None
    assert cloud.faults.struck() == {"calls/0": 1}


@pytest.mark.parametrize(("effect", "taken"), [("error_before", 0), ("error_after", 1)])
def test_an_internal_error_occurs_before_or_after_the_effect(
    cloud: LocalCloud, queues: Any, effect: str, taken: int
) -> None:
    strike(cloud, effect=effect, action="CreateQueue", times=1)
    name, error = create(queues)
    assert isinstance(error, ClientError)
    assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert accepted(cloud, "CreateQueue", name) == taken


@pytest.mark.parametrize(
    ("service", "operation", "code"),
    [
        ("sagemaker", "list_training_jobs", "ThrottlingException"),
        ("dynamodb", "list_tables", "ThrottlingException"),
        ("s3", "list_buckets", "SlowDown"),
        ("batch", "describe_job_queues", "TooManyRequestsException"),
        ("sts", "get_caller_identity", "ThrottlingException"),
    ],
)
def test_a_throttled_call_returns_the_services_own_error(
    cloud: LocalCloud, client: Client, service: str, operation: str, code: str
) -> None:
    cloud.faults.set(FaultPlan(calls=(CallFault(effect="throttle", service=service),)))
    throttled = client(service)
    throttled.meta.events.register("needs-retry.*", lambda **_: None)
    throttled.meta.events.unregister(f"needs-retry.{throttled.meta.service_model.service_id.hyphenize()}")
    with pytest.raises(ClientError) as raised:
        getattr(throttled, operation)()
    assert raised.value.response["Error"]["Code"] == code


@pytest.mark.parametrize(
    ("service", "operation", "code"),
    [
        ("s3", "list_buckets", "ExpiredToken"),
        ("sagemaker", "list_training_jobs", "ExpiredTokenException"),
        ("dynamodb", "list_tables", "ExpiredTokenException"),
    ],
)
def test_a_call_with_expired_credentials_returns_the_services_own_error(
    cloud: LocalCloud, client: Client, service: str, operation: str, code: str
) -> None:
    cloud.faults.set(FaultPlan(calls=(CallFault(effect="expire", service=service),)))
    with pytest.raises(ClientError) as raised:
        getattr(client(service), operation)()
    assert raised.value.response["Error"]["Code"] == code


def test_a_fraction_of_calls_is_throttled_in_the_named_region(cloud: LocalCloud, client: Client) -> None:
    plan = FaultPlan(seed=3, calls=(CallFault(effect="throttle", service="sagemaker", region="eu-west-1", share=0.5),))
    cloud.faults.set(plan)
    client("sagemaker", "us-east-1").list_training_jobs()
    assert not any(cloud.faults.of_call(CallPlace("sagemaker", "X", "us-east-1", "")) for _ in range(200))
    assert cloud.faults.struck().get("calls/0", 0) == 0
    drawn = [bool(cloud.faults.of_call(CallPlace("sagemaker", "X", "eu-west-1", ""))) for _ in range(200)]
    assert 70 < sum(drawn) < 130
    cloud.faults.set(plan)
    assert [bool(cloud.faults.of_call(CallPlace("sagemaker", "X", "eu-west-1", ""))) for _ in range(200)] == drawn


def test_a_delay_applies_in_addition_to_another_fault(cloud: LocalCloud, queues: Any) -> None:
    delay = CallFault(effect="delay", service="sqs", seconds=0.3)
    cloud.faults.set(FaultPlan(calls=(delay, CallFault(effect="error_before", service="sqs"))))
    started = time.monotonic()
    assert create(queues)[1] is not None
    assert time.monotonic() - started >= 0.3


CALLS_TWICE = """
import boto3, os
sqs = boto3.client("sqs")
for name in ("first", "second"):
    sqs.create_queue(QueueName=os.environ["PREFIX"] + name)
"""


@pytest.mark.parametrize(("effect", "taken"), [("kill_before", 1), ("kill_after", 2)])
def test_the_process_of_the_nth_call_is_killed(cloud: LocalCloud, client: Client, effect: str, taken: int) -> None:
    prefix, trusted = f"killed-{next(_numbers)}-", role(client("iam"), "caller", "lambda.amazonaws.com")
    strike(cloud, effect=effect, action="CreateQueue", caller="process/*", nth=2)
    environment = cloud.environment_for("us-east-1", trusted, {"PREFIX": prefix})
    group = ProcessGroup(
        (sys.executable, "-c", CALLS_TWICE),
        environment=environment,
        working_directory="/",
        on_line=lambda _: None,
        label="process/of this test",
    )
    assert group_of(environment["AWS_ACCESS_KEY_ID"]) is group
    assert group.wait(120) == 137
    assert group.lost
    assert not runs(group.pid)
    assert accepted(cloud, "CreateQueue", prefix) == taken


def test_a_frozen_process_reads_the_response_when_it_is_thawed(cloud: LocalCloud, client: Client) -> None:
    prefix, trusted = f"frozen-{next(_numbers)}-", role(client("iam"), "caller", "lambda.amazonaws.com")
    strike(cloud, effect="freeze", action="CreateQueue", caller="process/*", nth=1)
    group = ProcessGroup(
        (sys.executable, "-c", CALLS_TWICE),
        environment=cloud.environment_for("us-east-1", trusted, {"PREFIX": prefix}),
        working_directory="/",
        on_line=lambda _: None,
        label="process/of this test",
    )
    wait_until(lambda: accepted(cloud, "CreateQueue", prefix))
    assert group.wait(1.0) is None
    assert accepted(cloud, "CreateQueue", prefix) == 1
    group.thaw()
    assert group.wait(120) == 0
    assert accepted(cloud, "CreateQueue", prefix) == 2


def test_an_unknown_field_of_a_plan_is_refused_over_http(cloud: LocalCloud) -> None:
    def post(body: str) -> Any:
        return json.loads(ask(cloud.endpoint_url, cloud.secret, "/localcloud/faults", body.encode()))

    assert post('{"calls": [{"effect": "throttle", "share": 0.25}]}')["plan"]["calls"][0]["share"] == 0.25
    with pytest.raises(urllib.error.HTTPError, match="BAD REQUEST"):
        post('{"calls": [{"effect": "throtle"}]}')
    assert post("{}") == {"plan": {}, "struck": {}}


def sent(plan: EventFault, events: int) -> list[int]:
    faults = Faults()
    faults.set(FaultPlan(events=(plan,)))
    way, arrived = FaultyWay(faults), list[int]()
    for number in range(events):
        way.send("aws.sagemaker", partial(arrived.append, number))
    if plan.delay or plan.reorder:
        time.sleep(plan.seconds + 0.2)
    way.stop()
    return arrived


def test_fractions_of_events_are_dropped_duplicated_delayed_and_reordered() -> None:
    assert sent(EventFault(drop=1), 20) == []
    assert 5 < len(sent(EventFault(drop=0.5), 20)) < 15
    assert Counter(sent(EventFault(duplicate=1, copies=3), 5)) == dict.fromkeys(range(5), 3)
    assert sent(EventFault(source="aws.batch", drop=1), 3) == [0, 1, 2]
    late = sent(EventFault(delay=1, seconds=0.2), 20)
    assert sorted(late) == list(range(20)) != late
    swapped = sent(EventFault(reorder=0.5, seconds=0.2), 40)
    assert sorted(swapped) == list(range(40)) != swapped


@pytest.fixture(scope="module")
def launch(client: Client) -> Callable[..., str]:
    """Return a function that creates an endless training job and returns its name."""
    uri = image(client("ecr"), "forever", "import time; time.sleep(60)")
    trusted = role(client("iam"), "training", "sagemaker.amazonaws.com")

    def launch(instances: int = 1) -> str:
        name = f"job-{next(_numbers)}"
        client("sagemaker").create_training_job(
            TrainingJobName=name,
            AlgorithmSpecification={"TrainingImage": uri, "TrainingInputMode": "File"},
            OutputDataConfig={"S3OutputPath": "s3://out/"},
            ResourceConfig={"InstanceType": "ml.p3.16xlarge", "InstanceCount": instances, "VolumeSizeInGB": 1},
            StoppingCondition={"MaxRuntimeInSeconds": 60},
            RoleArn=trusted,
        )
        return name

    return launch


def ended(client: Client, name: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        seen: dict[str, Any] = client("sagemaker").describe_training_job(TrainingJobName=name)
        return seen if seen["TrainingJobStatus"] in ("Completed", "Failed", "Stopped") else None

    found = wait_until(look)
    assert found is not None
    return found


def test_jobs_without_capacity_fail_as_often_as_planned(
    cloud: LocalCloud, client: Client, launch: Callable[..., str]
) -> None:
    cloud.faults.set(FaultPlan(capacity=(Capacity(region="us-east-1", seconds=0.1, times=1),), stubs=(Stub(),)))
    first = ended(client, launch())
    assert (first["TrainingJobStatus"], first["FailureReason"][:15]) == ("Failed", "CapacityError: ")
    assert ended(client, launch())["TrainingJobStatus"] == "Completed"


def test_a_quota_counts_the_instances_of_running_jobs(
    cloud: LocalCloud, client: Client, launch: Callable[..., str]
) -> None:
    quota = CapacityQuota(region="us-east-1", instance_type="ml.p3.*", instances=3)
    cloud.faults.set(FaultPlan(quotas=(quota,), stubs=(Stub(seconds=30),)))
    running = launch(2)
    with pytest.raises(ClientError) as raised:
        launch(2)
    error = raised.value.response["Error"]
    assert error["Code"] == "ResourceLimitExceeded"
    assert "is 3 Instances, with current utilization of 2 Instances and a request delta of 2" in error["Message"]
    client("sagemaker").stop_training_job(TrainingJobName=running)
    assert ended(client, running)["TrainingJobStatus"] == "Stopped"
    client("sagemaker").stop_training_job(TrainingJobName=launch(2))


def test_a_quota_is_raised_after_the_planned_number_of_refusals(
    cloud: LocalCloud, client: Client, launch: Callable[..., str]
) -> None:
    cloud.faults.set(FaultPlan(quotas=(CapacityQuota(region="us-east-1", instances=0, times=2),), stubs=(Stub(),)))
    for _ in range(2):
        with pytest.raises(ClientError, match="is 0 Instances"):
            launch()
    assert ended(client, launch())["TrainingJobStatus"] == "Completed"
    assert cloud.faults.struck()["quotas/0"] == 2


def test_a_new_job_is_invisible_at_first_but_reserves_its_name(
    cloud: LocalCloud, client: Client, launch: Callable[..., str]
) -> None:
    cloud.faults.set(FaultPlan(lags=(Lag(seconds=1.5),), stubs=(Stub(),)))
    name, sagemaker = launch(), client("sagemaker")
    with pytest.raises(ClientError, match=r"Requested resource not found\."):
        sagemaker.describe_training_job(TrainingJobName=name)
    assert sagemaker.list_training_jobs(NameContains=name)["TrainingJobSummaries"] == []
    time.sleep(1.5)
    assert ended(client, name)["TrainingJobStatus"] == "Completed"
    assert len(sagemaker.list_training_jobs(NameContains=name)["TrainingJobSummaries"]) == 1


def test_a_stub_ends_as_planned_without_a_process(
    cloud: LocalCloud, client: Client, launch: Callable[..., str]
) -> None:
    cloud.faults.set(FaultPlan(stubs=(Stub(seconds=0.1, outcome="Failed", reason="AlgorithmError: no, exit code: 3"),)))
    failed = ended(client, launch())
    assert failed["FailureReason"] == "AlgorithmError: no, exit code: 3"
    assert failed["BillableTimeInSeconds"] == 1


def test_a_stub_stops_after_its_stop_seconds(cloud: LocalCloud, client: Client, launch: Callable[..., str]) -> None:
    cloud.faults.set(FaultPlan(stubs=(Stub(seconds=60, stop_seconds=0.5),)))
    name = launch()
    wait_until(lambda: client("sagemaker").describe_training_job(TrainingJobName=name)["SecondaryStatus"] == "Training")
    begun = time.monotonic()
    client("sagemaker").stop_training_job(TrainingJobName=name)
    assert ended(client, name)["TrainingJobStatus"] == "Stopped"
    assert time.monotonic() - begun >= 0.5
