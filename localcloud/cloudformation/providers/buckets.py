"""Buckets and their policies."""

import json
from typing import Any

from localcloud.cloudformation.context import Context, Provisioned, ProvisioningError, snake
from localcloud.cloudformation.providers.base import Drift, Properties, Provider, provisioned
from localcloud.cloudformation.providers.lifecycle_rules import lifecycle_rules

_BUCKET_PROPERTIES = frozenset(
    {
        "BucketName", "VersioningConfiguration", "NotificationConfiguration", "PublicAccessBlockConfiguration",
        "BucketEncryption", "LifecycleConfiguration", "OwnershipControls", "LoggingConfiguration", "Tags",
        "AccessControl",
    }
)  # fmt: skip


class BucketProvider(Provider):
    """AWS::S3::Bucket; moto 5.2.5 applies encryption and tags only."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the bucket in the stack's Region and configure it."""
        name = properties.get("BucketName") or context.name(63, lower=True)
        place = {} if context.region == "us-east-1" else {"LocationConstraint": context.region}
        options = {"CreateBucketConfiguration": place} if place else {}
        _refuse_existing(context, name)
        context.client("s3").create_bucket(Bucket=name, **options)
        self._configure(context, name, properties)
        return provisioned(context, kind, name, **_attributes(context, name))

    def find(self, context: Context, kind: str, properties: Properties) -> Provisioned | None:
        """Import a bucket unchanged."""
        name = properties.get("BucketName", "")
        return provisioned(context, kind, name, **_attributes(context, name)) if _exists(context, name) else None

    def drift(self, context: Context, resource: Provisioned) -> Drift:
        """Return "deleted" if the bucket does not exist."""
        return "" if _exists(context, resource.physical_resource_id) else "deleted"

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Configure the bucket in place."""
        self._configure(context, old.physical_resource_id, properties)
        return provisioned(context, old.cf_resource_type, old.physical_resource_id, **old.attributes)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the bucket, which must be empty."""
        context.client("s3").delete_bucket(Bucket=resource.physical_resource_id)

    def _configure(self, context: Context, name: str, properties: Properties) -> None:
        unknown = set(properties) - _BUCKET_PROPERTIES
        if unknown:
            message = f"localcloud does not support the bucket properties {sorted(unknown)}"
            raise ProvisioningError(message)
        s3 = context.client("s3")
        if "AccessControl" in properties:  # LogDeliveryWrite in CloudFormation, log-delivery-write in S3
            s3.put_bucket_acl(Bucket=name, ACL=snake(properties["AccessControl"]).replace("_", "-"))
        if "VersioningConfiguration" in properties:
            s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=properties["VersioningConfiguration"])
        bridge = properties.get("NotificationConfiguration", {}).get("EventBridgeConfiguration")
        is_on = bridge is not None and str(bridge.get("EventBridgeEnabled", True)).lower() == "true"
        s3.put_bucket_notification_configuration(
            Bucket=name, NotificationConfiguration={"EventBridgeConfiguration": {}} if is_on else {}
        )
        for key, put in (
            ("PublicAccessBlockConfiguration", s3.put_public_access_block),
            ("OwnershipControls", s3.put_bucket_ownership_controls),
        ):
            if key in properties:
                operation = "PutPublicAccessBlock" if key.startswith("Public") else "PutBucketOwnershipControls"
                put(**context.request("s3", operation, {"Bucket": name, key: properties[key]}))
        if "BucketEncryption" in properties:
            s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration={"Rules": _encryption(properties)})
        if "LifecycleConfiguration" in properties:
            rules = lifecycle_rules(properties["LifecycleConfiguration"]["Rules"])
            s3.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": rules})
        if "LoggingConfiguration" in properties:
            logging = properties["LoggingConfiguration"]
            target = logging.get("DestinationBucketName", name)
            enabled = {"TargetBucket": target, "TargetPrefix": logging.get("LogFilePrefix", "")}
            s3.put_bucket_logging(Bucket=name, BucketLoggingStatus={"LoggingEnabled": enabled})
        if "Tags" in properties:
            s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": properties["Tags"]})


def _attributes(context: Context, name: str) -> dict[str, str]:
    return {
        "Arn": f"arn:aws:s3:::{name}",
        "DomainName": f"{name}.s3.amazonaws.com",
        "RegionalDomainName": f"{name}.s3.{context.region}.amazonaws.com",
    }


def _refuse_existing(context: Context, name: str) -> None:
    """Refuse a name that a retained bucket uses; in us-east-1, CreateBucket alone would not report it."""
    if name in {bucket["Name"] for bucket in context.client("s3").list_buckets()["Buckets"]}:
        message = (
            f"Resource of type 'AWS::S3::Bucket' with identifier '{name}' already exists. "
            "A deleted stack keeps its retained buckets: import the bucket, or empty and delete it."
        )
        raise ProvisioningError(message)


def _encryption(properties: Properties) -> list[dict[str, Any]]:
    rules = []
    for rule in properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]:
        converted = {"ApplyServerSideEncryptionByDefault": rule["ServerSideEncryptionByDefault"]}
        if "BucketKeyEnabled" in rule:
            converted["BucketKeyEnabled"] = str(rule["BucketKeyEnabled"]).lower() == "true"
        rules.append(converted)
    return rules


def _exists(context: Context, bucket: str) -> bool:
    return bucket in {existing["Name"] for existing in context.client("s3").list_buckets()["Buckets"]}


class BucketPolicyProvider(Provider):
    """AWS::S3::BucketPolicy, unknown to moto 5.2.5."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Set the policy; the bucket's name is the id."""
        bucket = properties["Bucket"]
        context.client("s3").put_bucket_policy(Bucket=bucket, Policy=json.dumps(properties["PolicyDocument"]))
        return provisioned(context, kind, bucket)

    def drift(self, context: Context, resource: Provisioned) -> Drift:
        """Return "deleted" if the bucket does not exist, because its policy is deleted with it."""
        return "" if _exists(context, resource.physical_resource_id) else "deleted"

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Replace the policy."""
        return self.create(context, old.cf_resource_type, properties)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the policy."""
        context.client("s3").delete_bucket_policy(Bucket=resource.physical_resource_id)


PROVIDERS: dict[str, Provider] = {
    "AWS::S3::Bucket": BucketProvider(),
    "AWS::S3::BucketPolicy": BucketPolicyProvider(),
}
