"""Stacks that import retained resources, and forced deletion of stacks whose resources cannot be deleted."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.integration.localcloud.cloudformation.test_cloudformation import UNKNOWN, body, outputs, stack

KEPT = "RetainExceptOnCreate"
TABLE = {
    "Type": "AWS::DynamoDB::Table",
    "DeletionPolicy": KEPT,
    "Properties": {
        "TableName": "left-table",
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
    },
}


@pytest.fixture
def stacks(client: Callable[..., Any]) -> Any:
    return client("cloudformation")


def bucket(name: Any, policy: str = KEPT) -> dict[str, Any]:
    return {"Type": "AWS::S3::Bucket", "DeletionPolicy": policy, "Properties": {"BucketName": name}}


def deployed(stacks: Any, name: str, template: str, *, importing: bool) -> Any:
    """Deploy a new stack as the CDK does, and return it."""
    what = {"StackName": name, "ChangeSetName": "deploy"}
    stacks.create_change_set(**what, ChangeSetType="CREATE", TemplateBody=template, ImportExistingResources=importing)
    stacks.execute_change_set(**what)
    return stack(stacks, name)


def left_by_an_earlier_stack(stacks: Any, name: str, **resources: Any) -> None:
    stacks.create_stack(StackName=name, TemplateBody=body(resources))
    stacks.delete_stack(StackName=name)


def test_a_new_stack_imports_a_bucket_and_a_table_with_their_content(stacks: Any, client: Callable[..., Any]) -> None:
    resources = {"B": bucket("left-bucket"), "T": TABLE}
    left_by_an_earlier_stack(stacks, "first", **resources)
    client("s3").put_object(Bucket="left-bucket", Key="k", Body=b"x")
    client("dynamodb").put_item(TableName="left-table", Item={"a": {"S": "1"}})
    template = body(resources, Bucket={"Ref": "B"}, Table={"Fn::GetAtt": ["T", "Arn"]})
    assert deployed(stacks, "second", template, importing=True)["StackStatus"] == "CREATE_COMPLETE"
    assert outputs(stacks, "second")["Bucket"] == "left-bucket"
    assert outputs(stacks, "second")["Table"].endswith(":table/left-table")
    assert client("s3").get_object(Bucket="left-bucket", Key="k")["Body"].read() == b"x"
    assert client("dynamodb").scan(TableName="left-table")["Count"] == 1
    events = stacks.describe_stack_events(StackName="second")["StackEvents"]
    assert {"B", "T"} == {each["LogicalResourceId"] for each in events if each["ResourceStatus"] == "IMPORT_COMPLETE"}


@pytest.mark.parametrize(
    ("importing", "name", "policy"),
    [
        (False, "not-asked", KEPT),
        (True, {"Fn::Join": ["", ["put-together-", {"Ref": "AWS::AccountId"}]]}, KEPT),
        (True, "not-kept", "Delete"),
    ],
)
def test_existing_resources_that_cannot_be_imported_fail_the_stack(
    stacks: Any, client: Callable[..., Any], importing: bool, name: Any, policy: str
) -> None:
    called = "first-" + (name if isinstance(name, str) else "joined")
    left_by_an_earlier_stack(stacks, called, B=bucket(name))
    failed = deployed(stacks, f"{called}-again", body({"B": bucket(name, policy)}), importing=importing)
    assert failed["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "already exists" in failed["StackStatusReason"]


def test_a_failed_deployment_deletes_created_but_not_imported_resources(
    stacks: Any, client: Callable[..., Any]
) -> None:
    left_by_an_earlier_stack(stacks, "before", B=bucket("old-bucket"))
    resources = {"B": bucket("old-bucket"), "N": bucket("new-bucket"), "U": {**UNKNOWN, "DependsOn": ["B", "N"]}}
    assert deployed(stacks, "fails", body(resources), importing=True)["StackStatus"] == "ROLLBACK_COMPLETE"
    there = {each["Name"] for each in client("s3").list_buckets()["Buckets"]}
    assert "old-bucket" in there
    assert "new-bucket" not in there


def test_a_stack_in_delete_failed_can_be_deleted_by_force(stacks: Any, client: Callable[..., Any]) -> None:
    full = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "full-bucket"}}
    stacks.create_stack(StackName="stuck", TemplateBody=body({"B": full}))
    client("s3").put_object(Bucket="full-bucket", Key="k", Body=b"x")
    with pytest.raises(ClientError, match="not in DELETE_FAILED"):
        stacks.delete_stack(StackName="stuck", DeletionMode="FORCE_DELETE_STACK")
    stacks.delete_stack(StackName="stuck")
    assert stack(stacks, "stuck")["StackStatus"] == "DELETE_FAILED"
    stacks.delete_stack(StackName="stuck", DeletionMode="FORCE_DELETE_STACK")
    with pytest.raises(ClientError, match="does not exist"):
        stack(stacks, "stuck")
    assert "full-bucket" in json.dumps([each["Name"] for each in client("s3").list_buckets()["Buckets"]])


def test_change_sets_are_deleted_with_their_stack(stacks: Any) -> None:
    topic = body({"T": {"Type": "AWS::SNS::Topic", "Properties": {}}})
    for _ in range(2):
        deployed(stacks, "made-twice", topic, importing=False)
        stacks.delete_change_set(StackName="made-twice", ChangeSetName="deploy")
        with pytest.raises(stacks.exceptions.ChangeSetNotFoundException):
            stacks.describe_change_set(StackName="made-twice", ChangeSetName="deploy")
        deployed_again = {"StackName": "made-twice", "ChangeSetName": "deploy", "ChangeSetType": "UPDATE"}
        stacks.create_change_set(**deployed_again, TemplateBody=body({}))
        stacks.delete_stack(StackName="made-twice")
