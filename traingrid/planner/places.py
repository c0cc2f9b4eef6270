"""Places: the Regions in which a manifest line can train, and the cost of bringing its data there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.aws.s3_uri import S3Uri
from traingrid.deploy.prices import BUCKET_STORAGE
from traingrid.manifest.allowed import Rules
from traingrid.manifest.plan_fields import is_resident
from traingrid.manifest.values import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid.deployment import Deployment
    from traingrid.manifest.line import Line
    from traingrid.planner.facts import DatasetReplica, Facts

GIGABYTE = 2**30
"""Bytes of a GB in AWS's prices (https://aws.amazon.com/s3/faqs/, "How will I be charged and billed for my use of
Amazon S3?": its examples count 1 GB as 1,073,741,824 bytes)."""
HOURS_OF_MONTH = 730.0
"""Hours of the month of a storage price, as in the AWS Pricing Calculator."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A Region in which a line can train.

    Attributes:
        region: The Region.
        uri: The folder of the data there; empty for the line's own inputs.
        source: The replica that is copied, or None if the data is there.
        transfer: The dollars of the copy.
        storage: The dollars of the storage of the copy until the plan ends.
        replica: The catalog's replica that is used or copied, or None.
    """

    region: str
    uri: str = ""
    source: DatasetReplica | None = None
    transfer: float = 0.0
    storage: float = 0.0
    replica: DatasetReplica | None = None

    @property
    def is_move(self) -> bool:
        """True if the data must be copied first."""
        return self.source is not None

    @property
    def dollars(self) -> float:
        """The dollars of transfer and storage."""
        return self.transfer + self.storage


@dataclass(frozen=True, kw_only=True)
class Places:
    """The places of a line.

    Attributes:
        by_region: The places; the first one is the line's own Region.
        only: Why there are no others; empty if all Regions were considered.
    """

    by_region: dict[str, Place]
    only: str = ""


def places_of(line: Line, facts: Facts, deployment: Deployment, *, moves: bool, hours: float) -> Places:
    """Return the places of a line.

    Args:
        line: The line.
        facts: The catalog's facts.
        deployment: The grid.
        moves: True if data may be copied to another Region.
        hours: The hours for which a copy is stored.
    """
    own = facts.replicas.get((line.region, str(line.data or "").rstrip("/")))
    found = {line.region: Place(region=line.region, uri=str(line.data or ""), replica=own)}
    if reason := _bound_to_its_region(line, deployment):
        return Places(by_region=found, only=reason)
    for region, data in line.replicas.items():
        uri = str(data)
        found[region] = Place(region=region, uri=uri, replica=facts.replicas.get((region, uri.rstrip("/"))))
    if own is None:
        return Places(by_region=found, only="the catalog has no replica at its URI")
    rules, allowed = Rules(deployment), line.settings.get("residency", ())
    others = [region for region in deployment.grid.regions if region not in found and is_resident(region, allowed)]
    versions = facts.versions[own.dataset, own.version]
    for region in others:
        replica = versions.get(region)
        if replica and _is_readable(replica, rules):
            found[region] = Place(region=region, uri=replica.uri, replica=replica)
    if not moves:
        return Places(by_region=found, only="moves are off")
    if not own.size:
        return Places(by_region=found, only="the size of its data is unknown, so a move has no price")
    moved = [
        place for region in others if region not in found for place in _copies(region, own, facts, deployment, hours)
    ]
    return Places(by_region=found | {place.region: place for place in moved})


def _bound_to_its_region(line: Line, deployment: Deployment) -> str:
    """Return the field that binds a line to its Region, as the end of a sentence; empty if none does."""
    settings, image = line.settings, line.settings.get("image", "")
    if line.data is None:
        return "its inputs are URIs of its Region"
    for name in ("source", "output"):
        if name in settings:
            return f"its {name} is in its Region"
    if isinstance(settings.get("checkpoints"), str):
        return "its checkpoints are in its Region"
    if line.setting("launch", deployment.grid.job) == "queued":
        return "it waits in the service queue of its Region"
    if image and image not in deployment.grid.images and "{region}" not in image:
        return "its image is in its Region"
    return ""


def _is_readable(replica: DatasetReplica, rules: Rules) -> bool:
    """Return True if the grid's jobs may read a replica."""
    try:
        rules.data(replica.uri, replica.region, "")
    except RefusedError:
        return False
    return True


def _copies(region: str, own: DatasetReplica, facts: Facts, deployment: Deployment, hours: float) -> Iterator[Place]:
    """Yield the cheapest copy of a dataset version to a Region, if a transfer price is known."""
    size = own.size or 0
    replicas = facts.versions[own.dataset, own.version].values()
    priced = [(facts.transfer[one.region, region], one) for one in replicas if (one.region, region) in facts.transfer]
    if not priced:
        return
    price, source = min(priced, key=lambda pair: (pair[0].dollars, pair[1].region))
    bucket = names.data_bucket(deployment.grid.name, deployment.account_of(region), region)
    yield Place(
        region=region,
        uri=str(S3Uri(bucket, S3Uri.parse(source.uri).key)),
        source=source,
        transfer=size / GIGABYTE * price.dollars,
        storage=size / GIGABYTE * BUCKET_STORAGE.dollars * hours / HOURS_OF_MONTH,
        replica=own,
    )


def planned_values(values: dict[str, Any], line: Line, place: Place) -> dict[str, Any]:
    """Return the values of a line for a place: Region, data and replicas; all others stay the same.

    Args:
        values: The line's values.
        line: The line.
        place: The place.
    """
    if place.region == line.region:
        return dict(values)
    changed = {**values, "region": place.region, "s3_uri": place.uri}
    if "replicas" in values:
        others = {region: uri for region, uri in values["replicas"].items() if region != place.region}
        changed["replicas"] = {line.region: str(line.data), **others}
    return changed
