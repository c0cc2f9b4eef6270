"""Alarms, metric filters, subscriptions and budgets: stored as described in the template.

localcloud measures nothing, so no alarm goes off.
"""

import contextlib
import json
from typing import Any

from localcloud.cloudformation.context import Context, Provisioned, without
from localcloud.cloudformation.providers.base import Properties, Provider, provisioned
from localcloud.credentials.account import account


class AlarmProvider(Provider):
    """AWS::CloudWatch::Alarm."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the alarm; its name is the resource's id."""
        name = properties.get("AlarmName") or context.name(255)
        request: dict[str, Any] = {**without(properties, "Tags"), "AlarmName": name}
        for key, number in (("Threshold", float), ("Period", int), ("EvaluationPeriods", int)):
            if key in request:
                request[key] = number(request[key])
        context.client("cloudwatch").put_metric_alarm(**request)
        return provisioned(context, kind, name, Arn=context.arn("cloudwatch", f"alarm:{name}"))

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Update the alarm in place."""
        return self.create(context, old.cf_resource_type, {**properties, "AlarmName": old.physical_resource_id})

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the alarm."""
        context.client("cloudwatch").delete_alarms(AlarmNames=[resource.physical_resource_id])


class MetricFilterProvider(Provider):
    """AWS::Logs::MetricFilter."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the filter; its name is the resource's id."""
        name = properties.get("FilterName") or context.name(512)
        context.client("logs").put_metric_filter(
            logGroupName=properties["LogGroupName"],
            filterName=name,
            filterPattern=properties["FilterPattern"],
            metricTransformations=[
                {key[0].lower() + key[1:]: value for key, value in transformation.items()}
                for transformation in properties["MetricTransformations"]
            ],
        )
        return provisioned(context, kind, name)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Replace the filter in place."""
        self.delete(context, old)  # moto 5.2.5 would add a second filter with the same name
        return self.create(context, old.cf_resource_type, {**properties, "FilterName": old.physical_resource_id})

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the filter; it may have been deleted with its log group."""
        client = context.client("logs")
        with contextlib.suppress(client.exceptions.ResourceNotFoundException):
            client.delete_metric_filter(
                logGroupName=resource.properties["LogGroupName"], filterName=resource.physical_resource_id
            )


class SubscriptionProvider(Provider):
    """AWS::SNS::Subscription."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Subscribe without confirmation; the subscription's ARN is the id."""
        subscription = context.client("sns").subscribe(
            TopicArn=properties["TopicArn"],
            Protocol=properties["Protocol"],
            Endpoint=properties["Endpoint"],
            ReturnSubscriptionArn=True,
        )
        return provisioned(context, kind, subscription["SubscriptionArn"], Arn=subscription["SubscriptionArn"])

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Unsubscribe."""
        context.client("sns").unsubscribe(SubscriptionArn=resource.physical_resource_id)


class TopicPolicyProvider(Provider):
    """AWS::SNS::TopicPolicy."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Set the policy on every topic."""
        for topic in properties["Topics"]:
            context.client("sns").set_topic_attributes(
                TopicArn=topic, AttributeName="Policy", AttributeValue=json.dumps(properties["PolicyDocument"])
            )
        return provisioned(context, kind, context.name(), Id=context.logical_id)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Set the new policy."""
        updated = self.create(context, old.cf_resource_type, properties)
        updated.physical_resource_id = old.physical_resource_id
        return updated

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Do nothing, because the policy is deleted with its topics, which belong to the same stack."""


class BudgetProvider(Provider):
    """AWS::Budgets::Budget."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the budget; its name is the id."""
        budget: dict[str, Any] = dict(properties["Budget"])
        name = budget.setdefault("BudgetName", context.name(100))
        budget["BudgetLimit"] = {key: str(value) for key, value in budget["BudgetLimit"].items()}
        notified = [
            {**entry, "Notification": {**entry["Notification"], "Threshold": float(entry["Notification"]["Threshold"])}}
            for entry in properties.get("NotificationsWithSubscribers", [])
        ]
        context.client("budgets").create_budget(
            AccountId=account(), Budget=budget, NotificationsWithSubscribers=notified
        )
        return provisioned(context, kind, name)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Replace the budget with new limits or filters, because moto 5.2.5 has no UpdateBudget."""
        self.delete(context, old)
        budget = {**properties["Budget"], "BudgetName": old.physical_resource_id}
        return self.create(context, old.cf_resource_type, {**properties, "Budget": budget})

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the budget."""
        context.client("budgets").delete_budget(AccountId=account(), BudgetName=resource.physical_resource_id)


PROVIDERS: dict[str, Provider] = {
    "AWS::CloudWatch::Alarm": AlarmProvider(),
    "AWS::Logs::MetricFilter": MetricFilterProvider(),
    "AWS::SNS::Subscription": SubscriptionProvider(),
    "AWS::SNS::TopicPolicy": TopicPolicyProvider(),
    "AWS::Budgets::Budget": BudgetProvider(),
}
