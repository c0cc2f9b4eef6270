"""Registration of datasets: markers, duplicate and late events, rules, and refusals that change nothing."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import quote_plus

import boto3
import pytest

from tests.support.sample_deployment import sample_deployment
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.datasets.marker import MarkerObject
from traingrid.datasets.registration import Registration
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.ledger.damage import intact
from traingrid.ledger.datasets import DatasetItem, Datasets
from traingrid.ledger.ledger import Ledger

EAST, IRELAND = "us-east-1", "eu-west-1"
BUCKETS = {EAST: "ragab-ml", IRELAND: "ragab-ml-dub"}
MARKER: dict[str, Any] = {"dataset": "oslo", "version": "1", "bytes": 9, "objects": 2, "campaign": "north"}


def with_rules(*rules: dict[str, Any]) -> Deployment:
    deployment = sample_deployment()
    described = deployment.grid.model_dump(exclude_defaults=True) | {"on_dataset": rules}
    return replace(deployment, grid=GridSettings.model_validate(described))


@pytest.fixture
def s3(aws: None) -> Any:
    client: Any = boto3.client("s3", EAST)
    for region, bucket in BUCKETS.items():
        where = {} if region == EAST else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        client.create_bucket(Bucket=bucket, **where)
    return client


def registering(deployment: Deployment) -> Registration:
    return Registration(deployment=deployment, home=Storage(), datasets=Datasets(deployment.table))


def upload(s3: Any, region: str = EAST, folder: str = "oslo-1", **changes: object) -> MarkerObject:
    """Upload two objects and a marker; a change to None removes a field."""
    bucket = BUCKETS[region]
    s3.put_object(Bucket=bucket, Key=f"{folder}/train/a", Body=b"12345")
    s3.put_object(Bucket=bucket, Key=f"{folder}/validation/b", Body=b"6789")
    marker = {name: value for name, value in {**MARKER, **changes}.items() if value is not None}
    return put_marker(s3, region, folder, json.dumps(marker).encode())


def put_marker(s3: Any, region: str, folder: str, content: bytes) -> MarkerObject:
    uri = S3Uri(BUCKETS[region], f"{folder}/dataset.json")
    s3.put_object(Bucket=uri.bucket, Key=uri.key, Body=content)
    return MarkerObject(region=region, uri=uri)


def registered(deployment: Deployment) -> list[DatasetItem]:
    return list(intact(Datasets(deployment.table).all()))


def manifests(s3: Any, deployment: Deployment) -> dict[str, int]:
    """Return the number of versions of each generated manifest by key."""
    found = s3.list_object_versions(Bucket=deployment.manifest_bucket, Prefix="manifests/").get("Versions", [])
    keys = [version["Key"] for version in found]
    return {key: keys.count(key) for key in keys}


def test_a_marker_registers_its_folder(s3: Any, deployment: Deployment, ledger: Ledger) -> None:
    found = upload(s3, attributes={"sensor": "lidar", "runs": 3}, created_at="2026-11-01T10:00:00+02:00")
    report = registering(deployment).register(found)
    assert report["state"] == "registered"
    (item,) = registered(deployment)
    assert (item.dataset, item.version, item.campaign, item.bytes, item.objects) == ("oslo", "1", "north", 9, 2)
    assert item.attributes == {"sensor": "lidar", "runs": 3}
    assert item.created_at == "2026-11-01T08:00:00+00:00"
    assert {region: replica.uri for region, replica in item.replicas.items()} == {EAST: "s3://ragab-ml/oslo-1"}
    written = Storage().read(S3Uri(deployment.manifest_bucket, "datasets/ragab-ml/oslo-1/dataset.json.report.json"))
    assert json.loads(written) == report
    assert list(ledger.everything()) == []  # a dataset is neither a submission nor a job


def test_repeated_and_late_events_change_nothing(s3: Any, deployment: Deployment) -> None:
    found = upload(s3)
    first = registering(deployment).register(found)
    before = registered(deployment)
    s3.delete_object(Bucket="ragab-ml", Key="oslo-1/train/a")  # the data may change later
    assert registering(deployment).register(found) == first
    s3.delete_object(Bucket="ragab-ml", Key="oslo-1/dataset.json")
    assert registering(deployment).register(found)["state"] == "ignored"
    assert registered(deployment) == before


def test_an_event_of_an_overwritten_marker_registers_the_present_one(s3: Any, deployment: Deployment) -> None:
    found = upload(s3, version="1")
    upload(s3, version="2")
    registering(deployment).register(found)  # the event of version 1
    registering(deployment).register(found)
    assert [item.version for item in registered(deployment)] == ["2"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "JSON"),
        (b"[]", "a JSON object"),
        (b"\xff", "not UTF-8"),
        (b"{}", "dataset: field required; version: field required; bytes: field required; objects: field required"),
        (json.dumps({**MARKER, "bytes": 8}).encode(), "has 2 objects with 9 bytes, but its marker states 2"),
        (json.dumps({**MARKER, "objects": 3}).encode(), "has 2 objects with 9 bytes, but its marker states 3"),
        (json.dumps({**MARKER, "bytes": "9"}).encode(), "bytes: input should be a valid integer"),
        (json.dumps({**MARKER, "version": 1}).encode(), "version: input should be a valid string"),
        (json.dumps({**MARKER, "dataset": "a/b"}).encode(), "dataset: "),
        (json.dumps({**MARKER, "dataset": "a#b"}).encode(), "dataset: "),
        (json.dumps({**MARKER, "colour": "red"}).encode(), "unknown field 'colour'"),
        (b"{" + b" " * 70_000 + b"}", "more than 65,536 bytes"),
    ],
)
def test_an_invalid_marker_registers_nothing(s3: Any, content: bytes, reason: str) -> None:
    deployment = with_rules({"name": "all"})
    upload(s3)
    report = registering(deployment).register(put_marker(s3, EAST, "oslo-1", content))
    assert report["state"] == "rejected"
    assert reason in report["error"]
    assert report["next_step"]
    assert registered(deployment) == []
    assert manifests(s3, deployment) == {}


def test_a_marker_is_found_by_a_plain_and_by_an_encoded_key(s3: Any, deployment: Deployment) -> None:
    marker_object = upload(s3, folder="oslo 1+2")
    encoded = replace(marker_object, uri=S3Uri(marker_object.uri.bucket, quote_plus(marker_object.uri.key, safe="/")))
    assert encoded != marker_object
    reports = [registering(deployment).register(given) for given in (encoded, marker_object)]
    assert [(report["state"], report["marker"]) for report in reports] == [("registered", str(marker_object.uri))] * 2


def test_a_rejected_marker_can_be_corrected(s3: Any, deployment: Deployment) -> None:
    assert registering(deployment).register(upload(s3, objects=3))["state"] == "rejected"
    assert registering(deployment).register(upload(s3, objects=2))["state"] == "registered"


def test_folders_of_the_console_do_not_count_as_objects(s3: Any, deployment: Deployment) -> None:
    s3.put_object(Bucket="ragab-ml", Key="oslo-1/train/", Body=b"")
    s3.put_object(Bucket="ragab-ml", Key="oslo-10/train/a", Body=b"another data set")
    assert registering(deployment).register(upload(s3))["state"] == "registered"


def test_an_empty_object_and_a_folder_with_content_count_as_objects(s3: Any, deployment: Deployment) -> None:
    s3.put_object(Bucket="ragab-ml", Key="oslo-1/train/empty", Body=b"")
    s3.put_object(Bucket="ragab-ml", Key="oslo-1/train/", Body=b"123")
    assert registering(deployment).register(upload(s3))["state"] == "rejected"
    assert registering(deployment).register(upload(s3, objects=4, bytes=12))["state"] == "registered"


def test_an_index_of_records_does_not_count_as_an_object(s3: Any, deployment: Deployment) -> None:
    s3.put_object(Bucket="ragab-ml", Key="oslo-1/train/_records.json", Body=b"{}")
    assert registering(deployment).register(upload(s3))["state"] == "registered"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"campaign": "south"}, 'is registered with campaign "north", but'),
        ({"attributes": {"a": 1}}, "is registered with attributes {}"),
        ({"bytes": 10}, "is registered with bytes 9"),
    ],
)
def test_a_registered_version_does_not_change(
    s3: Any, deployment: Deployment, change: dict[str, Any], reason: str
) -> None:
    registering(deployment).register(upload(s3))
    before = registered(deployment)
    report = registering(deployment).register(upload(s3, **change))
    assert report["state"] == "rejected"
    assert reason in report["error"]
    assert registered(deployment) == before


def test_a_version_has_one_folder_in_each_region(s3: Any, deployment: Deployment) -> None:
    registering(deployment).register(upload(s3))
    assert registering(deployment).register(upload(s3, IRELAND, "elsewhere"))["state"] == "registered"
    report = registering(deployment).register(upload(s3, EAST, "copy"))
    assert "registered in us-east-1 with its data in s3://ragab-ml/oslo-1, not in s3://ragab-ml/copy" in report["error"]
    (item,) = registered(deployment)
    assert {region: replica.uri for region, replica in item.replicas.items()} == {
        EAST: "s3://ragab-ml/oslo-1",
        IRELAND: "s3://ragab-ml-dub/elsewhere",
    }


def test_replicas_that_register_at_once_are_all_recorded(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = with_rules({"name": "all"})
    both = [upload(s3), upload(s3, IRELAND)]
    together, read = threading.Barrier(2), Datasets.find
    calls: list[int] = []

    def find(self: Datasets, dataset: str, version: str) -> DatasetItem | None:
        item = read(self, dataset, version)
        calls.append(1)
        if len(calls) <= 4:  # both functions read before either writes
            together.wait(120)
        return item

    monkeypatch.setattr(Datasets, "find", find)
    registration = registering(deployment)
    for region in BUCKETS:
        registration._storage_in(region)  # creating clients is not thread-safe
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(registration.register, both))
    (item,) = registered(deployment)
    assert set(item.replicas) == {EAST, IRELAND}
    assert item.pending == ()
    assert manifests(s3, deployment) == {"manifests/on_dataset/all/oslo/1.jsonl": 1}


def test_a_rule_generates_one_manifest_for_a_version(s3: Any) -> None:
    rule = {
        "name": "night",
        "match": {"campaign": "north"},
        "line": {
            "hyperparameters": {"epochs": 3, "sensor": "{attributes.sensor}"},
            "tags": {"set": "{dataset}-{version}"},
        },
    }
    deployment = with_rules(rule, {"name": "south", "match": {"campaign": "south"}})
    report = registering(deployment).register(upload(s3, attributes={"sensor": "lidar"}))
    registering(deployment).register(upload(s3, IRELAND, attributes={"sensor": "lidar"}))
    key = "manifests/on_dataset/night/oslo/1.jsonl"
    assert report["manifests"] == {"night": f"s3://{deployment.manifest_bucket}/{key}"}
    assert manifests(s3, deployment) == {key: 1}
    first, line = Storage().read(S3Uri(deployment.manifest_bucket, key)).decode().splitlines()
    assert first == "# jobs: 1"
    assert json.loads(line) == {
        "region": EAST,
        "s3_uri": "s3://ragab-ml/oslo-1",
        "name": "oslo",
        "hyperparameters": {"epochs": 3, "sensor": "lidar"},
        "tags": {"set": "oslo-1"},
    }


def test_a_rule_for_a_region_starts_with_the_replica_there(s3: Any) -> None:
    deployment = with_rules({"name": "dublin", "match": {"regions": [IRELAND]}})
    registering(deployment).register(upload(s3))
    assert manifests(s3, deployment) == {}
    registering(deployment).register(upload(s3, IRELAND))
    content = Storage().read(S3Uri(deployment.manifest_bucket, "manifests/on_dataset/dublin/oslo/1.jsonl"))
    assert json.loads(content.splitlines()[1])["region"] == IRELAND


def test_a_rule_that_is_added_later_starts_nothing_for_a_registered_version(s3: Any, deployment: Deployment) -> None:
    found = upload(s3)
    registering(deployment).register(found)
    assert registering(with_rules({"name": "all"})).register(found)["manifests"] == {}
    assert manifests(s3, deployment) == {}


@pytest.mark.parametrize("failing", ["write_if_none", "change", "write_json"])
def test_a_retry_completes_an_interrupted_registration(s3: Any, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    deployment = with_rules({"name": "all"})
    found = upload(s3)
    owner: type = Datasets if failing == "change" else Storage

    def lost(*_: object, **__: object) -> None:
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(owner, failing, lost)
        with pytest.raises(ConnectionError):
            registering(deployment).register(found)
    report = registering(deployment).register(found)
    assert report["state"] == "registered"
    assert manifests(s3, deployment) == {"manifests/on_dataset/all/oslo/1.jsonl": 1}
    assert registered(deployment)[0].pending == ()


def test_a_rule_with_an_invalid_line_is_reported_and_can_be_corrected(s3: Any) -> None:
    wrong = with_rules({"name": "all", "line": {"instance_type": "ml.unknown.large"}})
    found = upload(s3)
    report = registering(wrong).register(found)
    assert (report["state"], report["manifests"]) == ("registered", {})
    assert "the rule all of on_dataset generates an invalid line: instance_type" in report["errors"]["all"]
    assert manifests(s3, wrong) == {}
    corrected = with_rules({"name": "all"})
    assert registering(corrected).register(found)["errors"] == {}
    assert manifests(s3, corrected) == {"manifests/on_dataset/all/oslo/1.jsonl": 1}


def test_a_rule_names_the_attribute_that_a_marker_lacks(s3: Any) -> None:
    deployment = with_rules({"name": "all", "line": {"name": "{attributes.site}"}})
    report = registering(deployment).register(upload(s3))
    assert "requires attributes.site, which the marker does not have" in report["errors"]["all"]


def test_a_pending_rule_that_was_removed_is_forgotten(s3: Any) -> None:
    found = upload(s3)
    registering(with_rules({"name": "all", "line": {"name": "{attributes.site}"}})).register(found)
    report = registering(sample_deployment()).register(found)
    assert (report["manifests"], report["errors"]) == ({}, {})
    assert registered(sample_deployment())[0].pending == ()


@pytest.mark.parametrize(
    ("bucket", "key", "region", "is_marker"),
    [
        ("ragab-ml", "a/dataset.json", EAST, True),
        ("ragab-ml", "dataset.json", EAST, False),
        ("ragab-ml", "a/my-dataset.json", EAST, False),
        ("ragab-ml", "a/dataset.json", IRELAND, False),
        ("foreign", "a/dataset.json", EAST, False),
    ],
)
def test_only_markers_in_data_buckets_are_considered(
    deployment: Deployment, bucket: str, key: str, region: str, *, is_marker: bool
) -> None:
    event = {"region": region, "detail": {"bucket": {"name": bucket}, "object": {"key": key}}}
    assert (MarkerObject.from_event(event, deployment) is not None) == is_marker
