"""Other accounts in localcloud: access keys determine the account, and policies allow access from other accounts."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from tests.integration.localcloud.compute import document, wait_until

HOME, OTHER = "123456789012", "210987654321"
SERVICE = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}

Of = Callable[..., Any]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with LocalCloud(Settings(data_dir=tmp_path_factory.mktemp("accounts"), replication_seconds=0.05)) as running:
        yield running


@pytest.fixture(scope="module")
def of(cloud: LocalCloud) -> Of:
    """Return a client of an account's own user, for example of("s3", OTHER) or of("ecr", HOME, "eu-west-1")."""

    def make(service: str, account: str = HOME, region: str = "us-east-1") -> Any:
        keys = user_environment(cloud.endpoint_url, region, "" if account == HOME else account)
        return with_keys(cloud, keys, service, region)

    return make


def with_keys(cloud: LocalCloud, keys: Mapping[str, str], service: str, region: str = "us-east-1") -> Any:
    session: Any = boto3.Session(
        keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"], keys.get("AWS_SESSION_TOKEN"), region_name=region
    )
    return session.client(service, endpoint_url=cloud.endpoint_url)


def test_accounts_do_not_share_resources(of: Of) -> None:
    assert [of("sts", account).get_caller_identity()["Account"] for account in (HOME, OTHER)] == [HOME, OTHER]
    url = of("sqs", OTHER).create_queue(QueueName="theirs")["QueueUrl"]
    assert OTHER in url
    assert "QueueUrls" not in of("sqs").list_queues()
    of("iam", OTHER).create_role(RoleName="r", AssumeRolePolicyDocument=document(SERVICE))
    assert "r" not in [role["RoleName"] for role in of("iam").list_roles()["Roles"]]


@pytest.fixture(scope="module")
def callers(cloud: LocalCloud, of: Of) -> Callable[[str], Any]:
    """Return clients of programs with a home role that may assume any role, for example callers("child")."""

    def make(name: str, action: str = "sts:AssumeRole") -> Any:
        iam = of("iam")
        arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document(SERVICE))["Role"]["Arn"]
        policy = document({"Effect": "Allow", "Action": action, "Resource": "*"})
        iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=policy)
        return with_keys(cloud, cloud.environment_for("us-east-1", arn, {}), "sts")

    return make


