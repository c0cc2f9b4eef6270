"""Account profiles: quotas, requests for increases, rates, and service-linked roles."""

import io
import json
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from localcloud.batch import scheduler
from localcloud.credentials.environments import user_environment
from localcloud.faults.plan import FaultPlan, Stub
from localcloud.limits import linked_roles
from localcloud.limits.account_limits import RequestRefusedError
from localcloud.limits.instance_quotas import training_quotas
from localcloud.limits.quota import BUILDS, FARGATE_VCPUS, LAMBDA_CONCURRENCY, QUOTAS, VPCS
from localcloud.limits.rates import FARGATE_LAUNCHES, RATES
from localcloud.limits.throttle import TokenBuckets
from localcloud.server import lifecycle
from localcloud.server.local_cloud import LocalCloud
from localcloud.server.page_client import ask
from localcloud.settings import Settings
from tests.integration.localcloud.compute import ACCOUNT, EXECUTION_ROLE, image, role, wait_until
from traingrid.cli.main import cli
from traingrid.errors import TraingridError

REGION = "us-east-1"
_ONCE = Config(retries={"total_max_attempts": 1})


@pytest.fixture(scope="module")
def young(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("young"), account_profile="young", lambda_retry_delays_seconds=(0.2, 0.2)
    )
    with LocalCloud(settings) as running, pytest.MonkeyPatch.context() as patch:
        for name, value in user_environment(running.endpoint_url).items():
            patch.setenv(name, value)
        yield running


@pytest.fixture(autouse=True)
def as_new(young: LocalCloud) -> Iterator[None]:
    yield
    for quota in QUOTAS:
        young.limits.set(ACCOUNT, quota, quota.young)


def client(service: str, region: str = REGION, **options: Any) -> Any:
    return boto3.client(service, region_name=region, **options)  # type: ignore[call-overload]  # the stubs accept only literal names


def value(service: str, code: str) -> float:
    return float(client("service-quotas").get_service_quota(ServiceCode=service, QuotaCode=code)["Quota"]["Value"])


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def refusals(call: Callable[[], object], times: int) -> set[str]:
    """Return the error codes of a number of concurrent calls."""

    def one(_: int) -> str:
        try:
            call()
        except ClientError as refused:
            return str(refused.response["Error"]["Code"])
        return ""

    with ThreadPoolExecutor(8) as pool:
        return set(pool.map(one, range(times))) - {""}


def test_every_limit_cites_its_source() -> None:
    rates = (*RATES, FARGATE_LAUNCHES)
    sources = [*(source for quota in QUOTAS for source in quota.sources), *(rate.source for rate in rates)]
    assert all(re.match(r"https://(docs\.aws\.amazon\.com|repost\.aws|github\.com)/\S+$", one) for one in sources)


def test_a_young_account_has_the_reported_quotas() -> None:
    assert value("fargate", "L-3032A538") == 6
    assert value("lambda", "L-B99A9384") == 10
    assert value("vpc", "L-F678F1CE") == 5
    assert [value("codebuild", quota.code) for quota in BUILDS.values()] == [1, 1, 0, 0]
    pages = client("service-quotas").get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
    assert {quota["Value"] for page in pages for quota in page["Quotas"]} == {0.0}
    default = client("service-quotas").get_aws_default_service_quota(ServiceCode="lambda", QuotaCode="L-B99A9384")
    assert default["Quota"]["Value"] == 1000
    with pytest.raises(ClientError) as error:
        value("fargate", "L-00000000")
    assert code_of(error) == "NoSuchResourceException"


def test_an_increase_is_pending_until_it_is_granted(young: LocalCloud) -> None:
    quotas = client("service-quotas")
    asked = {"ServiceCode": "fargate", "QuotaCode": "L-3032A538", "DesiredValue": 64.0}
    made = quotas.request_service_quota_increase(**asked)["RequestedQuota"]
    assert (made["Status"], value("fargate", "L-3032A538")) == ("PENDING", 6)
    with pytest.raises(ClientError) as error:
        quotas.request_service_quota_increase(**asked)
    assert code_of(error) == "ResourceAlreadyExistsException"
    answer = json.loads(ask(young.endpoint_url, young.secret, "/localcloud/quotas", b"{}"))
    assert answer["granted"] == [f"{REGION} fargate L-3032A538 {FARGATE_VCPUS.name}: 64"]
    assert value("fargate", "L-3032A538") == 64
    history = quotas.list_requested_service_quota_change_history(ServiceCode="fargate")["RequestedQuotas"]
    assert [(one["Id"], one["Status"]) for one in history] == [(made["Id"], "APPROVED")]
    with pytest.raises(ClientError) as error:
        quotas.request_service_quota_increase(**asked)
    assert code_of(error) == "IllegalArgumentException"


