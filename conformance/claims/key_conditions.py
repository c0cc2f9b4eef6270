"""KMS: condition keys in permissions on keys, and in the policies of keys."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from conformance.aws import Aws, refused
from conformance.claim import claim
from conformance.resources.events import Inbox, rule
from conformance.resources.identity import acting_with, allow
from conformance.resources.keys import key, shared_key
from conformance.resources.product import trust_conditions
from conformance.resources.storage import bucket, table
from conformance.sources import page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DENIED = ("AccessDeniedException", "AccessDenied", "KMSAccessDenied", "KMS.AccessDeniedException")
_REFERENCE = "https://docs.aws.amazon.com/service-authorization/latest/reference/list_awskeymanagementservice.html"
_USE = "kms:Decrypt kms:GenerateDataKey"
Calls = list["Callable[[Any], Any]"]


def _in_s3(aws: Aws, arn: str) -> Calls:
    name, s3 = bucket(aws), aws.client("s3")
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": arn}
    rules = {"Rules": [{"ApplyServerSideEncryptionByDefault": default}]}
    s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration=rules)
    s3.put_object(Bucket=name, Key="there", Body=b"x")
    return [
        lambda api: api.put_object(Bucket=name, Key="x", Body=b"x"),
        lambda api: api.get_object(Bucket=name, Key="there"),
    ]


def _in_dynamodb(aws: Aws, arn: str) -> Calls:
    name = table(aws, key=arn)
    item = {"pk": {"S": "x"}, "sk": {"S": "x"}}
    return [lambda api: api.get_item(TableName=name, Key=item)]


def _in_sqs(aws: Aws, arn: str) -> Calls:
    sqs, name = aws.client("sqs"), aws.name("encrypted")
    url = sqs.create_queue(QueueName=name, Attributes={"KmsMasterKeyId": arn}, tags=aws.tag_map)["QueueUrl"]
    aws.undo.later(f"queue {name}", lambda: sqs.delete_queue(QueueUrl=url))
    return [lambda api: api.send_message(QueueUrl=url, MessageBody="x")]


def _in_sns(aws: Aws, arn: str) -> Calls:
    sns, name = aws.client("sns"), aws.name("encrypted")
    topic = sns.create_topic(Name=name, Attributes={"KmsMasterKeyId": arn}, Tags=aws.tags())["TopicArn"]
    aws.undo.later(f"topic {name}", lambda: sns.delete_topic(TopicArn=topic))
    return [lambda api: api.publish(TopicArn=topic, Message="x")]


_CALLS: Mapping[str, Callable[[Aws, str], Calls]] = {
    "s3": _in_s3,
    "dynamodb": _in_dynamodb,
    "sqs": _in_sqs,
    "sns": _in_sns,
}
"""Functions that encrypt a resource of a service with a key, and return calls that use it."""


@claim(
    page(_REFERENCE, "request made on the principal's behalf comes from a specified AWS service"),
    page(
        "https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html",
        "KMS key to requests from specified AWS services",
    ),
    used_by="stacks/keys.py",
)
def key_may_be_limited_to_a_service(aws: Aws) -> None:
    """kms:ViaService allows S3, DynamoDB, SQS and SNS to use a key for a role, and refuses calls for other services."""
    arn, _ = shared_key(aws)
    for service, encrypted in _CALLS.items():
        calls = aws.once(f"encrypted/{service}", partial(encrypted, aws, arn))
        for via, allowed in ((service, True), ("sqs" if service == "s3" else "s3", False)):
            limited = allow(_USE, arn, StringEquals={"kms:ViaService": f"{via}.{aws.home}.amazonaws.com"})
            api = acting_with(aws, allow(f"{service}:*"), limited)(service)
            for call in calls:
                if allowed:
                    call(api)
                    continue
                with refused(*_DENIED, text="kms:"):
                    call(api)


@claim(
    page(_REFERENCE, "aliases associated with the AWS KMS key"),
    page(
        "https://docs.aws.amazon.com/kms/latest/developerguide/alias-authorization.html",
        "based on the aliases associated with the KMS key",
    ),
    used_by="stacks/keys.py",
)
def key_may_be_limited_to_its_alias(aws: Aws) -> None:
    """kms:ResourceAliases allows the use of a key by one of its aliases, and refuses keys without this alias."""
    arn, alias = shared_key(aws)
    calls = aws.once("encrypted/s3", lambda: _in_s3(aws, arn))
    keys = f"arn:aws:kms:{aws.home}:{aws.account}:key/*"
    for name, allowed in ((alias, True), ("alias/another", False)):
        limited = allow(_USE, keys, **{"ForAnyValue:StringEquals": {"kms:ResourceAliases": name}})
        api = acting_with(aws, allow("s3:*"), limited)("s3")
        for call in calls:
            if allowed:
                call(api)
                continue
            with refused("AccessDenied", text="kms:"):
                call(api)


@claim(
    page(
        "https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html",
        "restricts the key to a single log group ARN",
    ),
    page(
        "https://github.com/hashicorp/terraform-provider-aws/issues/29282",
        "is not allowed to be used with Arn",
    ),
    used_by="stacks/keys.py",
)
def key_may_be_limited_to_log_groups(aws: Aws) -> None:
    """kms:EncryptionContext:aws:logs:arn lets CloudWatch Logs use a key for some log groups, and not for others."""
    logs = aws.client("logs")
    actions = [f"kms:{action}*" for action in ("Encrypt", "Decrypt", "ReEncrypt", "GenerateDataKey", "Describe")]
    for groups, allowed in (("*", True), ("another", False)):
        condition = {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": _groups(aws, groups)}}
        arn = key(aws, _for(f"logs.{aws.home}.amazonaws.com", actions, condition))
        name = aws.name("encrypted")
        if allowed:
            aws.undo.later(f"log group {name}", partial(logs.delete_log_group, logGroupName=name))
            logs.create_log_group(logGroupName=name, kmsKeyId=arn, tags=aws.tag_map)
            continue
        with refused("AccessDeniedException", text="is not allowed to be used with"):
            logs.create_log_group(logGroupName=name, kmsKeyId=arn)


@claim(
    page(
        "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html",
        "SSE enabled Amazon SQS queues, the following services support aws:SourceArn",
    ),
    used_by="stacks/keys.py",
)
def key_may_be_limited_to_rules(aws: Aws) -> None:
    """EventBridge uses the key of a queue whose policy requires aws:SourceAccount and the ARN of a rule."""
    source, boxes = f"conformance.key.{aws.run}.{aws.name('s')}", dict[str, Inbox]()
    for account in ("000000000000", aws.account):
        condition = trust_conditions(account, f"arn:aws:events:*:{aws.account}:rule/*")
        arn = key(aws, _for("events.amazonaws.com", ["kms:Decrypt", "kms:GenerateDataKey*"], condition))
        boxes[account] = Inbox(aws, key=arn)
        rule(aws, {"source": [source]}, {"Arn": boxes[account].arn})

    def arrived() -> bool:
        aws.client("events").put_events(Entries=[{"Source": source, "DetailType": "Claim", "Detail": "{}"}])
        return bool(boxes[aws.account].messages())

    aws.wait(arrived, "the event in the encrypted queue", seconds=aws.seconds(200))
    assert boxes["000000000000"].messages() == []


def _groups(aws: Aws, name: str) -> str:
    return f"arn:aws:logs:{aws.home}:{aws.account}:log-group:{name}"


def _for(service: str, actions: list[str], condition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a statement of a key's policy for a service."""
    return {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": actions,
        "Resource": "*",
        "Condition": condition,
    }
