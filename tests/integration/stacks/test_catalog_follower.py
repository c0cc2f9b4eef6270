"""The function of `catalog: dsql` that follows the ledger, its mapping, and the ledger's stream."""

from pathlib import Path
from typing import Any

import pytest
from moto.events.models import EventPattern

from localcloud.cloudformation.resource_schemas import resource_schema
from tests.integration.stacks.templates import Template, a_grid, flat, only, resources, statements, synthesise
from traingrid.ledger.user_requests import CANCEL_ALL
from traingrid.names import DATASETS, MOVES

TABLE, MAPPING, FUNCTION = "AWS::DynamoDB::Table", "AWS::Lambda::EventSourceMapping", "AWS::Lambda::Function"


@pytest.fixture(scope="module")
def followed(layer: Path) -> dict[str, Template]:
    """The templates of a grid with `catalog: dsql`."""
    return synthesise(a_grid(1, catalog="dsql"), layer)


@pytest.fixture
def mapping(followed: dict[str, Template]) -> Any:
    return only(followed["traingrid-guard"], MAPPING)


def test_only_the_catalog_in_aurora_dsql_is_followed(control: Template, followed: dict[str, Template]) -> None:
    assert "StreamSpecification" not in only(control, TABLE)
    assert only(followed["traingrid-control"], TABLE)["StreamSpecification"] == {"StreamViewType": "KEYS_ONLY"}
    assert not [name for name in control["Resources"] if name.startswith("Catalog")]
    assert [stack for stack, template in followed.items() if resources(template, MAPPING)] == ["traingrid-guard"]


def test_the_stream_changes_the_table_in_place(control: Template, followed: dict[str, Template]) -> None:
    ((before, table),) = resources(control, TABLE).items()
    ((after, with_stream),) = resources(followed["traingrid-control"], TABLE).items()
    assert before == after
    old, new = table["Properties"], with_stream["Properties"]
    assert old != new
    assert resource_schema(TABLE).replaces(old, new) == resource_schema(TABLE).replaces(new, old) == []


def test_the_libraries_of_the_catalog_are_those_of_one_function(followed: dict[str, Template]) -> None:
    control = followed["traingrid-control"]
    (shared,) = [name for name in resources(control, "AWS::Lambda::LayerVersion") if name.startswith("Libraries")]
    layers = {
        name[:-8]: sorted(layer["Ref"][:-8] for layer in function["Properties"]["Layers"])
        for name, function in resources(control, FUNCTION).items()
    }
    assert layers.pop("CatalogFollowerFollowFunction") == ["CatalogFollowerLibraries", shared[:-8]]
    assert set(map(tuple, layers.values())) == {(shared[:-8],)}


@pytest.mark.parametrize(
    ("submission", "item", "is_passed"),
    [
        ("0a1b2c3d", "job#00000", True),
        ("0a1b2c3d", "submission", True),
        (DATASETS, "day1#2", True),
        (MOVES, "s3://data/copies/day1", True),
        ("0a1b2c3d", f"cancel#{CANCEL_ALL}", False),
        ("0a1b2c3d", "array#retry-1", False),
        ("grid", "launching", False),
        ("shortages", "us-east-1/ml.g5.xlarge/spot", False),
    ],
)
def test_only_changes_that_the_catalog_shows_invoke_the_function(
    mapping: Any, submission: str, item: str, is_passed: bool
) -> None:
    record = {"eventName": "MODIFY", "dynamodb": {"Keys": {"submission": {"S": submission}, "item": {"S": item}}}}
    patterns = [found["Pattern"] for found in mapping["FilterCriteria"]["Filters"]]
    assert any(EventPattern.load(pattern).matches_event(record) for pattern in patterns) == is_passed


def test_records_are_gathered_split_and_kept_when_the_function_fails(mapping: Any) -> None:
    assert (mapping["StartingPosition"], mapping["MaximumBatchingWindowInSeconds"]) == ("TRIM_HORIZON", 60)
    assert mapping["BisectBatchOnFunctionError"] is True
    assert mapping["MaximumRecordAgeInSeconds"] == 6 * 3600
    assert 0 < mapping["MaximumRetryAttempts"] <= 10_000
    assert "CatalogFollowerFollowDeadLetters" in str(mapping["DestinationConfig"]["OnFailure"]["Destination"])
    assert "LedgerTable" in str(mapping["EventSourceArn"])


def test_a_refused_deletion_of_the_grid_leaves_the_mapping(followed: dict[str, Template]) -> None:
    """CloudFormation deletes a resource after those that depend on it."""
    (jobs,) = resources(followed["traingrid-guard"], "Custom::RunningJobs").values()
    assert jobs["DependsOn"] == list(resources(followed["traingrid-guard"], MAPPING))


def test_errors_and_discarded_records_raise_alarms(followed: dict[str, Template]) -> None:
    names = {
        alarm["Properties"]["AlarmName"]
        for alarm in resources(followed["traingrid-control"], "AWS::CloudWatch::Alarm").values()
    }
    assert {"traingrid-undelivered-follower", "traingrid-failing-follower"} <= names


def test_the_function_connects_as_its_own_role_of_the_database(followed: dict[str, Template]) -> None:
    control = followed["traingrid-control"]
    (cluster,) = resources(control, "AWS::DSQL::Cluster")
    (function,) = [
        found["Properties"] for name, found in resources(control, FUNCTION).items() if name.startswith("Catalog")
    ]
    catalog = flat(function["Environment"]["Variables"]["TRAINGRID_CATALOG"])
    assert catalog == f"dsql://traingrid_follower@<{cluster}.Endpoint>"
    connects = [found for found in statements(control) if any("dsql:" in action for action in found["Action"])]
    assert [(found["Action"], found["Resource"]) for found in connects] == [
        (["dsql:DbConnect"], [f"<{cluster}.ResourceArn>"])
    ]