def test_only_trusted_principals_assume_a_role_and_get_its_permissions(
    cloud: LocalCloud, of: Of, callers: Callable[..., Any]
) -> None:
    trust = {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{HOME}:root"},
        "Action": "sts:AssumeRole",
        "Condition": {"ArnEquals": {"aws:PrincipalArn": f"arn:aws:iam::{HOME}:role/child"}},
    }
    iam = of("iam", OTHER)
    arn = iam.create_role(RoleName="launch", AssumeRolePolicyDocument=document(trust))["Role"]["Arn"]
    lists = document({"Effect": "Allow", "Action": "sqs:ListQueues", "Resource": "*"})
    iam.put_role_policy(RoleName="launch", PolicyName="p", PolicyDocument=lists)
    wanted = {"RoleArn": arn, "RoleSessionName": "session"}
    got = callers("child").assume_role(**wanted)["Credentials"]
    keys = {
        "AWS_ACCESS_KEY_ID": got["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": got["SecretAccessKey"],
        "AWS_SESSION_TOKEN": got["SessionToken"],
    }
    assert with_keys(cloud, keys, "sts").get_caller_identity()["Arn"].startswith(f"arn:aws:sts::{OTHER}:assumed-role/")
    with_keys(cloud, keys, "sqs").list_queues()
    with pytest.raises(ClientError, match="not authorized to perform: sqs:CreateQueue"):
        with_keys(cloud, keys, "sqs").create_queue(QueueName="mine")
    for stranger in (callers("somebody"), callers("lazy", "sts:GetFederationToken"), of("sts"), of("sts", OTHER)):
        with pytest.raises(ClientError, match="not authorized to perform: sts:AssumeRole"):
            stranger.assume_role(**wanted)
    with pytest.raises(ClientError, match="not authorized to perform: sts:AssumeRole"):
        of("sts").assume_role(RoleArn=f"arn:aws:iam::{OTHER}:role/nobody", RoleSessionName="session")


def test_an_event_reaches_another_accounts_bus_if_its_policy_allows_the_role(of: Of) -> None:
    name = "home-of-others"
    events, theirs = of("events"), of("events", OTHER)
    bus = events.create_event_bus(Name=name)["EventBusArn"]
    trust = document({**SERVICE, "Principal": {"Service": "events.amazonaws.com"}})
    role = of("iam", OTHER).create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    puts = document({"Effect": "Allow", "Action": "events:PutEvents", "Resource": bus})
    of("iam", OTHER).put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=puts)
    pattern = json.dumps({"source": [name]})
    theirs.put_rule(Name=name, EventPattern=pattern)
    targets = [{"Id": "1", "Arn": bus, "RoleArn": role}]
    events.put_permission(EventBusName=name, Policy=document(_lets_in(bus, f"{role}2")))
    with pytest.raises(ClientError, match="AccessDeniedException"):
        theirs.put_targets(Rule=name, Targets=targets)
    events.remove_permission(EventBusName=name, StatementId="other")
    events.put_permission(EventBusName=name, Policy=document(_lets_in(bus, role)))
    theirs.put_targets(Rule=name, Targets=targets)
    seen, queue = of("sqs").create_queue(QueueName=name)["QueueUrl"], f"arn:aws:sqs:us-east-1:{HOME}:{name}"
    rule = events.put_rule(Name=name, EventBusName=name, EventPattern=pattern)["RuleArn"]
    sends = {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage"}
    policy = document({**sends, "Resource": queue, "Condition": {"ArnEquals": {"aws:SourceArn": rule}}})
    of("sqs").set_queue_attributes(QueueUrl=seen, Attributes={"Policy": policy})
    events.put_targets(Rule=name, EventBusName=name, Targets=[{"Id": "1", "Arn": queue}])
    theirs.put_events(Entries=[{"Source": name, "DetailType": "x", "Detail": "{}"}])
    found: list[Any] = []

    def is_there() -> bool:
        found.extend(of("sqs").receive_message(QueueUrl=seen).get("Messages", []))
        return bool(found)

    wait_until(is_there)
    assert json.loads(found[0]["Body"])["account"] == OTHER


def _lets_in(bus: str, role: str) -> dict[str, Any]:
    return {
        "Sid": "other",
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{OTHER}:root"},
        "Action": "events:PutEvents",
        "Resource": bus,
        "Condition": {"ArnEquals": {"aws:PrincipalArn": role}},
    }


@pytest.mark.parametrize("let_in", [True, False])
def test_an_image_is_replicated_to_another_account_if_its_policy_allows_it(of: Of, *, let_in: bool) -> None:
    region = "eu-west-1" if let_in else "eu-central-1"
    name, ours, theirs = f"images-{let_in}".lower(), of("ecr", HOME, region), of("ecr", OTHER, region)
    for registry in (ours, theirs):
        registry.create_repository(repositoryName=name)
    whole = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{HOME}:root"}}
    if let_in:
        arn = f"arn:aws:ecr:{region}:{OTHER}:repository/{name}"
        theirs.put_registry_policy(policyText=document({**whole, "Action": "ecr:ReplicateImage", "Resource": arn}))
    rule = {"destinations": [{"region": region, "registryId": OTHER}]}
    ours.put_replication_configuration(replicationConfiguration={"rules": [rule]})
    manifest = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json"})
    ours.put_image(repositoryName=name, imageManifest=manifest, imageTag="1")
    asked = {"repositoryName": name, "registryId": OTHER, "imageIds": [{"imageTag": "1"}]}
    if not let_in:
        time.sleep(0.5)
        assert theirs.describe_images(repositoryName=name)["imageDetails"] == []
        return
    wait_until(lambda: theirs.describe_images(repositoryName=name)["imageDetails"])
    with pytest.raises(ClientError, match="RepositoryNotFoundException"):
        ours.describe_images(**asked)
    theirs.set_repository_policy(repositoryName=name, policyText=document({**whole, "Action": "ecr:DescribeImages"}))
    assert ours.describe_images(**asked)["imageDetails"][0]["registryId"] == OTHER


def test_a_stack_is_in_the_deployers_account_and_a_registry_has_one_policy(of: Of, tmp_path: Path) -> None:
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "ReplicateImages",
                "Effect": "Allow",
                "Principal": {"AWS": f"arn:aws:iam::{HOME}:root"},
                "Action": ["ecr:ReplicateImage"],
                "Resource": [{"Fn::Sub": f"arn:aws:ecr:ca-central-1:${{AWS::AccountId}}:repository/{tmp_path.name}"}],
            }
        ],
    }
    template = json.dumps(
        {"Resources": {"P": {"Type": "AWS::ECR::RegistryPolicy", "Properties": {"PolicyText": policy}}}}
    )
    cloudformation = of("cloudformation", OTHER, "ca-central-1")
    cloudformation.create_stack(StackName="one", TemplateBody=template)
    put = json.loads(of("ecr", OTHER, "ca-central-1").get_registry_policy()["policyText"])
    assert OTHER in put["Statement"][0]["Resource"][0]
    assert "one" not in str(of("cloudformation", HOME, "ca-central-1").describe_stacks()["Stacks"])
    cloudformation.create_stack(StackName="two", TemplateBody=template)
    (second,) = cloudformation.describe_stacks(StackName="two")["Stacks"]
    assert second["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "already exists" in second["StackStatusReason"]
    cloudformation.delete_stack(StackName="one")
    with pytest.raises(ClientError, match="RegistryPolicyNotFound"):
        of("ecr", OTHER, "ca-central-1").get_registry_policy()
