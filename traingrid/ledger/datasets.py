"""Ledger items of registered datasets: one item for each version of a dataset, with its replicas.

A version never changes, except that replicas are added. Every write is conditional on the revision that the writer has
read, so that any number of functions may register the same version at any time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from traingrid.aws.clients import ClientFactory, client
from traingrid.aws.dynamodb import Table
from traingrid.ledger.errors import ItemError, each
from traingrid.ledger.field_types import (
    BYTES,
    COUNT,
    ISO_TIME,
    ISO_TIME_OR_EMPTY,
    MAP,
    TEXT,
    TEXTS,
    check_types,
    map_of,
)
from traingrid.ledger.revisions import write_revision
from traingrid.names import DATASETS
from traingrid.strict_json import JsonError, storable_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.ledger.damage import Damaged

_TYPES = {
    **dict.fromkeys(("campaign", "format", "attributes"), TEXT),
    "created_at": ISO_TIME_OR_EMPTY,
    "bytes": BYTES,
    **dict.fromkeys(("objects", "revision"), COUNT),
    "replicas": map_of(MAP),
    "rules": map_of(TEXT),
    "pending": TEXTS,
}
_REPLICA_TYPES = {"uri": TEXT, "registered_at": ISO_TIME}


@dataclass(frozen=True, kw_only=True, slots=True)
class Replica:
    """A copy of a dataset version in one Region.

    Attributes:
        uri: The S3 URI of its folder.
        registered_at: The time at which it was registered.
    """

    uri: str
    registered_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetItem:
    """A version of a dataset.

    Attributes:
        bytes: The size of its objects in bytes, the same in every replica.
        campaign: Its campaign; empty if it has none.
        format: The format of its objects; empty if it is not given.
        attributes: Further facts: text, numbers and booleans.
        created_at: The time at which the data was recorded, as the marker gives it; empty if it does not.
        replicas: The replicas by Region.
        rules: The Region of the replica that matched each rule of `on_dataset`, by rule. Each rule runs once.
        pending: The rules in `rules` whose manifest may not have been written yet.
        revision: The number of the item's last change.
    """

    dataset: str
    version: str
    bytes: int
    objects: int
    campaign: str = ""
    format: str = ""
    attributes: Mapping[str, Any]
    created_at: str = ""
    replicas: Mapping[str, Replica]
    rules: Mapping[str, str]
    pending: tuple[str, ...] = ()
    revision: int = 1

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Return the dataset version of a stored item.

        Raises:
            ItemError: A required field is missing, or a field has another type.
        """
        get = item.get
        check_types(item, _TYPES, required=("bytes", "objects", "replicas", "revision"))
        if not item["replicas"]:
            raise ItemError(item, "replicas", "has no replica")
        dataset, _, version = item["item"].partition("#")
        return cls(
            dataset=dataset,
            version=version,
            bytes=item["bytes"],
            objects=item["objects"],
            campaign=get("campaign", ""),
            format=get("format", ""),
            attributes=_attributes(item),
            created_at=get("created_at", ""),
            replicas={region: _replica(item, replica) for region, replica in item["replicas"].items()},
            rules=get("rules", {}),
            pending=tuple(get("pending", ())),
            revision=item["revision"],
        )

    def stored(self) -> dict[str, Any]:
        """Return the fields to store, without the keys."""
        return {
            "bytes": self.bytes,
            "objects": self.objects,
            "campaign": self.campaign,
            "format": self.format,
            "attributes": json.dumps(self.attributes, sort_keys=True),
            "created_at": self.created_at,
            "replicas": {
                region: {"uri": replica.uri, "registered_at": replica.registered_at}
                for region, replica in self.replicas.items()
            },
            "rules": dict(self.rules),
            "pending": list(self.pending),
            "revision": self.revision,
        }


class Datasets:
    """The registered datasets of one grid.

    Args:
        region: The table's Region; by default the environment's.
        make_client: Makes the client of DynamoDB.
    """

    def __init__(self, table: str, region: str | None = None, make_client: ClientFactory = client) -> None:
        self._table = Table(table, region, make_client)

    def find(self, dataset: str, version: str) -> DatasetItem | None:
        """Return a dataset version, or None if it is not registered."""
        item = self._table.get(DATASETS, _sort_key(dataset, version))
        return None if item is None else DatasetItem.from_item(item)

    def look_up(self, dataset: str, version: str) -> DatasetItem | Damaged | None:
        """Return a dataset version, or None: `find` for a caller to which it is one of many."""
        try:
            return self.find(dataset, version)
        except ItemError as error:
            return error.damaged

    def all(self) -> Iterator[DatasetItem | Damaged]:
        """Yield every registered dataset version in the order of names, then versions."""
        yield from each(DatasetItem.from_item, self._table.query(DATASETS, "#item > :value", " "))

    def add(self, item: DatasetItem) -> bool:
        """Write the first revision of a dataset version; return False, without a change, if it is registered."""
        key = {"submission": DATASETS, "item": _sort_key(item.dataset, item.version)}
        return self._table.put_new({**key, **item.stored()})

    def change(self, read: DatasetItem, changed: DatasetItem) -> DatasetItem | None:
        """Write the next revision of a dataset version (`write_revision`)."""
        return write_revision(self._table, (DATASETS, _sort_key(read.dataset, read.version)), read, changed)


def _attributes(item: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return storable_object(item.get("attributes", "{}"))
    except JsonError as error:
        raise ItemError(item, "attributes", f"has the field 'attributes', which must be {error.rule}") from None


def _replica(item: Mapping[str, Any], replica: Mapping[str, Any]) -> Replica:
    """Return a replica of a stored item."""
    check_types(item, _REPLICA_TYPES, replica, prefix="replicas[].", required=_REPLICA_TYPES)
    return Replica(uri=replica["uri"], registered_at=replica["registered_at"])


def _sort_key(dataset: str, version: str) -> str:
    return f"{dataset}#{version}"  # neither contains "#" (traingrid/datasets/marker.py)
