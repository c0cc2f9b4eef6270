"""IAM: condition keys in the permissions of the product's roles; each has a call that is allowed, and one refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore import xform_name
from botocore.exceptions import ClientError

from conformance.aws import Aws, refused
from conformance.claim import claim
from conformance.claims.permissions import Submitting
from conformance.claims.service_jobs import ServiceQueue
from conformance.resources import product
from conformance.resources.functions import run_with_role
from conformance.resources.identity import acting_with, allow, role
from conformance.resources.network import interface
from conformance.resources.storage import table
from conformance.sources import page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_REFERENCE = "https://docs.aws.amazon.com/service-authorization/latest/reference/"
_DENIED = ("AccessDeniedException", "AccessDenied", "UnauthorizedOperation")
NETWORK_CALLS: Mapping[str, Mapping[str, Any]] = {
    "AssignPrivateIpAddresses": {"SecondaryPrivateIpAddressCount": 1},
    "CreateNetworkInterface": {},
    "DeleteNetworkInterface": {},
    "DescribeNetworkInterfaces": {},
    "DescribeSubnets": {},
    "UnassignPrivateIpAddresses": {"PrivateIpAddresses": ["10.0.0.9"]},
}
"""Calls of Lambda that connect a function to subnets, with their parameters beside the interface."""


@claim(
    page(f"{_REFERENCE}list_amazoncloudwatch.html", "presence of optional namespace values"),
    used_by="stacks/execution_role.py",
)
def namespace_of_metrics_may_be_limited(aws: Aws) -> None:
    """cloudwatch:namespace limits PutMetricData to one namespace."""
    limited = allow("cloudwatch:PutMetricData", StringEquals={"cloudwatch:namespace": "conformance"})
    api = acting_with(aws, limited)("cloudwatch")
    metrics = [{"MetricName": "none", "Value": 0.0}]
    api.put_metric_data(Namespace="conformance", MetricData=metrics)
    with refused(*_DENIED, text="cloudwatch:PutMetricData"):
        api.put_metric_data(Namespace="another", MetricData=metrics)


@claim(
    page(f"{_REFERENCE}list_amazondynamodb.html", "the first partition key of the table"),
    page(
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html",
        "users to access only the items where the partition key value matches",
    ),
    used_by="stacks/watcher_permissions.py stacks/dataset_registration.py",
)
def partition_of_an_item_may_be_limited(aws: Aws) -> None:
    """dynamodb:LeadingKeys limits calls for one item to the items with one value of the partition key."""
    name, own = table(aws), aws.name("own")
    arn = f"arn:aws:dynamodb:{aws.home}:{aws.account}:table/{name}"
    actions = " ".join(f"dynamodb:{action}" for action in ("PutItem", "GetItem", "UpdateItem", "DeleteItem"))
    limited = product.one_of("dynamodb:LeadingKeys", own)
    api = acting_with(aws, allow(actions, arn, **limited))("dynamodb")

    def calls(partition: str) -> list[Callable[[], Any]]:
        key = {"pk": {"S": partition}, "sk": {"S": "x"}}
        return [
            lambda: api.put_item(TableName=name, Item=key),
            lambda: api.get_item(TableName=name, Key=key),
            lambda: api.update_item(TableName=name, Key=key, UpdateExpression="REMOVE v"),
            lambda: api.delete_item(TableName=name, Key=key),
        ]

    for call in calls(own):
        call()
    for call in calls(aws.name("another")):
        with refused(*_DENIED, text="dynamodb:"):
            call()


@claim(
    page(f"{_REFERENCE}list_amazoneventbridge.html", "Matches the literal string of the source field of the event"),
    used_by="stacks/build_project.py stacks/replication_wait.py",
)
def source_of_events_may_be_limited(aws: Aws) -> None:
    """events:source limits PutEvents to events of one source."""
    bus = f"arn:aws:events:{aws.home}:{aws.account}:event-bus/default"
    limited = allow("events:PutEvents", bus, **product.one_of("events:source", "conformance.own"))
    api = acting_with(aws, limited)("events")
    entry = {"DetailType": "Claim", "Detail": "{}"}
    api.put_events(Entries=[{**entry, "Source": "conformance.own"}])
    with refused(*_DENIED, text="events:PutEvents"):
        api.put_events(Entries=[{**entry, "Source": "conformance.another"}])


@claim(
    page(f"{_REFERENCE}list_awsbatch.html", "aws:TagKeys"),
    used_by="stacks/intake_permissions.py",
)
def tag_keys_of_jobs_may_be_limited(aws: Aws) -> None:
    """aws:TagKeys limits the keys of the tags with which SubmitJob tags a job."""
    it = Submitting(aws)
    tagged = (f"arn:aws:batch:{aws.home}:{aws.account}:job/*", it.batch.queue, it.definition)
    for key, allowed in ((next(iter(aws.tag_map)), True), ("another", False)):
        limited = allow("batch:TagResource", *tagged, **product.one_of("aws:TagKeys", key))
        if allowed:
            assert it.by(it.queue, it.definitions, limited)
            continue
        with refused(*_DENIED, text="batch:TagResource"):
            it.by(it.queue, it.definitions, limited)


@claim(
    page(f"{_REFERENCE}list_awsbatch.html", "aws:RequestTag/${TagKey}"),
    used_by="stacks/queue_permissions.py",
    trainings=1,
)
def service_job_is_submitted_under_the_conditions_of_a_child(aws: Aws) -> None:
    """aws:RequestTag lets a role submit a service job with the grid's tags, and no other; aws:ResourceTag, end it."""
    queue, jobs = ServiceQueue.of(aws), f"arn:aws:batch:{aws.home}:{aws.account}:service-job/*"
    where = (f"arn:aws:batch:{aws.home}:{aws.account}:job-queue/{queue.name}", jobs)
    child = acting_with(
        aws,
        allow("batch:SubmitServiceJob batch:TagResource", *where, **product.submission_conditions()),
        allow("batch:TerminateServiceJob", jobs, **product.own_resources()),
        allow("iam:PassRole", queue.training.role, StringEquals={"iam:PassedToService": "sagemaker.amazonaws.com"}),
    )("batch")
    tags = aws.tag_map | {tag["Key"]: tag["Value"] for tag in product.tags()}
    job = queue.submit(queue.request(tags=tags), child)
    child.terminate_service_job(jobId=job, reason="the claim")
    for missing in (product.TAG_GRID, *product.TAGS_OF_A_LINE):
        with refused(*_DENIED, text="batch:"):
            fewer = {key: value for key, value in tags.items() if key != missing}
            child.submit_service_job(**queue.request(tags=fewer))
    another = queue.submit(queue.request(tags=aws.tag_map))
    with refused(*_DENIED, text="batch:TerminateServiceJob"):
        child.terminate_service_job(jobId=another, reason="the claim")


