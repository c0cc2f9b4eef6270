"""Tables, image repositories, parameters and log groups."""

import json
from typing import Any

from localcloud.cloudformation.context import Context, Provisioned, tag_map, without
from localcloud.cloudformation.providers.base import Properties, Provider, changed, provisioned

_TABLE_SETTINGS = ("PointInTimeRecoverySpecification", "TimeToLiveSpecification", "ContributorInsightsSpecification")


class TableProvider(Provider):
    """AWS::DynamoDB::Table; an in-place update by moto 5.2.5 would delete the items."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the table."""
        name = properties.get("TableName") or context.name()
        table = {**without(properties, *_TABLE_SETTINGS), "TableName": name}
        if "SSESpecification" in table:
            encryption = table["SSESpecification"]
            table["SSESpecification"] = {
                **without(encryption, "SSEEnabled"),
                "Enabled": encryption.get("SSEEnabled", True),
            }
        if isinstance(table.get("StreamSpecification"), dict):
            table["StreamSpecification"] = {"StreamEnabled": True, **table["StreamSpecification"]}
        client = context.client("dynamodb")
        description = client.create_table(**context.request("dynamodb", "CreateTable", table))["TableDescription"]
        self._settings(context, name, properties)
        return provisioned(context, kind, name, **_table_attributes(description))

    def find(self, context: Context, kind: str, properties: Properties) -> Provisioned | None:
        """Import a table unchanged."""
        client = context.client("dynamodb")
        name = properties.get("TableName", "")
        try:
            return provisioned(context, kind, name, **_table_attributes(client.describe_table(TableName=name)["Table"]))
        except client.exceptions.ResourceNotFoundException:
            return None

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Update the settings in place."""
        name = old.physical_resource_id
        movable = ("BillingMode", "ProvisionedThroughput", "DeletionProtectionEnabled", "AttributeDefinitions")
        changes = {key: value for key, value in properties.items() if key in movable}
        context.client("dynamodb").update_table(
            **context.request("dynamodb", "UpdateTable", {**changes, "TableName": name})
        )
        self._settings(context, name, properties)
        client = context.client("dynamodb")
        if changed(old, properties, "StreamSpecification"):
            changes = properties.get("StreamSpecification") or {}
            client.update_table(TableName=name, StreamSpecification={"StreamEnabled": bool(changes), **changes})
        for change in _index_changes(old.properties, properties):
            definitions = {"TableName": name, "AttributeDefinitions": properties["AttributeDefinitions"]}
            changes = {**definitions, "GlobalSecondaryIndexUpdates": [change]}
            client.update_table(**context.request("dynamodb", "UpdateTable", changes))
        description = client.describe_table(TableName=name)["Table"]
        return provisioned(context, old.cf_resource_type, name, **_table_attributes(description))

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the table with its items."""
        context.client("dynamodb").delete_table(TableName=resource.physical_resource_id)

    def _settings(self, context: Context, name: str, properties: Properties) -> None:
        client = context.client("dynamodb")
        if "PointInTimeRecoverySpecification" in properties:
            settings = {"TableName": name, **{key: properties[key] for key in _TABLE_SETTINGS[:1]}}
            client.update_continuous_backups(**context.request("dynamodb", "UpdateContinuousBackups", settings))
        if "TimeToLiveSpecification" in properties:
            settings = {"TableName": name, "TimeToLiveSpecification": properties["TimeToLiveSpecification"]}
            client.update_time_to_live(**context.request("dynamodb", "UpdateTimeToLive", settings))


def _index_changes(old: Properties, new: Properties) -> list[dict[str, Any]]:
    """Return the creation or deletion of a global secondary index, at most one of which an update may have.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-dynamodb-table.html; the error
    is recorded in https://github.com/aws/aws-cdk/issues/14920.
    """
    before = {index["IndexName"]: index for index in old.get("GlobalSecondaryIndexes", ())}
    after = {index["IndexName"]: index for index in new.get("GlobalSecondaryIndexes", ())}
    changes = [{"Delete": {"IndexName": name}} for name in before if name not in after]
    changes += [{"Create": index} for name, index in after.items() if name not in before]
    if len(changes) > 1:
        raise ValueError("Cannot perform more than one GSI creation or deletion in a single update")
    return changes


