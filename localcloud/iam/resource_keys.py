"""Condition keys that depend on the state of resources: tags, keys of tables, and subnets of network interfaces."""

from collections.abc import Callable, Mapping

from moto.batch.models import batch_backends
from moto.dynamodb.models import dynamodb_backends
from moto.ec2.models import ec2_backends

from localcloud.credentials.arn import name_of_arn
from localcloud.iam.named_resources import Asked
from localcloud.iam.request_keys import Context


def batch_resource_tag_keys(call: Asked, arn: str) -> Context:
    """Return the keys of a Batch resource's tags, aws:ResourceTag/...; empty if it does not exist."""
    tags: dict[str, str] = batch_backends[call.account][call.region].list_tags_for_resource(arn)
    return {f"aws:ResourceTag/{key}": value for key, value in tags.items()}


def leading_keys(call: Asked, arn: str) -> Context:
    """Return the key of a DynamoDB request for one item: the value of the partition key of its table.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html
    """
    _, _, _, region, account, name = arn.split(":", 5)
    table = dynamodb_backends[account][region].tables.get(name.removeprefix("table/"))
    item = call.parameters.get("Key") or call.parameters.get("Item") or {}
    value = item.get(table.hash_key_attr, {}).get("S") if table else None
    return {"dynamodb:LeadingKeys": [value]} if value else {}


def interface_keys(call: Asked, arn: str) -> Context:
    """Return the key of a network interface: the ARN of its subnet; empty if the interface does not exist.

    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
    """
    subnet = call.text("SubnetId") or _subnet_of(call, name_of_arn(arn))
    return {"ec2:Subnet": call.arn(f"subnet/{subnet}")} if subnet else {}


def _subnet_of(call: Asked, interface: str) -> str:
    network_interface = ec2_backends[call.account][call.region].enis.get(interface)
    return str(network_interface.subnet.id) if network_interface else ""


RESOURCE_KEYS: Mapping[str, Callable[[Asked, str], Context]] = {
    "batch:TerminateServiceJob": batch_resource_tag_keys,
    **{f"dynamodb:{name}": leading_keys for name in ("GetItem", "PutItem", "UpdateItem", "DeleteItem")},
    **{
        f"ec2:{name}": interface_keys
        for name in ("CreateNetworkInterface", "DeleteNetworkInterface", "CreateNetworkInterfacePermission")
    },
}
"""Functions that read an action's condition keys from its request and the ARN of its resource."""
