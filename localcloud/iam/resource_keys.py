"""Condition keys that depend on the state of resources: tags, keys of tables, and subnets of network interfaces."""

from collections.abc import Callable, Mapping

from moto.dynamodb.models import dynamodb_backends
from moto.ec2.models import ec2_backends

from localcloud.iam.named_resources import Asked
from localcloud.iam.request_keys import Context


def batch_resource_tag_keys(asked: Asked, arn: str) -> Context:
    """Return the keys of a Batch resource's tags, aws:ResourceTag/...; empty if it does not exist."""
    from moto.batch.models import batch_backends  # noqa: PLC0415  # 0.7 s of imports that a build's docker does not need

    tags: dict[str, str] = batch_backends[asked.account][asked.region].list_tags_for_resource(arn)
    return {f"aws:ResourceTag/{key}": value for key, value in tags.items()}


def leading_keys(asked: Asked, arn: str) -> Context:
    """Return the key of a DynamoDB request for one item: the value of the partition key of its table.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html
    """
    _, _, _, region, account, name = arn.split(":", 5)
    table = dynamodb_backends[account][region].tables.get(name.removeprefix("table/"))
    item = asked.parameters.get("Key") or asked.parameters.get("Item") or {}
    value = item.get(table.hash_key_attr, {}).get("S") if table else None
    return {"dynamodb:LeadingKeys": [value]} if value else {}


def interface_keys(asked: Asked, arn: str) -> Context:
    """Return the key of a network interface: the ARN of its subnet; empty if the interface does not exist.

    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
    """
    subnet = asked.text("SubnetId") or _subnet_of(asked, arn.rpartition("/")[2])
    return {"ec2:Subnet": asked.arn(f"subnet/{subnet}")} if subnet else {}


def _subnet_of(asked: Asked, interface: str) -> str:
    found = ec2_backends[asked.account][asked.region].enis.get(interface)
    return str(found.subnet.id) if found else ""


RESOURCE_KEYS: Mapping[str, Callable[[Asked, str], Context]] = {
    "batch:TerminateServiceJob": batch_resource_tag_keys,
    **{f"dynamodb:{name}": leading_keys for name in ("GetItem", "PutItem", "UpdateItem", "DeleteItem")},
    **{
        f"ec2:{name}": interface_keys
        for name in ("CreateNetworkInterface", "DeleteNetworkInterface", "CreateNetworkInterfacePermission")
    },
}
"""Functions that read an action's condition keys from its request and the ARN of its resource."""
