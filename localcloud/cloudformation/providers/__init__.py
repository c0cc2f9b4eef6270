"""Providers: finds the provider that provisions a resource type."""

from localcloud.cloudformation.context import ProvisioningError
from localcloud.cloudformation.providers import (
    alarms,
    buckets,
    builds,
    compute,
    custom,
    identity,
    keys,
    kubernetes,
    messaging,
    networks,
    queues,
    storage,
)
from localcloud.cloudformation.providers.base import Provider
from localcloud.cloudformation.providers.native import NO_OPERATION, NativeProvider, NoOperationProvider, knows

_PROVIDERS: dict[str, Provider] = {
    **alarms.PROVIDERS,
    **buckets.PROVIDERS,
    **builds.PROVIDERS,
    **storage.PROVIDERS,
    **identity.PROVIDERS,
    **compute.PROVIDERS,
    **keys.PROVIDERS,
    **kubernetes.PROVIDERS,
    **messaging.PROVIDERS,
    **networks.PROVIDERS,
    **queues.PROVIDERS,
    **{kind: NoOperationProvider() for kind in NO_OPERATION},
}

__all__ = ["Provider", "provider_for"]


def is_custom(kind: str) -> bool:
    """Return True if the type is a custom resource, which a function provisions."""
    return kind.startswith("Custom::") or kind == "AWS::CloudFormation::CustomResource"


def provider_for(kind: str) -> Provider:
    """Find the provider of a resource type.

    Args:
        kind: Resource type, for example "AWS::S3::Bucket".

    Raises:
        ProvisioningError: If no provider exists, so that the deployment fails.
    """
    if is_custom(kind):
        return custom.CustomResourceProvider()
    if kind in _PROVIDERS:
        return _PROVIDERS[kind]
    if knows(kind):
        return NativeProvider()
    message = f"localcloud cannot provision {kind}. Add a provider in localcloud/cloudformation/providers."
    raise ProvisioningError(message)
