"""KMS keys and their aliases; moto 5.2.5's own model of a key fails on CloudFormation's tags."""

import json
from contextlib import suppress
from typing import Any

from botocore.exceptions import ClientError

from localcloud.cloudformation.context import Context, Provisioned
from localcloud.cloudformation.providers.base import Properties, Provider, changed, provisioned


class KeyProvider(Provider):
    """AWS::KMS::Key."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the key; the key id is the resource's id."""
        kms = context.client("kms")
        tags = [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in properties.get("Tags", [])]
        metadata = kms.create_key(
            Policy=json.dumps(properties["KeyPolicy"]), Description=properties.get("Description", ""), Tags=tags
        )["KeyMetadata"]
        self._rotate(kms, metadata["KeyId"], properties)
        return provisioned(context, kind, metadata["KeyId"], Arn=metadata["Arn"], KeyId=metadata["KeyId"])

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Set policy, description and rotation in place; these never replace a key."""
        kms, key = context.client("kms"), old.physical_resource_id
        if changed(old, properties, "KeySpec", "KeyUsage", "MultiRegion"):
            return self.create(context, old.cf_resource_type, properties)
        kms.put_key_policy(KeyId=key, PolicyName="default", Policy=json.dumps(properties["KeyPolicy"]))
        kms.update_key_description(KeyId=key, Description=properties.get("Description", ""))
        self._rotate(kms, key, properties)
        return provisioned(context, old.cf_resource_type, key, **old.attributes)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Schedule the deletion; encrypted data remains readable until then."""
        days = int(resource.properties.get("PendingWindowInDays", 30))
        context.client("kms").schedule_key_deletion(KeyId=resource.physical_resource_id, PendingWindowInDays=days)

    def _rotate(self, kms: Any, key: str, properties: Properties) -> None:
        if str(properties.get("EnableKeyRotation", False)).lower() == "true":
            kms.enable_key_rotation(KeyId=key)
        else:
            kms.disable_key_rotation(KeyId=key)


class AliasProvider(Provider):
    """AWS::KMS::Alias."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the alias; its name is the resource's id."""
        name = properties["AliasName"]
        context.client("kms").create_alias(AliasName=name, TargetKeyId=properties["TargetKeyId"])
        return provisioned(context, kind, name)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Point the alias to another key."""
        context.client("kms").update_alias(AliasName=properties["AliasName"], TargetKeyId=properties["TargetKeyId"])
        return provisioned(context, old.cf_resource_type, old.physical_resource_id)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the alias; the key remains."""
        with suppress(ClientError):  # the alias may no longer exist
            context.client("kms").delete_alias(AliasName=resource.physical_resource_id)


PROVIDERS: dict[str, Provider] = {"AWS::KMS::Key": KeyProvider(), "AWS::KMS::Alias": AliasProvider()}
