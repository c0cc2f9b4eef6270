"""IAM in localcloud: a role may do only what its policies allow, and errors have AWS's messages and codes."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from localcloud.iam.conditions import UnknownOperatorError
from localcloud.iam.evaluation import verdict
from localcloud.iam.named_resources import Asked
from localcloud.iam.request_keys import Context
from localcloud.iam.required_permissions import required_permissions
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import ACCOUNT, document, role

Statement = Mapping[str, Any]
ALLOW: Statement = {"Effect": "Allow", "Action": "*", "Resource": "*"}


def verdict_on(
    *statements: Statement, action: str = "s3:GetObject", resource: str = "arn:aws:s3:::b/k", **keys: Any
) -> str:
    context: Context = {key.replace("_", ":", 1): value for key, value in keys.items()}
    return verdict([json.loads(document(*statements))], action, resource, context)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (ALLOW, "Allowed"),
        ({**ALLOW, "Action": "s3:getobject"}, "Allowed"),
        ({**ALLOW, "Action": ["s3:PutObject", "s3:Get*"]}, "Allowed"),
        ({**ALLOW, "Action": "s3:PutObject"}, "ImplicitlyDenied"),
        ({**ALLOW, "Resource": "arn:aws:s3:::b/*"}, "Allowed"),
        ({**ALLOW, "Resource": "arn:aws:s3:::b/?"}, "Allowed"),
        ({**ALLOW, "Resource": "arn:aws:s3:::B/k"}, "ImplicitlyDenied"),
        ({**ALLOW, "Resource": "arn:aws:s3:::b"}, "ImplicitlyDenied"),
        ({"Effect": "Allow", "NotAction": "s3:Put*", "Resource": "*"}, "Allowed"),
        ({"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:s3:::b/*"}, "ImplicitlyDenied"),
    ],
)
def test_a_statement_applies_to_its_actions_and_resources(statement: Statement, expected: str) -> None:
    assert verdict_on(statement) == expected


def test_an_explicit_deny_overrides_every_allow() -> None:
    deny = {"Effect": "Deny", "Action": "s3:*", "Resource": "*"}
    assert verdict_on(ALLOW, deny) == verdict_on(deny, ALLOW) == "ExplicitlyDenied"
    assert verdict_on(deny, action="sqs:SendMessage") == "ImplicitlyDenied"


@pytest.mark.parametrize(
    ("operator", "wanted", "found", "expected"),
    [
        ("StringEquals", ["a", "b"], "b", True),
        ("StringEquals", "a", None, False),
        ("StringEqualsIfExists", "a", None, True),
        ("StringNotEquals", ["a", "b"], "b", False),
        ("StringNotEquals", "a", None, True),
        ("StringLike", "a*", "abc", True),
        ("Bool", "true", "true", True),
        ("Bool", True, "true", True),
        ("Bool", "true", None, False),
        ("NumericLessThanEquals", "172800", "172800", True),
        ("NumericLessThanEquals", "172800", "172801", False),
        ("NumericLessThanEquals", "9", "10", False),
        ("NumericGreaterThan", "0", "1", True),
        ("NumericGreaterThan", "0", None, False),
        ("ArnLike", "arn:aws:ecs:us-east-1:1:*", "arn:aws:ecs:us-east-1:1:task/x", True),
        ("ArnEquals", "arn:aws:ecs:*:1:*", "arn:aws:ecs:us-east-1:2:task/x", False),
        ("Null", "true", None, True),
        ("Null", "false", None, False),
        ("Null", "false", ["x"], True),
        ("ForAllValues:StringEquals", ["a", "b"], ["a"], True),
        ("ForAllValues:StringEquals", ["a", "b"], ["a", "c"], False),
        ("ForAllValues:StringEquals", ["a", "b"], None, True),
        ("ForAnyValue:StringEquals", ["a"], ["c", "a"], True),
        ("ForAnyValue:StringEquals", ["a"], None, False),
        ("ForAnyValue:StringNotEquals", ["a"], ["a", "c"], True),
        ("StringEquals", "a", ["a"], False),
        ("StringEqualsIfExists", "a", ["a"], False),
        ("StringLike", "*", ["a", "b"], False),
        ("StringNotEquals", "a", ["b"], False),
    ],
)
def test_a_condition_compares_as_iam_does(operator: str, wanted: Any, found: Any, *, expected: bool) -> None:
    statement = {**ALLOW, "Condition": {operator: {"sagemaker:Key": wanted}}}
    keys = {} if found is None else {"sagemaker_Key": found}
    assert verdict_on(statement, **keys) == ("Allowed" if expected else "ImplicitlyDenied")


def test_an_unknown_condition_operator_is_an_error() -> None:
    with pytest.raises(UnknownOperatorError, match="DateLessThan"):
        verdict_on(
            {**ALLOW, "Condition": {"DateLessThan": {"aws:CurrentTime": "2026-01-01"}}}, aws_CurrentTime="2025-01-01"
        )


def of(service: str, operation: str, **parameters: Any) -> list[tuple[str, str]]:
    asked = Asked(service, operation, parameters, "us-east-1", ACCOUNT)
    return [(need.action, need.resource) for need in required_permissions(asked)]


def test_a_call_requires_all_permissions_that_aws_requires() -> None:
    job, passed = f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:training-job/j", "arn:aws:iam::1:role/r"
    tags = [{"Key": "a", "Value": "b"}]
    assert set(of("sagemaker", "CreateTrainingJob", TrainingJobName="j", RoleArn=passed, Tags=tags)) == {
        ("sagemaker:CreateTrainingJob", job),
        ("iam:PassRole", passed),
        ("sagemaker:AddTags", job),
    }
    addon = f"arn:aws:eks:us-east-1:{ACCOUNT}:addon/research/agent/*"
    assert of("eks", "DescribeAddon", name="research", addonName="agent") == [("eks:DescribeAddon", addon)]
    repository = f"arn:aws:ecr:us-east-1:{ACCOUNT}:repository/grid/training"
    assert of("ecr", "PutImage", repositoryName="grid/training") == [("ecr:PutImage", repository)]
    assert of("ecr", "GetAuthorizationToken") == [("ecr:GetAuthorizationToken", "*")]
    project = f"arn:aws:codebuild:us-east-1:{ACCOUNT}:project/p"
    assert of("codebuild", "StartBuild", projectName="p") == [("codebuild:StartBuild", project)]
    stack = f"arn:aws:cloudformation:us-east-1:{ACCOUNT}:stack/s/"
    assert of("cloudformation", "DescribeStacks", StackName=f"{stack}id") == [
        ("cloudformation:DescribeStacks", f"{stack}id")
    ]
    assert of("cloudformation", "DescribeStacks", StackName="s") == [("cloudformation:DescribeStacks", f"{stack}*")]
    assert of("s3", "GetObject", Bucket="b", Key="k/x") == [("s3:GetObject", "arn:aws:s3:::b/k/x")]
    assert of("s3", "GetObject", Bucket="b", Key="k", versionId="1") == [("s3:GetObjectVersion", "arn:aws:s3:::b/k")]
    assert of("s3", "HeadObject", Bucket="b", Key="k") == [("s3:GetObject", "arn:aws:s3:::b/k")]
    assert of("s3", "ListObjectsV2", Bucket="b") == [("s3:ListBucket", "arn:aws:s3:::b")]
    assert of("s3", "UploadPart", Bucket="b", Key="k") == [("s3:PutObject", "arn:aws:s3:::b/k")]
    batch, payload = f"arn:aws:batch:us-east-1:{ACCOUNT}", json.dumps({"RoleArn": passed})
    submitted = {f"{batch}:job-queue/q", f"{batch}:job-definition/d:1", f"{batch}:job/new"}
    found = of("batch", "SubmitJob", jobQueue="q", jobDefinition="d:1")
    assert set(found) == {("batch:SubmitJob", resource) for resource in submitted}
    tagged = of("batch", "SubmitJob", jobQueue="q", jobDefinition="d:1", tags={"a": "b"})
    assert set(tagged) == set(found) | {("batch:TagResource", resource) for resource in submitted}
    asked = {"jobQueue": "q", "quotaShareName": "s", "serviceRequestPayload": payload, "tags": {"a": "b"}}
    queued = {f"{batch}:job-queue/q", f"{batch}:job-queue/q/quota-share/s", f"{batch}:service-job/new"}
    actions = ("batch:SubmitServiceJob", "batch:TagResource")
    assert set(of("batch", "SubmitServiceJob", **asked)) == {
        *((action, resource) for action in actions for resource in queued),
        ("iam:PassRole", passed),
    }
    assert of("batch", "DescribeServiceJob", jobId="x") == [("batch:DescribeServiceJob", "*")]
    assert of("batch", "TerminateServiceJob", jobId="x") == [("batch:TerminateServiceJob", f"{batch}:service-job/x")]
    assert of("dynamodb", "GetItem", TableName="t") == [
        ("dynamodb:GetItem", f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/t")
    ]
    assert of("dynamodb", "TransactWriteItems", TransactItems=[]) == [("dynamodb:TransactWriteItems", "*")]
    assert of("sts", "GetCallerIdentity") == []
    assert of("monitoring", "PutMetricData") == [("cloudwatch:PutMetricData", "*")]


def caller(cloud: LocalCloud, role_arn: str) -> Callable[[str], Any]:
    """Return a function that creates clients with the credentials that a service gives to a program of the role."""
    environment = cloud.environment_for("us-east-1", role_arn, {})
    session: Any = boto3.Session(
        environment["AWS_ACCESS_KEY_ID"],
        environment["AWS_SECRET_ACCESS_KEY"],
        environment["AWS_SESSION_TOKEN"],
        region_name="us-east-1",
    )
    return lambda service: session.client(service, endpoint_url=cloud.endpoint_url)


def refused(call: Callable[[], Any]) -> tuple[str, str]:
    with pytest.raises(ClientError) as raised:
        call()
    return raised.value.response["Error"]["Code"], raised.value.response["Error"]["Message"]


def test_a_forbidden_call_of_a_role_returns_awss_error(cloud: LocalCloud, client: Callable[..., Any]) -> None:
    client("s3").create_bucket(Bucket="results")
    client("s3").put_object(Bucket="results", Key="mine/x", Body=b"1")
    reads = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::results/mine/*"}
    make = caller(cloud, role(client("iam"), "reader", "lambda.amazonaws.com", reads))
    assert make("s3").get_object(Bucket="results", Key="mine/x")["Body"].read() == b"1"
    code, message = refused(lambda: make("s3").put_object(Bucket="results", Key="mine/x", Body=b"2"))
    assert code == "AccessDenied"
    assert message == (
        f"User: arn:aws:sts::{ACCOUNT}:assumed-role/reader/localcloud is not authorized to perform: s3:PutObject on "
        "resource: arn:aws:s3:::results/mine/x because no identity-based policy allows the s3:PutObject action"
    )
    assert client("s3").get_object(Bucket="results", Key="mine/x")["Body"].read() == b"1"
    code, message = refused(lambda: make("sqs").list_queues())
    assert (code, "sqs:ListQueues" in message) == ("AccessDeniedException", True)
    assert not cloud.record.entries("sqs", "ListQueues")


def test_a_missing_object_is_access_denied_without_permission_to_list(
    cloud: LocalCloud, client: Callable[..., Any]
) -> None:
    client("s3").create_bucket(Bucket="secrets")
    client("s3").put_object(Bucket="secrets", Key="there", Body=b"1")
    reads = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::secrets/*"}
    lists = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::secrets"}
    for name, statements, code in (("blind", (reads,), "AccessDenied"), ("seeing", (reads, lists), "NoSuchKey")):
        s3 = caller(cloud, role(client("iam"), name, "lambda.amazonaws.com", *statements))("s3")
        assert s3.get_object(Bucket="secrets", Key="there")["Body"].read() == b"1"
        assert refused(lambda s3=s3: s3.get_object(Bucket="secrets", Key="gone"))[0] == code  # type: ignore[misc]  # mypy infers no type for this lambda
        status = "403" if code == "AccessDenied" else "404"
        assert refused(lambda s3=s3: s3.head_object(Bucket="secrets", Key="gone"))[0] == status  # type: ignore[misc]  # mypy infers no type for this lambda


def test_a_managed_policy_allows_what_its_default_version_allows(cloud: LocalCloud, client: Callable[..., Any]) -> None:
    client("s3").create_bucket(Bucket="managed")
    iam, nothing = client("iam"), {**ALLOW, "Action": "sqs:ListQueues"}
    arn = role(iam, "managed", "lambda.amazonaws.com", nothing)
    puts = {**ALLOW, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::managed/*"}
    policy = iam.create_policy(PolicyName="overflow", PolicyDocument=document(nothing))["Policy"]["Arn"]
    iam.attach_role_policy(RoleName="managed", PolicyArn=policy)
    s3 = caller(cloud, arn)("s3")
    assert refused(lambda: s3.put_object(Bucket="managed", Key="x", Body=b"1"))[0] == "AccessDenied"
    iam.create_policy_version(PolicyArn=policy, PolicyDocument=document(puts), SetAsDefault=True)
    s3.put_object(Bucket="managed", Key="x", Body=b"1")
    found = iam.simulate_principal_policy(
        PolicySourceArn=arn, ActionNames=["s3:PutObject"], ResourceArns=["arn:aws:s3:::managed/x"]
    )
    assert [result["EvalDecision"] for result in found["EvaluationResults"]] == ["allowed"]


def test_the_error_reports_an_explicit_deny(cloud: LocalCloud, client: Callable[..., Any]) -> None:
    never = {"Effect": "Deny", "Action": "dynamodb:DeleteTable", "Resource": "*"}
    make = caller(cloud, role(client("iam"), "careful", "lambda.amazonaws.com", ALLOW, never))
    _, message = refused(lambda: make("dynamodb").delete_table(TableName="t"))
    assert message.endswith("with an explicit deny in an identity-based policy")


def test_create_training_job_requires_its_conditions_and_pass_role(
    cloud: LocalCloud, client: Callable[..., Any], sagemaker: Any
) -> None:
    creates = {
        "Effect": "Allow",
        "Action": ["sagemaker:CreateTrainingJob", "sagemaker:AddTags"],
        "Resource": f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:training-job/mine-*",
        "Condition": {"NumericLessThanEqualsIfExists": {"sagemaker:MaxRuntimeInSeconds": "60"}},
    }
    passes = {
        "Effect": "Allow",
        "Action": "iam:PassRole",
        "Resource": sagemaker.role,
        "Condition": {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
    }
    short = sagemaker.request(TrainingJobName="mine-0", StoppingCondition={"MaxRuntimeInSeconds": 60})
    alone = caller(cloud, role(client("iam"), "creator", "ecs-tasks.amazonaws.com", creates))
    assert "iam:PassRole" in refused(lambda: alone("sagemaker").create_training_job(**short))[1]
    both = caller(cloud, role(client("iam"), "launcher", "ecs-tasks.amazonaws.com", creates, passes))
    for wrong in ({"TrainingJobName": "theirs-0"}, {"StoppingCondition": {"MaxRuntimeInSeconds": 61}}):
        request = {**short, **wrong}
        assert refused(lambda request=request: both("sagemaker").create_training_job(**request))[0] == (  # type: ignore[misc]  # mypy infers no type for this lambda
            "AccessDeniedException"
        )
    assert both("sagemaker").create_training_job(**short)["TrainingJobArn"].endswith("training-job/mine-0")


def test_a_role_assumed_by_the_accounts_user_has_only_its_permissions(
    cloud: LocalCloud, client: Callable[..., Any]
) -> None:
    trust = document(
        {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
    )
    for name in ("assumed", "cdk-hnb659fds-deploy-role"):
        client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=trust)
    assumed, deployer = (
        caller(cloud, f"arn:aws:iam::{ACCOUNT}:role/{name}") for name in ("assumed", "cdk-hnb659fds-deploy-role")
    )
    assert refused(lambda: assumed("sqs").create_queue(QueueName="theirs"))[0] == "AccessDeniedException"
    assert deployer("sqs").create_queue(QueueName="theirs")["QueueUrl"]


def service_queue(batch: Any, name: str) -> None:
    where = {"serviceEnvironmentName": name, "serviceEnvironmentType": "SAGEMAKER_TRAINING"}
    limits = [{"capacityUnit": "NUM_INSTANCES", "maxCapacity": 1}]
    environment = batch.create_service_environment(**where, capacityLimits=limits)["serviceEnvironmentArn"]
    order = [{"order": 1, "serviceEnvironment": environment}]
    queue = {"jobQueueName": name, "jobQueueType": "SAGEMAKER_TRAINING", "serviceEnvironmentOrder": order}
    batch.create_job_queue(**queue, priority=1)


def test_a_service_job_with_a_long_payload_requires_pass_role(
    cloud: LocalCloud, client: Callable[..., Any], sagemaker: Any
) -> None:
    service_queue(client("batch"), "long")
    submits = {"Effect": "Allow", "Action": "batch:SubmitServiceJob", "Resource": "*"}
    passes = {"Effect": "Allow", "Action": "iam:PassRole", "Resource": sagemaker.role}
    batch = caller(cloud, role(client("iam"), "submitter", "ecs-tasks.amazonaws.com", submits, passes))("batch")
    other = role(client("iam"), "other-training-role", "sagemaker.amazonaws.com")
    request = sagemaker.request() | {"HyperParameters": {f"filler-{number}": "x" * 250 for number in range(20)}}
    asked = {"jobName": "long", "jobQueue": "long", "serviceJobType": "SAGEMAKER_TRAINING"}
    payload, theirs = json.dumps(request), json.dumps(request | {"RoleArn": other})
    assert len(payload) > 5000
    assert batch.submit_service_job(**asked, serviceRequestPayload=payload)["jobId"]
    code, message = refused(lambda: batch.submit_service_job(**asked, serviceRequestPayload=theirs))
    assert code == "AccessDeniedException"
    assert f"iam:PassRole on resource: {other} " in message


def test_terminate_service_job_requires_a_permission_for_the_jobs_tag(
    cloud: LocalCloud, client: Callable[..., Any], sagemaker: Any
) -> None:
    batch = client("batch")
    service_queue(batch, "ours")
    ends = {
        "Effect": "Allow",
        "Action": "batch:TerminateServiceJob",
        "Resource": f"arn:aws:batch:us-east-1:{ACCOUNT}:service-job/*",
        "Condition": {"StringEquals": {"aws:ResourceTag/traingrid:grid": "traingrid"}},
    }
    ender = caller(cloud, role(client("iam"), "ender", "lambda.amazonaws.com", ends))("batch")
    asked = {"jobQueue": "ours", "serviceJobType": "SAGEMAKER_TRAINING"}
    payload = json.dumps(sagemaker.request("import time; time.sleep(60)"))
    for name, grid in (("mine", "traingrid"), ("theirs", "another")):
        tags = {"traingrid:grid": grid}
        job = batch.submit_service_job(jobName=name, serviceRequestPayload=payload, tags=tags, **asked)["jobId"]
        if grid == "traingrid":
            ender.terminate_service_job(jobId=job, reason="cancelled")
        else:
            code, _ = refused(lambda job=job: ender.terminate_service_job(jobId=job, reason="cancelled"))  # type: ignore[misc]  # mypy infers no type for this lambda
            assert code == "AccessDeniedException"
            batch.terminate_service_job(jobId=job, reason="the test is over")


def test_a_role_that_may_only_write_new_objects_cannot_replace_one(
    cloud: LocalCloud, client: Callable[..., Any]
) -> None:
    """https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html, its first example."""
    client("s3").create_bucket(Bucket="once")
    new: dict[str, Any] = {"Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::once/*"}
    new |= {"Condition": {"Null": {"s3:if-none-match": "false"}}}
    s3 = caller(cloud, role(client("iam"), "once", "lambda.amazonaws.com", new))("s3")
    s3.put_object(Bucket="once", Key="x", Body=b"first", IfNoneMatch="*")
    for call in (
        lambda: s3.put_object(Bucket="once", Key="x", Body=b"second"),
        lambda: s3.put_object(Bucket="once", Key="new", Body=b"second"),
        lambda: s3.create_multipart_upload(Bucket="once", Key="x"),
    ):
        assert refused(call)[0] == "AccessDenied"
    assert refused(lambda: s3.put_object(Bucket="once", Key="x", Body=b"second", IfNoneMatch="*"))[0] == (
        "PreconditionFailed"
    )
    assert client("s3").get_object(Bucket="once", Key="x")["Body"].read() == b"first"
