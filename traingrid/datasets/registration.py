"""Registration: checks a marker against the objects in its folder, and records the dataset version in the ledger.

The events of a marker may arrive late, repeatedly and in any order. So a registration reads the present marker, a
registered version never changes, and each step can be repeated.
"""

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any

from traingrid import names
from traingrid.aws.s3 import Storage, object_of_event
from traingrid.aws.s3_uri import S3Uri
from traingrid.datasets.generated import manifest_of, matching
from traingrid.datasets.marker import MAX_OBJECTS, Marker, MarkerObject, parse_marker
from traingrid.errors import TraingridError, UsageError
from traingrid.grid.deployment import Deployment
from traingrid.ledger.datasets import DatasetItem, Datasets, Replica
from traingrid.ledger.timestamps import now
from traingrid.text import counted

_TRIES = 10
"""Concurrent registrations of one version: at most one for each Region changes the item, and adds one replica."""


@dataclass(frozen=True, kw_only=True)
class Registration:
    """Registers datasets.

    Attributes:
        home: S3 in the home Region, for reports and generated manifests.
    """

    deployment: Deployment
    home: Storage
    datasets: Datasets
    _regions: dict[str, Storage] = field(default_factory=dict)

    def register(self, marker_object: MarkerObject) -> dict[str, Any]:
        """Register the dataset version of a marker, start its rules, and write the report on the marker.

        Returns:
            The report: state "registered" with the replica and the manifests of rules, or "rejected" with the error.
            State "ignored", without a report, if the marker no longer exists.

        Raises:
            TraingridError: Other registrations of the version kept changing it; the caller tries again.
        """
        storage = self._storage_in(marker_object.region)
        marker_object = replace(marker_object, uri=object_of_event(storage, marker_object.uri))
        content = storage.read_if_exists(marker_object.uri)
        if content is None:
            return {"marker": str(marker_object.uri), "state": "ignored", "reason": "the marker does not exist"}
        sha256 = hashlib.sha256(content).hexdigest()
        report: dict[str, Any] = {
            "marker": str(marker_object.uri),
            "region": marker_object.region,
            "marker_sha256": sha256,
        }
        try:
            marker = parse_marker(content, marker_object.uri)
            report |= self._register(marker, marker_object, storage)
        except UsageError as error:
            report |= {"state": "rejected", "error": error.what, "next_step": error.next_step}
        target = S3Uri(
            self.deployment.manifest_bucket, names.dataset_report(marker_object.uri.bucket, marker_object.uri.key)
        )
        self.home.write_json(target, report)
        return report

    def _register(self, marker: Marker, marker_object: MarkerObject, storage: Storage) -> dict[str, Any]:
        """Record the version or its new replica, run the rules, and return the report."""
        item = self.datasets.find(marker.dataset, marker.version)
        if item:
            _check_unchanged(item, marker, marker_object)
        if not item or marker_object.region not in item.replicas:
            _check_objects(marker, marker_object, storage)
            item = self._record(marker, marker_object)
        item, errors = self._run_rules(item)
        replica = item.replicas[marker_object.region]
        manifests = {
            rule: str(S3Uri(self.deployment.manifest_bucket, _manifest_key(rule, item)))
            for rule in sorted(item.rules)
            if rule not in item.pending
        }
        return {
            "state": "registered",
            "dataset": item.dataset,
            "version": item.version,
            "uri": replica.uri,
            "bytes": item.bytes,
            "objects": item.objects,
            "at": replica.registered_at,
            "manifests": manifests,
            "errors": errors,
        }

    def _record(self, marker: Marker, marker_object: MarkerObject) -> DatasetItem:
        """Add a replica to its dataset version, which is created if necessary, with the rules that it starts."""
        replica = Replica(uri=str(marker_object.folder), registered_at=now())
        for _ in range(_TRIES):
            registered = self.datasets.find(marker.dataset, marker.version)
            if registered is None:
                item = self._with_rules(_first_item(marker, marker_object.region, replica), marker_object.region)
                if self.datasets.add(item):
                    return item
                continue
            _check_unchanged(registered, marker, marker_object)
            if marker_object.region in registered.replicas:
                return registered
            extended_item = replace(registered, replicas={**registered.replicas, marker_object.region: replica})
            if changed_item := self.datasets.change(registered, self._with_rules(extended_item, marker_object.region)):
                return changed_item
        text = f"The dataset {marker.dataset}, version {marker.version}, is being registered by other requests."
        raise TraingridError(text, "This request is retried in a minute.")

    def _with_rules(self, item: DatasetItem, region: str) -> DatasetItem:
        started = matching(self.deployment.grid.on_dataset, item, region)
        rules = {**item.rules, **dict.fromkeys(started, region)}
        return replace(item, rules=rules, pending=(*item.pending, *started))

    def _run_rules(self, item: DatasetItem) -> tuple[DatasetItem, dict[str, str]]:
        """Write the manifests of pending rules; return the item, and the errors of rules that remain pending."""
        rules = {rule.name: rule for rule in self.deployment.grid.on_dataset}
        written_rules, errors = set(), {}
        for name in item.pending:
            if name not in rules:
                continue
            try:
                manifest = manifest_of(rules[name], item, self.deployment)
            except UsageError as error:
                errors[name] = str(error)
                continue
            target = S3Uri(self.deployment.manifest_bucket, _manifest_key(name, item))
            self.home.write_if_none(target, manifest, "application/jsonl")
            written_rules.add(name)
        removed_rules = set(item.pending) - set(rules)
        return self._clear_pending(item, written_rules, removed_rules), errors

    def _clear_pending(self, item: DatasetItem, written_rules: set[str], removed: set[str]) -> DatasetItem:
        """Record that manifests are written, and forget pending rules that were removed from grid.yaml."""
        for _ in range(_TRIES):
            pending_rules = tuple(name for name in item.pending if name not in written_rules | removed)
            if pending_rules == item.pending:
                return item
            rules = {name: region for name, region in item.rules.items() if name not in removed & {*item.pending}}
            changed_item = self.datasets.change(item, replace(item, pending=pending_rules, rules=rules))
            if changed_item:
                return changed_item
            item = self.datasets.find(item.dataset, item.version) or item
        return item  # another registration of this version will write these manifests again, which has no effect

    def _storage_in(self, region: str) -> Storage:
        if region not in self._regions:
            self._regions[region] = Storage(region, role=self.deployment.acting_role_in(region))
        return self._regions[region]


