"""DynamoDB values: they are converted as by boto3, except that numbers become integers and floats."""

from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer

from traingrid.aws.dynamodb import marshalled, plain

ITEM = {
    "text": "a",
    "empty": "",
    "count": 3,
    "exact": 3.0,
    "metric": 0.1,
    "flag": True,
    "off": False,
    "nothing": None,
    "list": ["a", 1, {"deep": [0.5, ""]}],
    "map": {"S": "a key like a type", "none": None, "values": {}},
    "nobody": [],
}


def test_an_item_is_read_as_it_was_written() -> None:
    assert plain(marshalled(ITEM)) == ITEM


def test_whole_numbers_are_integers_and_others_floats() -> None:
    read = plain(marshalled(ITEM))
    assert {name: type(read[name]) for name in ("count", "exact", "metric", "flag")} == {
        "count": int,
        "exact": int,
        "metric": float,
        "flag": bool,
    }
    assert [type(part) for part in (read["list"][1], read["list"][2]["deep"][0])] == [int, float]


@pytest.mark.parametrize("value", [{"SS": ["a", "b"]}, {"B": b"\0"}, {"NULL": True}, {"L": []}, {"M": {}}])
def test_values_of_other_types_are_those_of_boto3(value: Any) -> None:
    assert plain({"field": value}) == {"field": TypeDeserializer().deserialize(value)}


def test_a_metric_that_dynamodb_cannot_store_is_omitted() -> None:
    metrics = {"tiny": 1e-200, "huge": 1e200, "nan": float("nan"), "loss": 0.5, "zero": 0.0}
    assert marshalled({"metrics": metrics}) == {"metrics": {"M": {"loss": {"N": "0.5"}, "zero": {"N": "0.0"}}}}
    assert plain(marshalled({"exact": Decimal("1e3")})) == {"exact": 1000}
