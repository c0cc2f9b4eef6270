"""Training places: the Regions in which a manifest line can train, and the cost of bringing its data there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from traingrid import names
from traingrid.deploy.prices import BUCKET_STORAGE, GIGABYTE
from traingrid.grid.residency import is_resident
from traingrid.job.backend_traits import TRAITS
from traingrid.manifest.allowed import Rules
from traingrid.manifest.copy_source import copy_source
from traingrid.manifest.problem import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid.deployment import Deployment
    from traingrid.manifest.line import Line
    from traingrid.planner.facts import DatasetReplica, Facts

HOURS_OF_MONTH = 730.0
"""Hours of the month of a storage price, as in the AWS Pricing Calculator."""


@dataclass(frozen=True, kw_only=True)
class TrainingPlace:
    """A Region in which a line can train.

    Attributes:
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
class TrainingPlaces:
    """The places of a line.

    Attributes:
        by_region: The places; the first one is the line's own Region, if it is one of them.
        only: Why there are no others; empty if all Regions were considered.
    """

    by_region: dict[str, TrainingPlace]
    only: str = ""


def training_places(line: Line, facts: Facts, deployment: Deployment, *, moves: bool, hours: float) -> TrainingPlaces:
    """Return the places of a line.

    Args:
        moves: True if data may be copied to another Region.
        hours: The hours for which a copy is stored.
    """
    own = facts.replicas.get((line.region, str(line.data or "").rstrip("/")))
    places = {line.region: TrainingPlace(region=line.region, uri=str(line.data or ""), replica=own)}
    if reason := _binding_field(line, deployment):
        return TrainingPlaces(by_region=places, only=reason)
    for region, data in line.replicas.items():
        uri = str(data)
        places[region] = TrainingPlace(region=region, uri=uri, replica=facts.replicas.get((region, uri.rstrip("/"))))
    if plans := line.settings.training_plan:
        places = {region: place for region, place in places.items() if region in plans}
        return TrainingPlaces(by_region=places, only="its training plans are of these Regions")
    if own is None:
        return TrainingPlaces(by_region=places, only="the catalog has no replica at its URI")
    rules, allowed = Rules(deployment), line.settings.residency or ()
    priced = (  # a plan does not write the backend of a line
        region
        for region, settings_of_region in deployment.grid.regions.items()
        if line.settings.backend or TRAITS[settings_of_region.backend].has_prices
    )
    resident = [region for region in priced if is_resident(region, allowed)]
    other_regions = [region for region in resident if region not in places and rules.grid.may_hold(region, line.region)]
    versions = facts.versions[own.dataset, own.version]
    for region in other_regions:
        replica = versions.get(region)
        if replica and _is_readable(replica, rules):
            places[region] = TrainingPlace(region=region, uri=replica.uri, replica=replica)
    if reason := _copy_problem(line, own, deployment, moves=moves):
        return TrainingPlaces(by_region=places, only=reason)
    moved = [
        place for region in other_regions if region not in places for place in _copies(region, own, facts, rules, hours)
    ]
    return TrainingPlaces(by_region=places | {place.region: place for place in moved})


def _binding_field(line: Line, deployment: Deployment) -> str:
    """Return the field that binds a line to its Region, as the end of a sentence; empty if none does."""
    settings, image = line.settings, line.settings.image
    if any(channel.file_system for channel in line.inputs.values()):
        return "its data is on a file system of its Region"
    if line.data is None:
        return "its inputs are URIs of its Region"
    fields = {
        "copy_from": line.copy_from,
        "source": settings.source,
        "output": settings.output,
        "checkpoints": isinstance(settings.checkpoints, str),
        "init_from": settings.init_from,  # a plan does not know the cost of copying the model
    }
    for name, is_bound in fields.items():
        if is_bound:
            return f"its {name} is for its Region"
    if settings.applied_to(deployment.grid.job).launch == "queued":
        return "it waits in the service queue of its Region"
    if image and image not in deployment.grid.images and "{region}" not in image:
        return "its image is in its Region"
    return ""


def _copy_problem(line: Line, own: DatasetReplica, deployment: Deployment, *, moves: bool) -> str:
    """Return the reason why a line's data cannot be copied, as the end of a sentence; empty if it can."""
    if not deployment.grid.moves:
        return "grid.yaml does not set moves"
    if not moves:
        return "moves are off"
    if line.replicas:
        return "a line with replicas does not move"
    return "" if own.size else "the size of its data is unknown, so a move has no price"


def _is_readable(replica: DatasetReplica, rules: Rules) -> bool:
    """Return True if the grid's jobs may read a replica."""
    try:
        rules.data(replica.uri, replica.region, "")
    except RefusedError:
        return False
    return True


def _copies(region: str, own: DatasetReplica, facts: Facts, rules: Rules, hours: float) -> Iterator[TrainingPlace]:
    """Yield the cheapest copy of a dataset version to a Region that the grid allows and whose price is known."""
    replicas = facts.versions[own.dataset, own.version].values()
    priced = [
        (facts.transfer[replica.region, region], replica)
        for replica in replicas
        if (replica.region, region) in facts.transfer
    ]
    target = _target(own, region, rules)
    for price, source in sorted(priced, key=lambda pair: (pair[0].dollars, pair[1].region)):
        size = source.size or own.size or 0
        if _is_copyable(source, target, region, rules):
            yield TrainingPlace(
                region=region,
                uri=target,
                source=source,
                transfer=size / GIGABYTE * price.dollars,
                storage=size / GIGABYTE * BUCKET_STORAGE.dollars * hours / HOURS_OF_MONTH,
                replica=source,
            )
            return


def _target(own: DatasetReplica, region: str, rules: Rules) -> str:
    """Return the folder for the copy of a dataset version in a Region, which all lines and plans share."""
    bucket = names.data_bucket(rules.grid.name, rules.deployment.account_of(region), region)
    return f"s3://{bucket}/{names.COPY_PREFIX}{quote(own.dataset, safe='')}/{quote(own.version, safe='')}"


def _is_copyable(source: DatasetReplica, target: str, region: str, rules: Rules) -> bool:
    """Return True if the intake accepts a line that copies a replica to a folder."""
    try:
        copy_source(source.uri, region, {"s3_uri": target}, rules)
    except RefusedError:
        return False
    return True


def planned_values(values: dict[str, Any], line: Line, place: TrainingPlace) -> dict[str, Any]:
    """Return the values of a line for a place: Region, data, copy source and replicas; other values are unchanged."""
    if place.region == line.region:
        return dict(values)
    changed = {**values, "region": place.region, "s3_uri": place.uri}
    if place.source:  # a name by default is that of the folder, which is another one now
        return {**changed, "name": line.name, "copy_from": place.source.uri.rstrip("/")}
    if "replicas" in values:
        other_replicas = {region: uri for region, uri in values["replicas"].items() if region != place.region}
        changed["replicas"] = {line.region: str(line.data), **other_replicas}
    return changed