@pytest.mark.parametrize(("region", "most"), [("eu-west-1", 20), ("af-south-1", 2)])
def test_active_requests_are_limited_to_20_and_to_2_in_an_opt_in_region(
    young: LocalCloud, region: str, most: int
) -> None:
    other, quotas = "210987654321", list(training_quotas().values())
    for quota in quotas[:most]:
        young.limits.request(other, region, quota, 1)
    with pytest.raises(RequestRefusedError, match=f"{most} active requests") as refused:
        young.limits.request(other, region, quotas[most], 1)
    assert refused.value.code == "QuotaExceededException"
    young.limits.grant()
    young.limits.request(other, region, quotas[most], 1)
    young.limits.grant()


def test_training_jobs_are_refused_until_the_quota_is_raised(young: LocalCloud) -> None:
    sagemaker = client("sagemaker")
    uri = image(client("ecr"), "trains", "")
    request = {
        "AlgorithmSpecification": {"TrainingImage": uri, "TrainingInputMode": "File"},
        "RoleArn": role(client("iam"), "execution", "sagemaker.amazonaws.com"),
        "OutputDataConfig": {"S3OutputPath": "s3://models/out"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 5},
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
    }
    client("s3").create_bucket(Bucket="models")
    young.faults.set(FaultPlan(stubs=(Stub(seconds=60),)))
    with pytest.raises(ClientError, match=r"'ml.m5.large for training job usage' is 0 Instances") as error:
        sagemaker.create_training_job(TrainingJobName="refused", **request)
    assert code_of(error) == "ResourceLimitExceeded"
    pages = client("service-quotas").get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
    codes = {quota["QuotaName"]: quota["QuotaCode"] for page in pages for quota in page["Quotas"]}
    client("service-quotas").request_service_quota_increase(
        ServiceCode="sagemaker", QuotaCode=codes["ml.m5.large for training job usage"], DesiredValue=1
    )
    young.limits.grant()
    sagemaker.create_training_job(TrainingJobName="granted", **request)
    with pytest.raises(ClientError, match="is 1 Instances, with current utilization of 1 Instances"):
        sagemaker.create_training_job(TrainingJobName="second", **request)
    with pytest.raises(ClientError, match=r"'ml.m5.large for spot training job usage' is 0 Instances"):
        sagemaker.create_training_job(
            TrainingJobName="spot",
            EnableManagedSpotTraining=True,
            **{**request, "StoppingCondition": {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 600}},
        )


def test_a_region_allows_five_vpcs() -> None:
    ec2 = client("ec2", "eu-west-3")
    for number in range(4):  # in addition to the default VPC
        ec2.create_vpc(CidrBlock=f"10.{number}.0.0/16")
    with pytest.raises(ClientError) as error:
        ec2.create_vpc(CidrBlock="10.9.0.0/16")
    assert code_of(error) == "VpcLimitExceeded"
    assert VPCS.young == 5


