"""Changes of a grid that its open jobs would not survive: network, zones, keys, queues and roles that they hold on to.

CloudFormation's question to lambda/guard_regions has the old and the new state of each (stacks/region_guard.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, kw_only=True)
class GuardedChange:
    """A change that is refused.

    Attributes:
        what: The change, as the beginning of a sentence.
        why: What the change does to jobs.
        way_back: What to do to deploy without the change.
        region: The Region whose jobs it concerns; "" for all jobs.
        always: Whether it is refused without open jobs, too.
    """

    what: str
    why: str
    way_back: str
    region: str = ""
    always: bool = False


def guarded_changes(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[GuardedChange]:
    """Yield the guarded changes between the properties of two questions; an older version's lack some of them."""
    yield from _zones(before, wanted)
    yield from _network(before, wanted)
    yield from _encryption(before, wanted)
    yield from _roles(before, wanted)
    yield from _queue(before, wanted)
    yield from _service_queues(before, wanted)


def _zones(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[GuardedChange]:
    old, new = before.get("Zones"), wanted.get("Zones")
    if old and new and old != new:
        yield GuardedChange(
            what=f"The zones of a deployed network cannot change from {', '.join(old)} to {', '.join(new)}",
            why="CloudFormation creates a subnet before it deletes the subnet that has its addresses",
            way_back=f"Set `zones: [{', '.join(old)}]` of `network` in grid.yaml and deploy, or let all jobs end, "
            "`make destroy` and `make deploy-again`",
            always=True,
        )


def _network(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[GuardedChange]:
    """A private network's children have no public address, and a public network has no other way to AWS."""
    old, new = before.get("Network"), wanted.get("Network")
    if old and old != new and ("existing" in (old, new) or (old, new) == ("private", "public")):
        yield GuardedChange(
            what=f"The network cannot change from {old} to {new}",
            why="children that run would lose their way to AWS",
            way_back="Put the previous `network` back into grid.yaml",
        )


def _encryption(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[GuardedChange]:
    """Roles may use the keys of grid.yaml only, and an object stays encrypted with the key that it was written with.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/default-bucket-encryption.html
    """
    if before.get("Encryption") != "kms":
        return
    old, new = before.get("Keys") or {}, wanted.get("Keys") or {}
    replaced = bool(old) != bool(new) or any(new.get(region, key) != key for region, key in old.items())
    kind = wanted.get("Encryption")
    if kind != "kms" or replaced:
        yield GuardedChange(
            what=f"The encryption cannot change from kms to {'other keys' if kind == 'kms' else kind}",
            why="children and training jobs would lose the keys that their lines and data are encrypted with",
            way_back="Put the previous `encryption` back into grid.yaml",
        )


def _roles(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[GuardedChange]:
    """A grid of one account had roles with names of CloudFormation's choice before `ChildRole` was in the question."""
    old = before.get("ChildRole") or (None if not before.get("Elsewhere") else wanted.get("ChildRole"))
    if old != wanted.get("ChildRole"):
        yield GuardedChange(
            what="This version cannot be deployed now",
            why="it gives the control plane's roles fixed names, and running arrays would lose their role",
            way_back="Stay with the version that is deployed",
        )


def _queue(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[GuardedChange]:
    old, new = before.get("Queue"), wanted.get("Queue")
    if old and old != new:
        yield GuardedChange(
            what=f"The job queue {old} cannot give way to {new}",
            why="AWS Batch ends the jobs of a queue that is deleted",
            way_back="Put the previous `shares` back into grid.yaml",
        )


def _service_queues(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[GuardedChange]:
    """The queue of a Region that leaves the grid is part of the question about that Region."""
    others = wanted.get("ServiceQueues") or {}
    for region, queue in (before.get("ServiceQueues") or {}).items():
        if region in wanted["Regions"] and others.get(region) != queue:
            yield GuardedChange(
                what=f"The service queue {queue} of {region} cannot be removed",
                why="AWS Batch ends the jobs of a queue that is deleted",
                way_back=f"Put the previous `service_queue` of {region} back into grid.yaml",
                region=region,
            )
