"""SQS queues and EventBridge resources."""

import json
from typing import Any

from localcloud.cloudformation.context import Context, Provisioned, without
from localcloud.cloudformation.providers.base import Properties, Provider, provisioned


class QueueProvider(Provider):
    """AWS::SQS::Queue."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the queue; its URL is the id."""
        fifo = str(properties.get("FifoQueue", False)).lower() == "true"
        name = properties.get("QueueName") or context.name(75) + (".fifo" if fifo else "")
        tags = {tag["Key"]: tag["Value"] for tag in properties.get("Tags", [])}
        url = context.client("sqs").create_queue(QueueName=name, Attributes=_attributes(properties), tags=tags)
        return provisioned(context, kind, url["QueueUrl"], Arn=context.arn("sqs", name), QueueName=name)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Set the attributes in place."""
        attributes = {key: value for key, value in _attributes(properties).items() if key != "FifoQueue"}
        context.client("sqs").set_queue_attributes(QueueUrl=old.physical_resource_id, Attributes=attributes)
        return provisioned(context, old.cf_resource_type, old.physical_resource_id, **old.attributes)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the queue with its messages."""
        context.client("sqs").delete_queue(QueueUrl=resource.physical_resource_id)


def _attributes(properties: Properties) -> dict[str, str]:
    return {key: _text(value) for key, value in without(properties, "QueueName", "Tags").items()}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


class QueuePolicyProvider(Provider):
    """AWS::SQS::QueuePolicy, unknown to moto 5.2.5."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Set the policy on every queue."""
        for url in properties["Queues"]:
            document = json.dumps(properties["PolicyDocument"])
            context.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": document})
        return provisioned(context, kind, context.name(), Id=context.logical_id)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Set the new policy, and remove it from queues that are no longer listed."""
        updated = self.create(context, old.cf_resource_type, properties)
        self._clear(context, set(old.properties["Queues"]) - set(properties["Queues"]))
        updated.physical_resource_id = old.physical_resource_id
        return updated

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Remove the policy from every queue."""
        self._clear(context, set(resource.properties["Queues"]))

    def _clear(self, context: Context, urls: set[str]) -> None:
        for url in sorted(urls):
            context.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})


class RuleProvider(Provider):
    """AWS::Events::Rule; moto 5.2.5 keeps targets that were removed from the template."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create rule and targets; on a bus other than the default one, the id is "bus|rule"."""
        name = properties.get("Name") or context.name(64)
        arn = self._put(context, name, properties)
        bus = properties.get("EventBusName", "default").rsplit("/", 1)[-1]
        return provisioned(context, kind, name if bus == "default" else f"{bus}|{name}", Arn=arn)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Update the rule, and remove targets that are no longer in the template."""
        name = _rule_name(old)
        arn = self._put(context, name, properties)
        remaining = {target["Id"] for target in properties.get("Targets", [])}
        removed = [target["Id"] for target in old.properties.get("Targets", []) if target["Id"] not in remaining]
        if removed:
            context.client("events").remove_targets(Rule=name, Ids=removed, **_bus(properties))
        return provisioned(context, old.cf_resource_type, old.physical_resource_id, Arn=arn)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Remove the targets, then the rule."""
        events = context.client("events")
        bus = _bus(resource.properties)
        name = _rule_name(resource)
        ids = [target["Id"] for target in resource.properties.get("Targets", [])]
        if ids:
            events.remove_targets(Rule=name, Ids=ids, **bus)
        events.delete_rule(Name=name, **bus)

    def _put(self, context: Context, name: str, properties: Properties) -> str:
        events = context.client("events")
        rule = {**without(properties, "Targets"), "Name": name}
        if isinstance(rule.get("EventPattern"), dict):
            rule["EventPattern"] = json.dumps(rule["EventPattern"])
        arn = str(events.put_rule(**context.request("events", "PutRule", rule))["RuleArn"])
        if properties.get("Targets"):
            targets = {"Rule": name, "Targets": properties["Targets"], **_bus(properties)}
            events.put_targets(**context.request("events", "PutTargets", targets))
        return arn


def _rule_name(rule: Provisioned) -> str:
    """Return the name of a rule, whose physical id is "bus|rule", or "rule" on the default bus."""
    return rule.physical_resource_id.rpartition("|")[2]


def _bus(properties: Properties) -> dict[str, str]:
    return {"EventBusName": properties["EventBusName"]} if "EventBusName" in properties else {}


class EventBusProvider(Provider):
    """AWS::Events::EventBus."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the bus."""
        request = context.request("events", "CreateEventBus", without(properties, "Policy"))
        arn = context.client("events").create_event_bus(**request)["EventBusArn"]
        return provisioned(context, kind, properties["Name"], Arn=arn, Name=properties["Name"])

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:  # noqa: ARG002  # the signature of all providers
        """Return the bus unchanged; localcloud ignores tags and description."""
        return provisioned(context, old.cf_resource_type, old.physical_resource_id, **old.attributes)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the bus."""
        context.client("events").delete_event_bus(Name=resource.physical_resource_id)


class EventBusPolicyProvider(Provider):
    """AWS::Events::EventBusPolicy, unknown to moto 5.2.5."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Add a statement to the bus policy."""
        permission: dict[str, Any] = _bus(properties)
        if "Statement" in properties:
            arn = context.arn("events", f"event-bus/{properties.get('EventBusName', 'default')}")
            statement = {"Resource": arn, **properties["Statement"], "Sid": properties["StatementId"]}
            permission["Policy"] = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        else:
            permission |= without(properties, "EventBusName")
        context.client("events").put_permission(**context.request("events", "PutPermission", permission))
        return provisioned(context, kind, properties["StatementId"])

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Replace the statement."""
        return self.create(context, old.cf_resource_type, properties)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Remove the statement."""
        context.client("events").remove_permission(
            StatementId=resource.physical_resource_id, **_bus(resource.properties)
        )


PROVIDERS: dict[str, Provider] = {
    "AWS::SQS::Queue": QueueProvider(),
    "AWS::SQS::QueuePolicy": QueuePolicyProvider(),
    "AWS::Events::Rule": RuleProvider(),
    "AWS::Events::EventBus": EventBusProvider(),
    "AWS::Events::EventBusPolicy": EventBusPolicyProvider(),
}