def _table_attributes(described: dict[str, Any]) -> dict[str, str]:
    return {"Arn": described["TableArn"], "StreamArn": described.get("LatestStreamArn", "")}


class RepositoryProvider(Provider):
    """AWS::ECR::Repository; moto 5.2.5 ignores LifecyclePolicy and EmptyOnDelete."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the repository."""
        name = properties.get("RepositoryName") or context.name(lower=True)
        separate = ("LifecyclePolicy", "EmptyOnDelete", "RepositoryPolicyText", "RepositoryName")
        repository = {**without(properties, *separate), "repositoryName": name}
        reply = context.client("ecr").create_repository(**context.request("ecr", "CreateRepository", repository))
        self._policies(context, name, properties)
        attributes = {
            "Arn": reply["repository"]["repositoryArn"],
            "RepositoryUri": reply["repository"]["repositoryUri"],
        }
        return provisioned(context, kind, name, **attributes)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Update in place."""
        name, ecr = old.physical_resource_id, context.client("ecr")
        if "ImageTagMutability" in properties:
            ecr.put_image_tag_mutability(repositoryName=name, imageTagMutability=properties["ImageTagMutability"])
        self._policies(context, name, properties)
        return provisioned(context, old.cf_resource_type, name, **old.attributes)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the repository; delete its images only if EmptyOnDelete is true."""
        force = str(resource.properties.get("EmptyOnDelete", False)).lower() == "true"
        context.client("ecr").delete_repository(repositoryName=resource.physical_resource_id, force=force)

    def _policies(self, context: Context, name: str, properties: Properties) -> None:
        ecr = context.client("ecr")
        if "LifecyclePolicy" in properties:
            text = properties["LifecyclePolicy"]["LifecyclePolicyText"]
            ecr.put_lifecycle_policy(repositoryName=name, lifecyclePolicyText=text)
        if "RepositoryPolicyText" in properties:
            ecr.set_repository_policy(repositoryName=name, policyText=json.dumps(properties["RepositoryPolicyText"]))


class ParameterProvider(Provider):
    """AWS::SSM::Parameter."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the parameter."""
        return self._put(context, kind, properties.get("Name") or context.name(), properties, overwrite=False)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Set the new value."""
        return self._put(context, old.cf_resource_type, old.physical_resource_id, properties, overwrite=True)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the parameter."""
        context.client("ssm").delete_parameter(Name=resource.physical_resource_id)

    def _put(self, context: Context, kind: str, name: str, properties: Properties, *, overwrite: bool) -> Provisioned:
        parameter = {**without(properties, "Tags"), "Name": name, "Overwrite": overwrite}
        context.client("ssm").put_parameter(**context.request("ssm", "PutParameter", parameter))
        return provisioned(context, kind, name, Type=properties["Type"], Value=properties["Value"])


class LogGroupProvider(Provider):
    """AWS::Logs::LogGroup; an in-place update by moto 5.2.5 would delete the streams."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the group."""
        name = properties.get("LogGroupName") or context.name()
        context.client("logs").create_log_group(logGroupName=name, tags=tag_map(properties))
        self._retain(context, name, properties)
        return provisioned(context, kind, name, Arn=context.arn("logs", f"log-group:{name}:*"))

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Update the retention period."""
        self._retain(context, old.physical_resource_id, properties)
        return provisioned(context, old.cf_resource_type, old.physical_resource_id, **old.attributes)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the group with its streams."""
        context.client("logs").delete_log_group(logGroupName=resource.physical_resource_id)

    def _retain(self, context: Context, name: str, properties: Properties) -> None:
        if "RetentionInDays" in properties:
            days = int(properties["RetentionInDays"])
            context.client("logs").put_retention_policy(logGroupName=name, retentionInDays=days)


PROVIDERS: dict[str, Provider] = {
    "AWS::DynamoDB::Table": TableProvider(),
    "AWS::ECR::Repository": RepositoryProvider(),
    "AWS::SSM::Parameter": ParameterProvider(),
    "AWS::Logs::LogGroup": LogGroupProvider(),
}
