"""Types that moto's own models provision sufficiently (networks, keys, topics), and types without any effect."""

from typing import Any

from moto.cloudformation.parsing import get_model_map, get_name_type_map

from localcloud.cloudformation.context import Context, Provisioned
from localcloud.cloudformation.providers.base import Properties, Provider, provisioned

NO_OPERATION = (
    "AWS::CDK::Metadata",  # statistics of the CDK
    "AWS::CloudFormation::WaitConditionHandle",  # a placeholder that makes an empty stack valid
    "AWS::Logs::QueryDefinition",  # moto 5.2.5 does not store queries
    "AWS::EC2::VPCCidrBlock",  # IPv6 and secondary ranges; localcloud uses no addresses
)
"""Types that are accepted but have no effect."""


def knows(kind: str) -> bool:
    """Return True if moto has a model of the type."""
    return kind in get_model_map()


class NoOperationProvider(Provider):
    """A resource that only has a name."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:  # noqa: ARG002  # the signature of all providers
        """Return the resource with a name."""
        return provisioned(context, kind, context.name())

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:  # noqa: ARG002  # as above
        """Return the resource with its existing name."""
        return provisioned(context, old.cf_resource_type, old.physical_resource_id)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Do nothing."""


class NativeProvider(Provider):
    """Provisions a resource through moto's model of the type."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create with moto's class method, which modifies the properties that it receives."""
        model = get_model_map()[kind]
        name = properties.get(get_name_type_map().get(kind) or "", context.name())
        native = model.create_from_cloudformation_json(
            name,
            {"Type": kind, "Properties": _copied(properties)},
            context.account,
            context.region,
            LogicalId=context.logical_id,
            StackId=context.stack_id,
            ResourceType=kind,
        )
        native.cf_resource_type, native.logical_resource_id = kind, context.logical_id
        provisioned_resource = provisioned(context, kind, str(native.physical_resource_id))
        provisioned_resource.native = native
        return provisioned_resource

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Update through the service's API if `_UPDATES` has an entry for the type."""
        update = _UPDATES.get(old.cf_resource_type)
        if update is None:
            return super().update(context, old, properties)
        update(context, old.physical_resource_id, properties)
        return unchanged_resource(context, old)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete through moto's object, or through its class if the object has no such method."""
        definition = {"Type": resource.cf_resource_type, "Properties": _copied(resource.properties)}
        model = get_model_map()[resource.cf_resource_type]
        delete_method = getattr(resource.native, "delete", None)
        if delete_method is not None:
            delete_method(context.account, context.region)
        elif not hasattr(model.delete_from_cloudformation_json, "__isabstractmethod__"):
            model.delete_from_cloudformation_json(
                resource.physical_resource_id, definition, context.account, context.region
            )


def unchanged_resource(context: Context, old: Provisioned) -> Provisioned:
    """Return a resource that an update keeps in place, with moto's object."""
    same = provisioned(context, old.cf_resource_type, old.physical_resource_id, **old.attributes)
    same.native = old.native
    return same


def _update_dashboard(context: Context, name: str, properties: Properties) -> None:
    context.client("cloudwatch").put_dashboard(DashboardName=name, DashboardBody=properties["DashboardBody"])


def _update_topic(context: Context, arn: str, properties: Properties) -> None:
    for name in ("DisplayName", "KmsMasterKeyId"):
        value = properties.get(name, "")
        context.client("sns").set_topic_attributes(TopicArn=arn, AttributeName=name, AttributeValue=value)


_UPDATES = {"AWS::CloudWatch::Dashboard": _update_dashboard, "AWS::SNS::Topic": _update_topic}


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value