@claim(
    page(f"{_REFERENCE}list_amazonec2.html", "Filters access by the ARN of the subnet"),
    used_by="stacks/execution_role.py",
)
def subnet_of_interfaces_may_be_limited(aws: Aws) -> None:
    """ec2:Subnet limits the deletion of network interfaces, and permissions on them, to the interfaces of a subnet."""
    subnet, name = interface(aws)
    interfaces = f"arn:aws:ec2:{aws.home}:{aws.account}:network-interface/*"
    for of, allowed in ((subnet, True), ("subnet-0fedcba9876543210", False)):
        arn = f"arn:aws:ec2:{aws.home}:{aws.account}:subnet/{of}"
        actions = "ec2:DeleteNetworkInterface ec2:CreateNetworkInterfacePermission"
        api = acting_with(aws, allow(actions, interfaces, ArnEquals={"ec2:Subnet": arn}))("ec2")
        given = {"AwsAccountId": aws.account, "Permission": "INSTANCE-ATTACH"}
        for call, more in ((api.delete_network_interface, {}), (api.create_network_interface_permission, given)):
            with refused("DryRunOperation" if allowed else "UnauthorizedOperation"):
                call(NetworkInterfaceId=name, DryRun=True, **more)


@claim(
    page(
        "https://docs.aws.amazon.com/lambda/latest/dg/permissions-source-function-arn.html",
        "API request that comes from within your execution environment",
    ),
    used_by="stacks/event_function.py",
)
def code_of_a_function_may_be_denied_its_network(aws: Aws) -> None:
    """lambda:SourceFunctionArn is a key of calls by a function's code, and not of other calls with its permissions."""
    subnet, name = interface(aws)
    actions = " ".join(f"ec2:{action}" for action in NETWORK_CALLS)
    statements = (allow(actions), product.denied_to_code(actions))
    outside = acting_with(aws, *statements)("ec2")
    requests = {call: _request(call, subnet, name) for call in NETWORK_CALLS}
    logs = allow("logs:CreateLogStream logs:PutLogEvents")
    trusting = role(aws, "networked", {"Service": "lambda.amazonaws.com"}, logs, *statements)
    inside = run_with_role(aws, trusting, requests)
    for call, request in requests.items():
        assert _answer(outside, call, request) != "UnauthorizedOperation", call
        assert inside[call] == "UnauthorizedOperation", call


def _request(call: str, subnet: str, interface_id: str) -> dict[str, Any]:
    """Return a request: a dry run, if the call has it, in which EC2 only answers whether it is permitted."""
    dry: dict[str, Any] = {} if "Private" in call else {"DryRun": True}
    of = {"CreateNetworkInterface": {"SubnetId": subnet}, "DescribeNetworkInterfaces": {}, "DescribeSubnets": {}}
    return {**dry, **of.get(call, {"NetworkInterfaceId": interface_id}), **NETWORK_CALLS[call]}


def _answer(api: Any, call: str, request: Mapping[str, Any]) -> str:
    try:
        getattr(api, xform_name(call))(**request)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""
