"""KMS keys, and data that is encrypted with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.resources.identity import document

if TYPE_CHECKING:
    from conformance.aws import Aws
    from conformance.resources.identity import Statement


def key(aws: Aws, *statements: Statement) -> str:
    """Create a key whose policy leaves it to the account's IAM, and has more statements; return its ARN.

    A key costs a dollar a month, by the hour, until its deletion is scheduled
    (https://aws.amazon.com/kms/pricing/).
    """
    kms, whole = aws.client("kms"), {"AWS": f"arn:aws:iam::{aws.account}:root"}
    own = {"Effect": "Allow", "Principal": whole, "Action": "kms:*", "Resource": "*"}
    tags = aws.tags("TagKey", "TagValue")
    made = kms.create_key(Policy=document(own, *statements), Tags=tags)["KeyMetadata"]
    arn, name = str(made["Arn"]), str(made["KeyId"])
    aws.undo.later(f"key {name}", lambda: kms.schedule_key_deletion(KeyId=name, PendingWindowInDays=7))
    return arn


def shared_key(aws: Aws) -> tuple[str, str]:
    """Return the ARN and the alias of a key that claims share."""

    def make() -> tuple[str, str]:
        kms, arn, alias = aws.client("kms"), key(aws), f"alias/{aws.name('key')}"
        aws.undo.later(alias, lambda: kms.delete_alias(AliasName=alias))
        kms.create_alias(AliasName=alias, TargetKeyId=arn)
        return arn, alias

    return aws.once("key", make)