class TestThrottling:
    def test_token_buckets_of_each_region_refill_at_their_own_rate(self) -> None:
        now = 0.0
        buckets = TokenBuckets(lambda: now)

        def taken(region: str, calls: int = 100) -> int:
            return sum(buckets.take(ACCOUNT, region, "logs", "GetLogEvents") for _ in range(calls))

        assert (taken("us-east-1"), taken("eu-west-1")) == (25, 10)
        assert taken("us-east-1") == 0
        now = 0.5
        assert (taken("us-east-1"), taken("eu-west-1")) == (12, 5)

    def test_fargate_launches_100_tasks_at_once_and_then_20_per_second(self) -> None:
        now = 0.0
        buckets = TokenBuckets(lambda: now)

        def launched(kind: str = "FARGATE") -> int:
            return sum(buckets.take_of(FARGATE_LAUNCHES, ACCOUNT, REGION, kind) for _ in range(200))

        assert (launched(), launched("FARGATE_SPOT"), launched()) == (100, 100, 0)
        now = 1.0
        assert launched() == 20

    @pytest.mark.parametrize(
        ("service", "operation", "code"),
        [
            ("sagemaker", "list_training_jobs", "ThrottlingException"),
            ("batch", "describe_job_queues", "TooManyRequestsException"),
            ("ec2", "describe_vpcs", "RequestLimitExceeded"),
            ("logs", "describe_log_groups", "ThrottlingException"),
        ],
    )
    def test_a_call_beyond_the_rate_returns_the_services_own_error(
        self, monkeypatch: pytest.MonkeyPatch, service: str, operation: str, code: str
    ) -> None:
        call = getattr(client(service, "eu-central-1", config=_ONCE), operation)
        call()
        monkeypatch.setattr(TokenBuckets, "take", lambda *_: False)
        with pytest.raises(ClientError) as error:
            call()
        assert code_of(error) == code

    def test_a_burst_of_calls_is_refused(self) -> None:
        sagemaker = client("sagemaker", "eu-central-1", config=_ONCE)
        assert refusals(sagemaker.list_training_jobs, 40) == {"ThrottlingException"}

    def test_accounts_have_separate_token_buckets(self, young: LocalCloud) -> None:
        keys = user_environment(young.endpoint_url, account_id="210987654321")
        given = {name.lower(): keys[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        other = client("sagemaker", "eu-north-1", config=_ONCE, **given)
        own = client("sagemaker", "eu-north-1", config=_ONCE)
        for one in (own, other, own, other):
            one.list_training_jobs()


class TestServiceLinkedRoles:
    def test_only_an_accounts_first_compute_environment_is_invalid(self) -> None:
        iam, batch, ec2 = client("iam"), client("batch"), client("ec2")
        with pytest.raises(iam.exceptions.NoSuchEntityException):
            iam.get_role(RoleName="AWSServiceRoleForECS")
        resources = {
            "type": "FARGATE",
            "maxvCpus": 64,
            "subnets": [ec2.describe_subnets()["Subnets"][0]["SubnetId"]],
            "securityGroupIds": [ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]],
        }
        for name in ("first", "second"):
            batch.create_compute_environment(
                computeEnvironmentName=name, type="MANAGED", computeResources=resources, serviceRole=""
            )
        found = {
            one["computeEnvironmentName"]: one for one in batch.describe_compute_environments()["computeEnvironments"]
        }
        assert found["first"]["status"] == "INVALID"
        assert "Unable to assume the service linked role" in found["first"]["statusReason"]
        assert found["second"]["status"] == "VALID"
        assert found["second"]["serviceRole"].endswith("aws-service-role/batch.amazonaws.com/AWSServiceRoleForBatch")
        assert iam.get_role(RoleName="AWSServiceRoleForECS")["Role"]["Path"] == "/aws-service-role/ecs.amazonaws.com/"

    def test_only_the_first_stack_with_a_compute_environment_fails(self) -> None:
        iam, cloudformation, ec2 = client("iam"), client("cloudformation"), client("ec2")
        for name in linked_roles.SERVICES:
            iam.delete_role(RoleName=name)
        resources = {
            "Type": "FARGATE",
            "MaxvCpus": 64,
            "Subnets": [ec2.describe_subnets()["Subnets"][0]["SubnetId"]],
            "SecurityGroupIds": [ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]],
        }
        properties = {"Type": "MANAGED", "ComputeResources": resources}
        body = json.dumps({"Resources": {"C": {"Type": "AWS::Batch::ComputeEnvironment", "Properties": properties}}})

        def ended(name: str) -> str:
            cloudformation.create_stack(StackName=name, TemplateBody=body)
            return wait_until(
                lambda: next(
                    (
                        one["StackStatus"]
                        for one in cloudformation.describe_stacks(StackName=name)["Stacks"]
                        if not one["StackStatus"].endswith("_IN_PROGRESS")
                    ),
                    "",
                )
            )

        assert ended("first-try") in ("ROLLBACK_COMPLETE", "CREATE_FAILED")
        events = cloudformation.describe_stack_events(StackName="first-try")["StackEvents"]
        assert any("service linked role" in event.get("ResourceStatusReason", "") for event in events)
        assert ended("second-try") == "CREATE_COMPLETE"

    def test_children_beyond_the_fargate_quota_stay_runnable(self, young: LocalCloud) -> None:
        batch = client("batch")
        batch.create_job_queue(
            jobQueueName="q",
            state="ENABLED",
            priority=1,
            computeEnvironmentOrder=[{"order": 1, "computeEnvironment": "second"}],
        )
        definition = batch.register_job_definition(
            jobDefinitionName="waits",
            type="container",
            platformCapabilities=["FARGATE"],
            containerProperties={
                "executionRoleArn": EXECUTION_ROLE,
                "image": image(client("ecr"), "waits", "import time; time.sleep(60)"),
                "resourceRequirements": [{"type": "VCPU", "value": "4"}, {"type": "MEMORY", "value": "8192"}],
            },
        )["jobDefinitionArn"]
        array = batch.submit_job(jobName="a", jobQueue="q", jobDefinition=definition, arrayProperties={"size": 4})[
            "jobId"
        ]

        def counted() -> dict[str, int]:
            summary = batch.describe_jobs(jobs=[array])["jobs"][0]["arrayProperties"]["statusSummary"]
            return {status: count for status, count in summary.items() if count}

        wait_until(lambda: counted() == {"RUNNING": 1, "RUNNABLE": 3})
        young.limits.set(ACCOUNT, FARGATE_VCPUS, 8)
        wait_until(lambda: counted() == {"RUNNING": 2, "RUNNABLE": 2})
        batch.terminate_job(jobId=array, reason="the test is over")

    def test_children_beyond_the_launch_rate_start_later(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scheduler, "FARGATE_LAUNCHES", replace(FARGATE_LAUNCHES, per_second=0.2, burst=2))
        batch = client("batch")
        definition = batch.register_job_definition(
            jobDefinitionName="launches",
            type="container",
            platformCapabilities=["FARGATE"],
            containerProperties={
                "executionRoleArn": EXECUTION_ROLE,
                "image": image(client("ecr"), "launches", "import time; time.sleep(60)"),
                "resourceRequirements": [{"type": "VCPU", "value": "0.25"}, {"type": "MEMORY", "value": "512"}],
            },
        )["jobDefinitionArn"]
        array = batch.submit_job(jobName="l", jobQueue="q", jobDefinition=definition, arrayProperties={"size": 3})[
            "jobId"
        ]

        def counted() -> dict[str, int]:
            summary = batch.describe_jobs(jobs=[array])["jobs"][0]["arrayProperties"]["statusSummary"]
            return {status: count for status, count in summary.items() if count}

        wait_until(lambda: counted() == {"RUNNING": 2, "RUNNABLE": 1})
        wait_until(lambda: counted() == {"RUNNING": 3})
        batch.terminate_job(jobId=array, reason="the test is over")


