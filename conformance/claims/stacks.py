"""CloudFormation: failures, retained resources and outputs of other stacks."""

from __future__ import annotations

import json
from typing import Any

from conformance.aws import Aws, refused
from conformance.claim import claim
from conformance.resources.functions import function
from conformance.resources.storage import bucket
from conformance.resources.templates import Stack
from conformance.sources import model, page

_RETENTION = "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-deletionpolicy.html"
_IMPORT = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/import-resources-automatically.html"
_CHANGE_SET = "by-a-claim"
_ANSWERS = """
import json, urllib.request
def handler(event, context):
    failed = event["RequestType"] == "Create" and event["ResourceProperties"]["Fail"] == "yes"
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer |= {"PhysicalResourceId": "claim", "Status": "FAILED" if failed else "SUCCESS"}
    answer |= {"Reason": "the claim's reason", "Data": {"Value": "of the claim"}}
    body, header = json.dumps(answer).encode(), {"content-type": ""}
    urllib.request.urlopen(urllib.request.Request(event["ResponseURL"], body, header, method="PUT"))
"""


def _group(name: str, policy: str) -> dict[str, Any]:
    return {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": name}, "DeletionPolicy": policy}


def _broken(aws: Aws, after: str) -> dict[str, Any]:
    """Return a resource that cannot be created, after another one: the policy of a bucket that does not exist.

    CloudFormation finds some errors, such as a name in use, before it creates anything
    (https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/validate-stack-deployments.html); not this one.
    """
    name = aws.name("absent")
    statement = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": f"arn:aws:s3:::{name}/*"}
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    properties = {"Bucket": name, "PolicyDocument": policy}
    return {"Type": "AWS::S3::BucketPolicy", "Properties": properties, "DependsOn": after}


def _protected_table(name: str) -> dict[str, Any]:
    keys = {"KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}]}
    attributes = {"AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}]}
    properties = {"TableName": name, "BillingMode": "PAY_PER_REQUEST", "DeletionProtectionEnabled": True}
    return {"Type": "AWS::DynamoDB::Table", "Properties": properties | keys | attributes}


def _forget_group(aws: Aws, name: str) -> None:
    logs = aws.client("logs")
    aws.undo.later(f"log group {name}", lambda: logs.delete_log_group(logGroupName=name))


def _groups(aws: Aws, name: str) -> list[str]:
    found = aws.client("logs").describe_log_groups(logGroupNamePrefix=name)["logGroups"]
    return [group["logGroupName"] for group in found]


@claim(
    page(_RETENTION, "such as stack deletion, CloudFormation retains the resource and its contents"),
    used_by="stacks/buckets.py stacks/ledger.py docs/deploy.md",
)
def retained_resource_outlives_its_stack(aws: Aws) -> None:
    """A resource with DeletionPolicy RetainExceptOnCreate is kept when its stack is deleted."""
    stack, name = Stack(aws), f"/{aws.name('kept')}"
    assert stack.deploy({"Kept": _group(name, "RetainExceptOnCreate")}) == "CREATE_COMPLETE", stack.reasons()
    _forget_group(aws, name)
    stack.delete()
    assert _groups(aws, name) == [name]


@claim(
    page(_RETENTION, "If the stack operation that created the resource is rolled back"),
    used_by="stacks/buckets.py docs/deploy.md",
)
def failed_creation_leaves_nothing(aws: Aws) -> None:
    """If the creation of a stack fails, a resource with RetainExceptOnCreate is deleted."""
    stack, name = Stack(aws), f"/{aws.name('not-kept')}"
    resources = {"Kept": _group(name, "RetainExceptOnCreate"), "Broken": _broken(aws, "Kept")}
    assert stack.deploy(resources) == "ROLLBACK_COMPLETE"
    assert _groups(aws, name) == []


@claim(
    page(
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithTables.Basics.html"
        "#WorkingWithTables.Basics.DeletionProtection",
        "protect a table from accidental deletion",
    ),
    used_by="stacks/ledger.py docs/deploy.md",
)
def protected_table_stops_a_rollback(aws: Aws) -> None:
    """A failed creation cannot delete a table with deletion protection: the stack becomes ROLLBACK_FAILED."""
    stack, name, dynamodb = Stack(aws), aws.name("protected"), aws.client("dynamodb")
    status = stack.deploy({"Table": _protected_table(name), "Broken": _broken(aws, "Table")})
    dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
    aws.wait(lambda: dynamodb.describe_table(TableName=name)["Table"]["TableStatus"] == "ACTIVE", name)
    assert status == "ROLLBACK_FAILED"


@claim(
    page(
        "https://github.com/awsdocs/aws-codepipeline-user-guide/issues/5",
        "is in ROLLBACK_COMPLETE state and can not be updated",
    ),
    used_by="docs/deploy.md",
)
def stack_that_was_never_created_is_not_updated(aws: Aws) -> None:
    """A stack in ROLLBACK_COMPLETE cannot be updated. It must be deleted first, which `cdk deploy` does."""
    stack, name = Stack(aws), f"/{aws.name('not-updated')}"
    resources = {"Group": _group(name, "Delete"), "Broken": _broken(aws, "Group")}
    assert stack.deploy(resources) == "ROLLBACK_COMPLETE"
    change = {"StackName": stack.name, "ChangeSetName": "again", "ChangeSetType": "UPDATE"}
    body = json.dumps({"Resources": {"Group": _group(name, "Delete")}})
    with refused("ValidationError", text="is in ROLLBACK_COMPLETE state"):
        stack.api.create_change_set(**change, TemplateBody=body)


@claim(
    page(
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-dependson.html",
        "created only after the creation of the resource specified",
    ),
    used_by="stacks/ledger.py docs/deploy.md",
)
def resource_that_waits_for_a_failed_one_is_never_created(aws: Aws) -> None:
    """A protected table that depends on a failing resource is not created, and the stack rolls back cleanly."""
    stack, name, dynamodb = Stack(aws), aws.name("last"), aws.client("dynamodb")
    table = {**_protected_table(name), "DependsOn": ["Group", "Broken"]}
    group = _group(f"/{aws.name('first')}", "RetainExceptOnCreate")
    status = stack.deploy({"Group": group, "Broken": _broken(aws, "Group"), "Table": table})
    assert status == "ROLLBACK_COMPLETE"
    with refused("ResourceNotFoundException"):
        dynamodb.describe_table(TableName=name)


@claim(
    page(
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/stack-failure-options.html",
        "CloudFormation rolls back the stack to the last known stable state",
    ),
    used_by="stacks/region_guard.py docs/deploy.md",
)
def failed_update_is_rolled_back(aws: Aws) -> None:
    """A failed update ends with UPDATE_ROLLBACK_COMPLETE, and its changes are reverted."""
    stack, name, other = Stack(aws), f"/{aws.name('before')}", f"/{aws.name('added')}"
    assert stack.deploy({"Group": _group(name, "Delete")}) == "CREATE_COMPLETE", stack.reasons()
    resources = {"Group": _group(name, "Delete"), "Added": _group(other, "Delete"), "Broken": _broken(aws, "Added")}
    assert stack.deploy(resources) == "UPDATE_ROLLBACK_COMPLETE"
    assert _groups(aws, name) == [name]
    assert _groups(aws, other) == []


@claim(
    page(
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref-responses.html",
        "Describes the reason for a failure response",
    ),
    used_by="traingrid/deploy/custom_resource.py traingrid/deploy/region_guard.py",
)
def custom_resource_fails_with_its_reason(aws: Aws) -> None:
    """A custom resource that responds FAILED fails the stack, and the stack's events contain its reason."""
    stack, arn = Stack(aws), _answering(aws)
    assert stack.deploy(_custom(arn, fail="yes")) == "ROLLBACK_COMPLETE"
    assert "the claim's reason" in stack.reasons()


@claim(
    page(
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref-responses.html",
        "access the values provided here by name in the template",
    ),
    used_by="stacks/image_build.py traingrid/deploy/image_build.py",
)
def custom_resource_has_attributes(aws: Aws) -> None:
    """Fn::GetAtt reads the Data that a custom resource returns."""
    stack, arn = Stack(aws), _answering(aws)
    output = {"Value": {"Value": {"Fn::GetAtt": ["Custom", "Value"]}}}
    assert stack.deploy(_custom(arn, fail="no"), Outputs=output) == "CREATE_COMPLETE", stack.reasons()
    outputs = stack.api.describe_stacks(StackName=stack.name)["Stacks"][0]["Outputs"]
    assert [output["OutputValue"] for output in outputs] == ["of the claim"]


def _answering(aws: Aws) -> str:
    name = aws.once("answers", lambda: function(aws, _ANSWERS))
    return f"arn:aws:lambda:{aws.home}:{aws.account}:function:{name}"


def _custom(arn: str, *, fail: str) -> dict[str, Any]:
    properties = {"ServiceToken": arn, "ServiceTimeout": "120", "Fail": fail}
    return {"Custom": {"Type": "AWS::CloudFormation::CustomResource", "Properties": properties}}


@claim(
    model("cloudformation", "DeleteStackInput", "FORCE_DELETE_STACK"),
    page(
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DeleteStack.html",
        "Delete the stack if it's stuck in a DELETE_FAILED state",
    ),
    used_by="docs/deploy.md stacks/guard_stack.py",
)
def stack_is_deleted_by_force_after_a_failure(aws: Aws) -> None:
    """FORCE_DELETE_STACK is refused for a healthy stack, and deletes one whose deletion has failed."""
    stack, name = Stack(aws), aws.name("full")
    s3 = aws.client("s3")
    made = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": name}}
    assert stack.deploy({"Bucket": made}) == "CREATE_COMPLETE", stack.reasons()
    aws.undo.later(f"bucket {name}", lambda: (s3.delete_object(Bucket=name, Key="k"), s3.delete_bucket(Bucket=name)))
    s3.put_object(Bucket=name, Key="k", Body=b"x")
    with refused("ValidationError"):
        stack.api.delete_stack(StackName=stack.name, DeletionMode="FORCE_DELETE_STACK")
    assert stack.delete() == "DELETE_FAILED"
    stack.api.delete_stack(StackName=stack.name, DeletionMode="FORCE_DELETE_STACK")
    assert stack.ended() in ("", "DELETE_COMPLETE")


def _by_change_set(aws: Aws, stack: Stack, resources: dict[str, Any], *, importing: bool) -> str:
    names = {"StackName": stack.name, "ChangeSetName": _CHANGE_SET}
    aws.undo.later(f"stack {stack.name}", stack.delete)
    stack.api.create_change_set(
        **names,
        ChangeSetType="CREATE",
        TemplateBody=json.dumps({"Resources": resources}),
        ImportExistingResources=importing,
        Tags=aws.tags(),
    )
    status = aws.wait(lambda: _change_set(stack, names), "the change set")
    if status == "FAILED":
        return status
    stack.api.execute_change_set(**names)
    return stack.ended()


def _change_set(stack: Stack, names: dict[str, str]) -> str:
    status = str(stack.api.describe_change_set(**names)["Status"])
    return status if status.endswith(("COMPLETE", "FAILED")) else ""


@claim(
    page(_IMPORT, "existing resources that match your template and imports them during deployment"),
    used_by="docs/deploy.md",
)
def kept_bucket_is_taken_over(aws: Aws) -> None:
    """With ImportExistingResources, a new stack adopts an existing bucket whose literal name is in its template."""
    name, stack = bucket(aws), Stack(aws)
    aws.client("s3").put_object(Bucket=name, Key="k", Body=b"x")
    kept = {"Type": "AWS::S3::Bucket", "DeletionPolicy": "RetainExceptOnCreate", "Properties": {"BucketName": name}}
    assert _by_change_set(aws, stack, {"Bucket": kept}, importing=True).endswith("COMPLETE"), stack.reasons()
    assert stack.status() in ("CREATE_COMPLETE", "IMPORT_COMPLETE"), stack.reasons()
    assert stack.id_of("Bucket") == name


@claim(
    page(
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/validate-stack-deployments.html",
        "resource name conflict detection run on all supported operations",
    ),
    page("https://github.com/aws/aws-cdk/issues/16686", "cdk-wiserentr-stack-dev-user-docs already exists"),
    page("https://github.com/serverless/serverless/issues/13248", "AWS::EarlyValidation::ResourceExistenceCheck"),
    used_by="docs/deploy.md",
)
def existing_bucket_is_in_the_way(aws: Aws) -> None:
    """Without ImportExistingResources, a stack with the name of an existing bucket fails, or its change set does."""
    name, stack = bucket(aws), Stack(aws)
    kept = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": name}}
    if (status := _by_change_set(aws, stack, {"Bucket": kept}, importing=False)) == "FAILED":
        failed = stack.api.describe_change_set(StackName=stack.name, ChangeSetName=_CHANGE_SET)
        assert "AWS::EarlyValidation::ResourceExistenceCheck" in failed["StatusReason"]
    else:
        assert status == "ROLLBACK_COMPLETE"
        assert "already exists" in stack.reasons()


@claim(
    page(
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference-getstackoutput.html",
        "Fn::GetStackOutput creates a weak reference",
    ),
    used_by="stacks/images_stack.py stacks/control_stack.py",
)
def output_of_another_stack_is_read(aws: Aws) -> None:
    """Fn::GetStackOutput reads an output of another stack, and does not prevent the deletion of that stack."""
    giver, taker = Stack(aws), Stack(aws)
    group = {"Group": _group(f"/{aws.name('giver')}", "Delete")}
    giver.deploy(group, Outputs={"Given": {"Value": "from-the-giver"}})
    given = {"Fn::GetStackOutput": {"StackName": giver.name, "OutputName": "Given"}}
    name = {"Fn::Join": ["", [f"/{aws.name('taker')}-", given]]}
    taken = {"Group": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": name}}}
    assert taker.deploy(taken) == "CREATE_COMPLETE", taker.reasons()
    assert taker.id_of("Group").endswith("from-the-giver")
    assert giver.delete() in ("", "DELETE_COMPLETE")