def _first_item(marker: Marker, region: str, replica: Replica) -> DatasetItem:
    return DatasetItem(
        dataset=marker.dataset,
        version=marker.version,
        bytes=marker.bytes,
        objects=marker.objects,
        campaign=marker.campaign,
        format=marker.format,
        attributes=marker.attributes,
        created_at=marker.created,
        replicas={region: replica},
        rules={},
    )


def _manifest_key(rule: str, item: DatasetItem) -> str:
    return names.generated_manifest(rule, item.dataset, item.version)


def _check_unchanged(registered_item: DatasetItem, marker: Marker, marker_object: MarkerObject) -> None:
    """Raise an error if a marker differs from the registered version, or its Region has another replica."""
    facts = (
        ("bytes", registered_item.bytes, marker.bytes),
        ("objects", registered_item.objects, marker.objects),
        ("campaign", registered_item.campaign, marker.campaign),
        ("format", registered_item.format, marker.format),
        ("attributes", dict(registered_item.attributes), marker.attributes),
        ("created_at", registered_item.created_at, marker.created),
    )
    version = f"{marker.dataset}, version {marker.version},"
    next_step = "A registered version does not change: write another version into the marker, and upload it again."
    for name, registered_value, marked_value in facts:
        if registered_value != marked_value:
            text = f"{version} is registered with {name} {_json_text(registered_value)}"
            text += f", but {marker_object.uri} has {_json_text(marked_value)}."
            raise UsageError(text, next_step)
    replica = registered_item.replicas.get(marker_object.region)
    if replica and replica.uri != str(marker_object.folder):
        text = f"{version} is registered in {marker_object.region} with its data in {replica.uri}"
        text += f", not in {marker_object.folder}."
        raise UsageError(text, next_step)


def _json_text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _check_objects(marker: Marker, marker_object: MarkerObject, storage: Storage) -> None:
    """Raise an error if the objects in the marker's folder are not as many and as large as the marker states."""
    objects = size = 0
    for key, length in storage.sizes(S3Uri(marker_object.folder.bucket, f"{marker_object.folder.key}/")):
        if key == marker_object.uri.key or names.is_record_index(key):
            continue
        if key.endswith("/") and not length:  # the console creates such keys for folders
            continue
        objects += 1
        size += length
        if objects > MAX_OBJECTS:
            break
    if (objects, size) != (marker.objects, marker.bytes):
        more = "more than " if objects > MAX_OBJECTS else ""
        content = f"{more}{counted(objects, 'object')} with {counted(size, 'byte')}"
        marker_totals = f"{counted(marker.objects, 'object')} with {counted(marker.bytes, 'byte')}"
        text = f"{marker_object.folder} has {content}, but its marker states {marker_totals}."
        raise UsageError(text, "Upload the missing objects or correct the marker, and upload the marker again, last.")
