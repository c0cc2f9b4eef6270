"""IAM: condition keys in the policies of buckets, queues, topics and event buses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.aws import Aws, refused
from conformance.claim import claim, documented
from conformance.resources.events import Inbox, bus, rule
from conformance.resources.identity import allow, document, role
from conformance.resources.product import trust_conditions
from conformance.resources.storage import bucket
from conformance.sources import page

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEYS = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html"
_S3 = "https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html"
_TRANSPORT = page(_KEYS, "you can allow specific actions only if the request is sent using")
_NOT_DENIED = {"Bool": {"aws:SecureTransport": "false"}}
_DENIED = {"Bool": {"aws:SecureTransport": "true"}}
"""All clients here use TLS: the value of the product's denial, and the other value, whose denial must apply to them."""


def _deny(actions: str, *resources: str, **conditions: Any) -> dict[str, Any]:
    denial = {"Effect": "Deny", "Principal": {"AWS": "*"}, "Action": actions, "Resource": list(resources)}
    return {**denial, "Condition": conditions}


@claim(
    _TRANSPORT,
    page(_S3, "Filters access by the TLS version used by the client"),
    used_by="stacks/buckets.py",
)
def bucket_knows_the_transport(aws: Aws) -> None:
    """S3 compares aws:SecureTransport and s3:TlsVersion of a request, so a denial of plain HTTP admits TLS 1.2."""
    name, s3 = bucket(aws), aws.client("s3")
    objects = f"arn:aws:s3:::{name}/denied/*"  # the policy of the bucket itself must stay removable
    aws.undo.later(f"policy of {name}", lambda: s3.delete_bucket_policy(Bucket=name))
    old, new = ({"NumericLessThan": {"s3:TlsVersion": version}} for version in ("1.2", "9"))
    for conditions, allowed in ((_NOT_DENIED, True), (old, True), (_DENIED, False), (new, False)):
        s3.put_bucket_policy(Bucket=name, Policy=document(_deny("s3:*", objects, **conditions)))
        if allowed:
            s3.put_object(Bucket=name, Key="denied/x", Body=b"x")
            s3.get_object(Bucket=name, Key="denied/x")
            continue
        with refused("AccessDenied", "403"):
            s3.get_object(Bucket=name, Key="denied/x")


@claim(_TRANSPORT, used_by="stacks/dead_letters.py stacks/alarm_actions.py")
def queue_and_topic_know_the_transport(aws: Aws) -> None:
    """SQS and SNS compare aws:SecureTransport of a request, so a denial of plain HTTP admits TLS."""
    sqs, sns, name = aws.client("sqs"), aws.client("sns"), aws.name("transport")
    url = sqs.create_queue(QueueName=name, tags=aws.tag_map)["QueueUrl"]
    aws.undo.later(f"queue {name}", lambda: sqs.delete_queue(QueueUrl=url))
    topic = sns.create_topic(Name=name, Tags=aws.tags())["TopicArn"]
    aws.undo.later(f"topic {name}", lambda: sns.delete_topic(TopicArn=topic))
    queue = f"arn:aws:sqs:{aws.home}:{aws.account}:{name}"
    for conditions, allowed in ((_NOT_DENIED, True), (_DENIED, False)):
        policy = document(_deny("sqs:SendMessage", queue, **conditions))
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
        publish = document({**_deny("sns:Publish", topic, **conditions), "Principal": "*"})
        sns.set_topic_attributes(TopicArn=topic, AttributeName="Policy", AttributeValue=publish)
        if allowed:
            sqs.send_message(QueueUrl=url, MessageBody="x")
            sns.publish(TopicArn=topic, Message="x")
            continue
        with refused("AccessDenied", "AccessDeniedException"):
            sqs.send_message(QueueUrl=url, MessageBody="x")
        with refused("AuthorizationError"):
            sns.publish(TopicArn=topic, Message="x")


@claim(
    page(
        "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html",
        "To add permissions that enable EventBridge rules to invoke an SQS queue",
    ),
    used_by="stacks/dead_letters.py stacks/event_function.py stacks/event_forwarding.py",
)
def queue_admits_events_of_a_rule(aws: Aws) -> None:
    """EventBridge sends to a queue whose policy requires the ARN of its rule, also with aws:SourceAccount."""
    source, boxes = f"conformance.queue.{aws.name('s')}", dict[str, Inbox]()
    for kind in ("elsewhere", "equal", "account"):
        boxes[kind] = box = Inbox(aws)
        arn = rule(aws, {"source": [source]}, {"Arn": box.arn})
        box.admit(_from_rule(kind, aws.account, arn))

    def arrived() -> bool:
        aws.client("events").put_events(Entries=[{"Source": source, "DetailType": "Claim", "Detail": "{}"}])
        return bool(boxes["equal"].messages() and boxes["account"].messages())

    aws.wait(arrived, "the events of both rules", seconds=aws.seconds(200))
    assert boxes["elsewhere"].messages() == []


def _from_rule(kind: str, account: str, arn: str) -> Mapping[str, Any]:
    """Return the conditions of dead letters ("equal"), of a queue of events ("account"), or those of another rule."""
    if kind == "account":
        return trust_conditions(account, arn)
    return {"ArnEquals": {"aws:SourceArn": arn if kind == "equal" else f"{arn}-another"}}


@claim(
    page(_KEYS, "For IAM roles, the request context returns the ARN of the role"),
    used_by="stacks/home_event_bus.py stacks/accounts.py stacks/registry.py",
)
def bus_may_be_limited_to_a_role(aws: Aws) -> None:
    """aws:PrincipalArn in the policy of a bus admits rules that send with one role, and no other."""
    events, (name, arn) = aws.client("events"), bus(aws)
    put = allow("events:PutEvents", arn)
    known, another = (role(aws, what, {"Service": "events.amazonaws.com"}, put) for what in ("known", "another"))
    whole = {"AWS": f"arn:aws:iam::{aws.account}:root"}
    statement = {"Effect": "Allow", "Principal": whole, "Action": "events:PutEvents", "Resource": arn}
    limited = {"Sid": "role", **statement, "Condition": {"ArnEquals": {"aws:PrincipalArn": known}}}
    events.put_permission(EventBusName=name, Policy=document(limited))
    pattern = {"source": [f"conformance.{name}"]}
    aws.wait(lambda: rule(aws, pattern, {"Arn": arn, "RoleArn": known}), "the rule with the role")
    with refused("AccessDeniedException"):
        rule(aws, pattern, {"Arn": arn, "RoleArn": another})


@documented(
    page(
        "https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-access.html",
        "global context keys that reference system-generated identifiers (for example, aws:PrincipalAccount",
    ),
    page(_KEYS, "the account to which the requesting principal belongs"),
    used_by="stacks/endpoints.py",
    why="it takes endpoints in a VPC, and a program behind them",
)
def endpoint_knows_the_account_of_a_caller(aws: Aws) -> None:
    """aws:PrincipalAccount in the policy of a VPC endpoint is the account of the caller, for all services."""


@documented(
    page(_KEYS, "For IAM roles, the request context returns the ARN of the role"),
    used_by="stacks/registry.py",
    why="within one account, the policy of a repository is not needed: it takes two accounts",
)
def repository_may_be_limited_to_a_role(aws: Aws) -> None:
    """aws:PrincipalArn in the policy of a repository admits one role of another account."""
