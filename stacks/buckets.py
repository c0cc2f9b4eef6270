"""Buckets: private and encrypted, TLS only, retained when their stack is deleted."""

from typing import cast

from aws_cdk import Aws, Duration, RemovalPolicy, Stack, Token
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.grants import KEYS_OF_AWS, acknowledge_all, skip_in_checkov


def private_bucket(scope: Construct, identifier: str, *, name: str, versioned: bool, key: kms.IKey | None) -> s3.Bucket:
    """Return a new bucket without public access that is retained when its stack is deleted.

    It encrypts with `key`, or with S3's own keys if that is None. Old versions are deleted after 90 days, and the parts
    of incomplete uploads after 7 days.
    """
    bucket = s3.Bucket(
        scope,
        identifier,
        bucket_name=_as_it_is_in_the_account(scope, name),
        versioned=versioned,
        encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
        encryption_key=key,
        bucket_key_enabled=True if key else None,  # one call to KMS for many objects
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        lifecycle_rules=[
            s3.LifecycleRule(
                abort_incomplete_multipart_upload_after=Duration.days(7),
                noncurrent_version_expiration=Duration.days(90) if versioned else None,
            )
        ],
    )
    _acknowledge(bucket, key)
    return bucket


def _as_it_is_in_the_account(scope: Construct, name: str) -> str:
    """Return a bucket's name with the account's digits in it if the CDK gets them: `-c account=123456789012`.

    That account is the account of every stack for which grid.yaml names no other.

    CloudFormation can only import a bucket that an earlier deployment has retained if the template contains its name
    literally, not as an expression
    (https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/import-resources-automatically.html).
    """
    account = scope.node.try_get_context("account")
    if not account:
        return name
    stack_account = Stack.of(scope).account
    return name.replace(Aws.ACCOUNT_ID, str(account) if Token.is_unresolved(stack_account) else stack_account)


def _acknowledge(bucket: s3.Bucket, key: kms.IKey | None) -> None:
    """Record why a bucket has no access logs, no copy in another Region and, without `key`, no key in KMS."""
    logs = (
        "The account's CloudTrail data events record access to objects, for all buckets in one place; server access "
        "logs are best-effort, and would require another bucket in every Region"
    )
    reasons = {
        "AwsSolutions-S1": logs,
        "NIST.800.53.R5-S3BucketLoggingEnabled": logs,
        "NIST.800.53.R5-S3BucketReplicationEnabled": (
            "The data of a Region may have to stay in its jurisdiction, so nothing is copied to another Region"
        ),
    }
    acknowledge_all(bucket, reasons if key else {**reasons, "NIST.800.53.R5-S3DefaultEncryptionKMS": KEYS_OF_AWS})
    skip_in_checkov(bucket, "CKV_AWS_18", logs)


def send_object_events(bucket: s3.Bucket) -> None:
    """Make a bucket send the events of its objects to EventBridge.

    Sets the property of the resource itself. The L2 argument `event_bridge_enabled` would deploy a custom resource: a
    Lambda function whose role may change the notifications of every bucket.
    """
    resource = cast(s3.CfnBucket, bucket.node.default_child)
    resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
        event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
    )
