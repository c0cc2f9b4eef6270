"""KMS keys of a call: determines the key that a request uses, and evaluates its policy.

A service that encrypts with a customer managed key calls KMS with the caller's permissions; policies see this as
`kms:ViaService` (https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html).
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from moto.dynamodb.models import dynamodb_backends
from moto.kms.models import kms_backends
from moto.s3.models import s3_backends
from moto.sns.models import sns_backends
from moto.sqs.models import sqs_backends

from localcloud.credentials.arn import name_of_arn
from localcloud.iam.request_keys import Context
from localcloud.iam.resource_policies import allows_principal


def keys_of(service: str, operation: str, parameters: Mapping[str, Any], region: str, account: str) -> Iterator[str]:
    """Yield the ARN of the customer managed key that a call to S3, DynamoDB, SQS or SNS uses, if any.

    Args:
        service: The signing name of the service.
        account: The account of the caller.
    """
    key: str | None = None
    if service == "s3":
        key = _key_of_object(operation, parameters)
    elif service == "sqs":
        queue = str(parameters.get("QueueName") or str(parameters.get("QueueUrl") or "").rpartition("/")[2])
        queue_object = sqs_backends[account][region].queues.get(queue)
        key = getattr(queue_object, "kms_master_key_id", None)
    elif service == "sns" and operation == "Publish":
        topic = sns_backends[account][region].topics.get(str(parameters.get("TopicArn") or ""))
        key = topic.kms_master_key_id if topic else None
    elif service == "dynamodb":
        table = dynamodb_backends[account][region].tables.get(str(parameters.get("TableName") or "").rpartition("/")[2])
        specified = (table.sse_specification if table else None) or {}
        key = specified.get("KMSMasterKeyId") if specified.get("Enabled") else None
    arn = key_arn(key, region, account) if key else None
    if arn:
        yield arn


def key_arn(key: str, region: str, account: str) -> str | None:
    """Return a key's ARN by its id, alias or their ARN; None if the key does not exist."""
    if key.startswith("arn:"):
        region, account = key.split(":")[3:5]
    backend = kms_backends[account][region]
    with suppress(KeyError, AttributeError, TypeError):
        return str(backend.keys[backend.any_id_to_key_id(key)].arn)
    return None


def key_context(key: str, service: str) -> Context:
    """Return the condition keys of a service's call to KMS for a caller; `key` is the ARN of the key."""
    region, account = key.split(":")[3:5]
    key_object = kms_backends[account][region].keys.get(key.rpartition("/")[2])
    context: Context = {"kms:CallerAccount": account}
    if key_object:
        context["kms:ResourceAliases"] = list(key_object.aliases)
    return context | ({"kms:ViaService": f"{service}.{region}.amazonaws.com"} if service != "kms" else {})


def key_policy_allows(key: str, action: str, principal: str, context: Context) -> bool:
    """Return True if a key's policy allows an action to a principal, or to its account, whose IAM then decides.

    Args:
        key: The ARN of the key; a key that does not exist is allowed, so that KMS returns its own error.
        action: For example "kms:Decrypt".
        principal: The ARN of the role.
        context: The condition keys of the request.
    """
    policy = key_policy(key, *key.split(":")[3:5])
    return policy is None or allows_principal(policy, action, principal, context)


def key_policy(key: str, region: str, account: str) -> dict[str, Any] | None:
    """Return the policy of a key by its id, alias or their ARN; None if the key does not exist."""
    arn = key_arn(key, region, account)
    key_object = kms_backends[account][region].keys.get(name_of_arn(arn)) if arn else None
    return json.loads(key_object.policy) if key_object else None


def _key_of_object(operation: str, parameters: Mapping[str, Any]) -> str | None:
    """Return the key of the object to read, or the bucket's default key for an object to write."""
    name = str(parameters.get("Bucket") or "")
    if name not in s3_backends.bucket_accounts:
        return None
    partition, account = s3_backends.bucket_accounts[name]
    bucket = s3_backends[account][partition].buckets[name]
    if operation in ("GetObject", "HeadObject"):
        read = s3_backends[account][partition].get_object(
            name, str(parameters.get("Key") or ""), version_id=parameters.get("versionId")
        )
        key = getattr(read, "kms_key_id", None) if getattr(read, "encryption", None) == "aws:kms" else None
    else:
        default = ((bucket.encryption or {}).get("Rule") or {}).get("ApplyServerSideEncryptionByDefault") or {}
        key = default.get("KMSMasterKeyID") if default.get("SSEAlgorithm") == "aws:kms" else None
    return key_arn(key, bucket.region_name, account) if key else None