class TestConcurrency:
    CODE = "import time\ndef handler(event, context):\n    time.sleep(event.get('seconds', 0))\n    return 'done'\n"

    def function(self) -> str:
        with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
            archive.writestr("f.py", self.CODE)
        executor = role(client("iam"), "executor", "lambda.amazonaws.com")
        made = client("lambda").create_function(
            FunctionName="f",
            Runtime="python3.11",
            Handler="f.handler",
            Role=executor,
            Code={"ZipFile": file.getvalue()},
            Timeout=30,
        )
        return str(made["FunctionArn"])

    def test_invocations_beyond_the_concurrency_are_refused_and_events_wait(self, young: LocalCloud) -> None:
        name, functions = self.function(), client("lambda", config=_ONCE)
        young.limits.set(ACCOUNT, LAMBDA_CONCURRENCY, 1)
        holder = threading.Thread(target=lambda: functions.invoke(FunctionName=name, Payload=b'{"seconds": 3}'))
        holder.start()
        assert young.functions is not None
        wait_until(lambda: young.functions._running[ACCOUNT, REGION] == 1)  # type: ignore[union-attr]  # None would fail the test
        with pytest.raises(ClientError) as error:
            functions.invoke(FunctionName=name, Payload=b"{}")
        assert code_of(error) == "TooManyRequestsException"
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 429
        functions.invoke(FunctionName=name, InvocationType="Event", Payload=b"{}")
        holder.join()
        streams = client("logs")

        def ended() -> int:
            events = streams.filter_log_events(logGroupName="/aws/lambda/f")["events"]
            return sum("REPORT" in event["message"] for event in events)

        wait_until(lambda: ended() == 2)


class TestCommands:
    @pytest.fixture(autouse=True)
    def local_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.chdir(tmp_path)
        yield
        lifecycle.down(tmp_path / ".localcloud")

    def test_a_young_account_starts_and_gets_granted_quotas(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        cli.main(["local", "up", "--account", "young"], standalone_mode=False)
        server = lifecycle.status(Path(".localcloud"))
        assert server is not None
        for name, setting in user_environment(server.endpoint, secret=server.secret).items():
            monkeypatch.setenv(name, setting)
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the keys that it has already read
        assert value("lambda", LAMBDA_CONCURRENCY.code) == 10
        client("service-quotas").request_service_quota_increase(
            ServiceCode="lambda", QuotaCode=LAMBDA_CONCURRENCY.code, DesiredValue=100
        )
        capsys.readouterr()
        cli.main(["local", "grant"], standalone_mode=False)
        cli.main(["local", "grant"], standalone_mode=False)
        cli.main(["local", "grant", "fargate", FARGATE_VCPUS.name, "12"], standalone_mode=False)
        assert capsys.readouterr().out.splitlines() == [
            f"{REGION} lambda L-B99A9384 Concurrent executions: 100",
            "no request for an increase is pending",
            f"* fargate L-3032A538 {FARGATE_VCPUS.name}: 12",
        ]
        assert (value("lambda", LAMBDA_CONCURRENCY.code), value("fargate", FARGATE_VCPUS.code)) == (100, 12)
        with pytest.raises(TraingridError, match="fargate has no quota L-1"):
            cli.main(["local", "grant", "fargate", "L-1", "12"], standalone_mode=False)
