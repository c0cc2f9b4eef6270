"""Guarded changes: changes of a deployed grid that would break its open jobs.

They concern networks, zones, keys, queues, clusters and roles that open jobs use. CloudFormation's request to
lambda/guard_regions contains the old and the new state of each (stacks/region_guard.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class GuardedChange:
    """A rejected change.

    Attributes:
        what: The change, as the beginning of a sentence.
        way_back: How to deploy without the change.
        region: The Region whose jobs it concerns; "" for all jobs.
        always: True if it is rejected even without open jobs.
    """

    what: str
    reason: str
    way_back: str
    region: str = ""
    always: bool = False


def guarded_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[GuardedChange]:
    """Yield the guarded changes between the properties of two requests; older versions' requests lack some."""
    yield from _zones(before, after)
    yield from _network(before, after)
    yield from _encryption(before, after)
    yield from _roles(before, after)
    yield from _queue(before, after)
    yield from _service_queues(before, after)
    yield from _clusters(before, after)


def _zones(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[GuardedChange]:
    old, new = before.get("Zones"), after.get("Zones")
    if old and new and old != new:
        yield GuardedChange(
            what=f"The zones of a deployed network cannot change from {', '.join(old)} to {', '.join(new)}",
            reason="CloudFormation creates a subnet before it deletes the subnet that has its addresses",
            way_back=f"Set `zones: [{', '.join(old)}]` of `network` in grid.yaml and deploy, or let all jobs end, "
            "`make destroy` and `make deploy-again`",
            always=True,
        )


def _network(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[GuardedChange]:
    """Yield a change of the network: children in private networks have no public address, which public ones require."""
    old, new = before.get("Network"), after.get("Network")
    if old and old != new and ("existing" in (old, new) or (old, new) == ("private", "public")):
        yield GuardedChange(
            what=f"The network cannot change from {old} to {new}",
            reason="running children would lose their access to AWS",
            way_back="Put the previous `network` back into grid.yaml",
        )


def _encryption(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[GuardedChange]:
    """Yield a change of keys: roles may use only the keys of grid.yaml, and existing objects keep their key.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/default-bucket-encryption.html
    """
    if before.get("Encryption") != "kms":
        return
    old, new = before.get("Keys") or {}, after.get("Keys") or {}
    replaced = bool(old) != bool(new) or any(new.get(region, key) != key for region, key in old.items())
    kind = after.get("Encryption")
    if kind != "kms" or replaced:
        yield GuardedChange(
            what=f"The encryption cannot change from kms to {'other keys' if kind == 'kms' else kind}",
            reason="children and training jobs would lose access to the keys that encrypt their lines and data",
            way_back="Put the previous `encryption` back into grid.yaml",
        )


def _roles(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[GuardedChange]:
    """Yield a change of roles: before requests had `ChildRole`, CloudFormation named the roles of one-account grids."""
    old = before.get("ChildRole")
    if not old and before.get("Elsewhere"):
        old = after.get("ChildRole")
    if old != after.get("ChildRole"):
        yield GuardedChange(
            what="This version cannot be deployed now",
            reason="it gives the control plane's roles fixed names, and running arrays would lose their role",
            way_back="Keep the deployed version",
        )


def _queue(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[GuardedChange]:
    old, new = before.get("Queue"), after.get("Queue")
    if old and old != new:
        yield GuardedChange(
            what=f"The job queue {old} cannot be replaced by {new}",
            reason="AWS Batch ends the jobs of a queue that is deleted",
            way_back="Put the previous `shares` back into grid.yaml",
        )


def _service_queues(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[GuardedChange]:
    """Yield removed service queues, except in removed Regions, whose own request includes their queue."""
    queues_after = after.get("ServiceQueues") or {}
    for region, queue in (before.get("ServiceQueues") or {}).items():
        if region in after["Regions"] and queues_after.get(region) != queue:
            yield GuardedChange(
                what=f"The service queue {queue} of {region} cannot be removed",
                reason="AWS Batch ends the jobs of a queue that is deleted",
                way_back=f"Put the previous `service_queue` of {region} back into grid.yaml",
                region=region,
            )


def _clusters(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[GuardedChange]:
    """Yield changed or removed EKS clusters, namespaces and service accounts, except in removed Regions."""
    clusters_after = after.get("Clusters") or {}
    for region, place in (before.get("Clusters") or {}).items():
        if region in after["Regions"] and clusters_after.get(region) != place:
            yield GuardedChange(
                what=f"The cluster, namespace and service account of {region} cannot change from {place} to "
                f"{clusters_after.get(region, 'none')}",
                reason="their pods would lose the access to AWS, and the grid the access to them",
                way_back=f"Put the previous `eks` of {region} back into grid.yaml",
                region=region,
            )
