"""Scheduling policies and quota shares of AWS Batch; `compute` provides its queues and environments."""

from localcloud.cloudformation.context import Context, Provisioned, without
from localcloud.cloudformation.providers.base import Properties, Provider, provisioned


class SchedulingPolicyProvider(Provider):
    """AWS::Batch::SchedulingPolicy; its kind and its name cannot change."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the policy; its ARN is the id."""
        policy = {**properties, "Name": properties.get("Name") or context.name(128)}
        request = context.request("batch", "CreateSchedulingPolicy", policy)
        arn = context.client("batch").create_scheduling_policy(**request)["arn"]
        return provisioned(context, kind, arn, Arn=arn)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Update the shares in place."""
        policy = {**without(properties, "Name", "Tags"), "Arn": old.physical_resource_id}
        context.client("batch").update_scheduling_policy(**context.request("batch", "UpdateSchedulingPolicy", policy))
        return provisioned(context, old.cf_resource_type, old.physical_resource_id, **old.attributes)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the policy."""
        context.client("batch").delete_scheduling_policy(arn=resource.physical_resource_id)


class QuotaShareProvider(Provider):
    """AWS::Batch::QuotaShare."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the quota share; its ARN is the id."""
        share = {**properties, "QuotaShareName": properties.get("QuotaShareName") or context.name(128)}
        request = context.request("batch", "CreateQuotaShare", share)
        arn = context.client("batch").create_quota_share(**request)["quotaShareArn"]
        return provisioned(context, kind, arn, QuotaShareArn=arn)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Update limits and sharing in place."""
        share = {
            **without(properties, "QuotaShareName", "JobQueue", "Tags"),
            "QuotaShareArn": old.physical_resource_id,
        }
        context.client("batch").update_quota_share(**context.request("batch", "UpdateQuotaShare", share))
        return provisioned(context, old.cf_resource_type, old.physical_resource_id, **old.attributes)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the quota share."""
        context.client("batch").delete_quota_share(quotaShareArn=resource.physical_resource_id)


PROVIDERS: dict[str, Provider] = {
    "AWS::Batch::SchedulingPolicy": SchedulingPolicyProvider(),
    "AWS::Batch::QuotaShare": QuotaShareProvider(),
}
