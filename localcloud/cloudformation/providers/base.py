"""What a provider is."""

from abc import ABC, abstractmethod
from typing import Any, Literal

from localcloud.cloudformation.context import Context, Provisioned, ProvisioningError

Properties = dict[str, Any]
Drift = Literal["", "deleted", "changed"]


class Provider(ABC):
    """Provisions resources of one type, through the service's API."""

    @abstractmethod
    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create a resource.

        Args:
            context: The resource's place.
            kind: Its type.
            properties: Its properties, resolved.

        Returns:
            The resource with its physical id and attributes.

        Raises:
            ProvisioningError, botocore.exceptions.ClientError: It was refused.
        """

    def find(self, context: Context, kind: str, properties: Properties) -> Provisioned | None:  # noqa: ARG002
        """Return a resource that is there already under the name that its properties give, for a stack to take over.

        None if there is none, or resources of the type cannot be taken over here.
        """
        return None

    def drift(self, context: Context, resource: Provisioned) -> Drift:  # noqa: ARG002
        """Return whether a resource was deleted or changed outside of its stack; only some providers look."""
        return ""

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:  # noqa: ARG002
        """Update a resource in place. It is called only if no changed property requires replacement.

        Raises:
            ProvisioningError: localcloud cannot update the type in place, as AWS can.
        """
        message = f"localcloud cannot update {context.logical_id} ({old.cf_resource_type}) in place, as AWS does."
        raise ProvisioningError(message)

    @abstractmethod
    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete a resource; one that is gone already is no error."""


def provisioned(context: Context, kind: str, physical_id: str, **attributes: Any) -> Provisioned:
    """The answer of a provider; attribute names with a dot are given as a dict with `**`."""
    return Provisioned(context.logical_id, kind, physical_id, attributes)


def changed(old: Provisioned, properties: Properties, *names: str) -> bool:
    """Return True if one of the properties differs."""
    return any(old.properties.get(name) != properties.get(name) for name in names)
