"""Provider: the base class of all providers."""

from abc import ABC, abstractmethod
from typing import Any, Literal

from localcloud.cloudformation.context import Context, Provisioned, ProvisioningError

Properties = dict[str, Any]
Drift = Literal["", "deleted", "changed"]


class Provider(ABC):
    """Provisions resources of one type through the service's API."""

    @abstractmethod
    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create a resource.

        Args:
            context: Stack, Region and account of the resource.
            properties: Its resolved properties.

        Returns:
            The resource with its physical id and attributes.

        Raises:
            ProvisioningError, botocore.exceptions.ClientError: If the creation was refused.
        """

    def find(self, context: Context, kind: str, properties: Properties) -> Provisioned | None:  # noqa: ARG002  # overridden with all parameters
        """Return an existing resource with the name in the properties, for a stack to import.

        Return None if it does not exist, or if the provider cannot import the type.
        """
        return None

    def drift(self, context: Context, resource: Provisioned) -> Drift:  # noqa: ARG002  # as above
        """Return how a resource was changed outside its stack; "" if unchanged or if the provider cannot check."""
        return ""

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:  # noqa: ARG002  # as above
        """Update a resource in place. It is called only if no changed property requires replacement.

        Raises:
            ProvisioningError: If localcloud cannot update the type in place, although AWS can.
        """
        message = f"localcloud cannot update {context.logical_id} ({old.cf_resource_type}) in place, although AWS can."
        raise ProvisioningError(message)

    @abstractmethod
    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete a resource; succeed if it no longer exists."""


def provisioned(context: Context, kind: str, physical_id: str, **attributes: Any) -> Provisioned:
    """Return a provisioned resource; pass attribute names that contain a dot as a dict with `**`."""
    return Provisioned(context.logical_id, kind, physical_id, attributes)


def changed(old: Provisioned, properties: Properties, *names: str) -> bool:
    """Return True if one of the named properties differs."""
    return any(old.properties.get(name) != properties.get(name) for name in names)
