"""Context of provisioning: clients, the stack's place, and the provisioned resource."""

import functools
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.model import ListShape, MapShape, Shape, StructureShape
from moto.cloudformation.exceptions import UnformattedGetAttTemplateException
from moto.cloudformation.utils import random_suffix

from localcloud.credentials.access_keys import CLOUDFORMATION_KEY, key_in

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud


class ProvisioningError(Exception):
    """A resource cannot be provisioned; the message becomes its ResourceStatusReason."""


class Clients:
    """Creates clients of the server's own APIs, one per service, Region and account."""

    def __init__(self, cloud: "LocalCloud") -> None:
        self._cloud = cloud
        self._session = boto3.Session()
        self._lock = threading.Lock()
        self.get = functools.cache(self._make_client)

    @property
    def endpoint_url(self) -> str:
        """Return the server's address."""
        return self._cloud.endpoint_url

    def _make_client(self, service: str, region: str, account: str) -> Any:
        key = key_in(account, CLOUDFORMATION_KEY)
        config = Config(retries={"total_max_attempts": 1}, max_pool_connections=20)
        with self._lock:  # making a client is not thread-safe, using one is (boto3, "Session")
            return self._session.client(  # type: ignore[call-overload]  # the stubs accept only literal names
                service,
                region_name=region,
                endpoint_url=self._cloud.endpoint_url,
                config=config,
                aws_access_key_id=key,
                aws_secret_access_key=self._cloud.secret,
            )


@dataclass
class Provisioned:
    """A provisioned resource.

    Attributes:
        logical_resource_id: Its name in the template.
        physical_resource_id: The value of `Ref`.
        attributes: The values of `Fn::GetAtt`.
        properties: The resolved properties of its creation or last update.
        definition: Its entry in the template.
        native: moto's object, if moto's own model provisioned it.
        imported: True if the stack imported an existing resource.
    """

    logical_resource_id: str
    cf_resource_type: str
    physical_resource_id: str
    attributes: dict[str, Any] = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)
    definition: dict[str, Any] = field(default_factory=dict)
    native: Any = None
    imported: bool = False

    def get_cfn_attribute(self, name: str) -> Any:
        """Return the value of `Fn::GetAtt`; moto converts the exception into CloudFormation's message."""
        if self.native is not None:
            return self.native.get_cfn_attribute(name)
        if name not in self.attributes:
            raise UnformattedGetAttTemplateException
        return self.attributes[name]


@dataclass(frozen=True)
class Context:
    """One resource of one stack during provisioning."""

    clients: Clients
    account: str
    region: str
    stack_name: str
    stack_id: str
    logical_id: str

    def client(self, service: str) -> Any:
        """Return a boto3 client for the stack's Region."""
        return self.clients.get(service, self.region, self.account)

    def arn(self, service: str, resource: str, *, is_global: bool = False) -> str:
        """Return an ARN in the stack's account and Region."""
        return f"arn:aws:{service}:{'' if is_global else self.region}:{self.account}:{resource}"

    def name(self, max_length: int = 255, *, lower: bool = False) -> str:
        """Return a name for an unnamed resource: stack name, logical id and a random suffix.

        If the name exceeds the service's limit, the stack name and the logical id share the available characters
        equally, and each may use the characters that the other does not need; a limit of 64 gives 25, 25 and 12. AWS
        does not document the rule. It reproduces the names of real accounts in
        https://github.com/KensioSoftware/yulin/issues/1113 and in https://github.com/convox/rack/issues/2297.
        """
        end = random_suffix()
        available = max_length - len(end) - 2
        stack, logical_id = self.stack_name, self.logical_id
        stack = stack[: max(available - available // 2, available - len(logical_id))]
        name = f"{stack}-{logical_id[: available - len(stack)]}-{end}"
        return name.lower() if lower else name

    def request(self, service: str, operation: str, properties: dict[str, Any]) -> dict[str, Any]:
        """Convert properties to the input of an API operation.

        Args:
            operation: Operation, for example "CreateFunction".
            properties: CloudFormation's properties, whose names differ from the API's only in case.

        Raises:
            ProvisioningError: If the operation has no counterpart of a property.
        """
        shape = self.client(service).meta.service_model.operation_model(operation).input_shape
        converted = _as_shape(properties, shape)
        return dict(converted)


def _as_shape(value: Any, shape: Shape) -> Any:
    """Convert a value as CloudFormation does, which accepts "true" and "5" as a boolean and a number."""
    if isinstance(shape, StructureShape):
        members = {name.lower(): name for name in shape.members}
        unknown = [key for key in value if key.lower() not in members]
        if unknown:
            message = f"Encountered unsupported property {unknown[0]}"
            raise ProvisioningError(message)
        return {
            members[key.lower()]: _as_shape(item, shape.members[members[key.lower()]]) for key, item in value.items()
        }
    if isinstance(shape, ListShape):
        return [_as_shape(item, shape.member) for item in value]
    if isinstance(shape, MapShape):
        return {key: _as_shape(item, shape.value) for key, item in value.items()}
    return _as_scalar(value, shape.type_name)


def _as_scalar(value: Any, kind: str) -> Any:
    if kind == "boolean":
        return str(value).lower() == "true"
    if kind in ("integer", "long"):
        return int(value)
    if kind in ("float", "double"):
        return float(value)
    if kind == "string":
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value


def tag_map(properties: dict[str, Any]) -> dict[str, str]:
    """Return CloudFormation's list (or map) of tags as a map."""
    tags = properties.get("Tags", {})
    return dict(tags) if isinstance(tags, dict) else {tag["Key"]: str(tag["Value"]) for tag in tags}


def without(properties: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the properties except the named ones."""
    return {key: value for key, value in properties.items() if key not in names}


def snake(operation: str) -> str:
    """Return the name of the boto3 method for an operation."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", operation).lower()
