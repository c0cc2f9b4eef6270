from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import pytest
from botocore.exceptions import ClientError

WRITERS, ROUNDS = 8, 12


@pytest.fixture(scope="module")
def table(client: Callable[..., Any]) -> Any:
    dynamodb = client("dynamodb")
    dynamodb.create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return dynamodb


@pytest.mark.usefixtures("frequent_thread_switches")
def test_only_one_of_many_concurrent_writers_meets_its_condition(table: Any) -> None:
    # A client makes its exception classes at their first use, which is not safe in several threads.
    refused = table.exceptions.ConditionalCheckFailedException

    def advance(number: int) -> bool:
        try:
            table.update_item(
                TableName="t",
                Key={"k": {"S": "item"}},
                UpdateExpression="SET a = :next, tried = list_append(if_not_exists(tried, :none), :one)",
                ConditionExpression="a = :now",
                ExpressionAttributeValues={
                    ":now": {"N": str(number)},
                    ":next": {"N": str(number + 1)},
                    ":none": {"L": []},
                    ":one": {"L": [{"N": str(number)}]},
                },
            )
        except refused:
            return False
        return True

    table.put_item(TableName="t", Item={"k": {"S": "item"}, "a": {"N": "0"}})
    with ThreadPoolExecutor(WRITERS) as writers:
        for number in range(ROUNDS):
            assert sum(writers.map(advance, [number] * WRITERS)) == 1
    item = table.get_item(TableName="t", Key={"k": {"S": "item"}})["Item"]
    assert [int(entry["N"]) for entry in item["tried"]["L"]] == list(range(ROUNDS))


@pytest.fixture(scope="module")
def ledger(client: Callable[..., Any]) -> Any:
    """Create a table with two partitions, whose items were written in random order."""
    dynamodb = client("dynamodb")
    keys = {"submission": "HASH", "item": "RANGE"}
    dynamodb.create_table(
        TableName="ledger",
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
        BillingMode="PAY_PER_REQUEST",
    )
    for submission in ("a", "b"):
        for item in ("job#2", "cancel#all", "job#0", "submission", "job#1"):
            dynamodb.put_item(TableName="ledger", Item={"submission": {"S": submission}, "item": {"S": item}})
    return dynamodb


@pytest.mark.parametrize(
    ("condition", "values", "found"),
    [
        ("begins_with(#item, :x)", {":x": "job#"}, ["job#0", "job#1", "job#2"]),
        ("#item = :x", {":x": "submission"}, ["submission"]),
        ("#item BETWEEN :x AND :y", {":x": "cancel", ":y": "job#0"}, ["cancel#all", "job#0"]),
        ("#item > :x", {":x": "job#1"}, ["job#2", "submission"]),
        ("begins_with(#item, :x)", {":x": "nothing"}, []),
    ],
)
def test_a_query_returns_the_matching_items_of_its_partition_in_order(
    ledger: Any, condition: str, values: dict[str, str], found: list[str]
) -> None:
    request = {
        "TableName": "ledger",
        "KeyConditionExpression": f"submission = :submission AND {condition}",
        "ExpressionAttributeNames": {"#item": "item"},
        "ExpressionAttributeValues": {":submission": {"S": "b"}} | {key: {"S": text} for key, text in values.items()},
    }
    reply = ledger.query(**request)
    assert [item["item"]["S"] for item in reply["Items"]] == found
    assert {item["submission"]["S"] for item in reply["Items"]} <= {"b"}
    assert reply["ScannedCount"] == len(found)
    backwards = ledger.query(**request, ScanIndexForward=False)["Items"]
    assert [item["item"]["S"] for item in backwards] == found[::-1]


def test_a_query_continues_after_its_last_page(ledger: Any) -> None:
    pages = ledger.get_paginator("query").paginate(
        TableName="ledger",
        KeyConditionExpression="submission = :submission",
        ExpressionAttributeValues={":submission": {"S": "a"}},
        PaginationConfig={"PageSize": 2},
    )
    read = [[item["item"]["S"] for item in page["Items"]] for page in pages]
    assert list(chain(*read)) == ["cancel#all", "job#0", "job#1", "job#2", "submission"]
    assert [len(page) for page in read] == [2, 2, 1]


def test_a_query_of_a_missing_partition_returns_no_items(ledger: Any) -> None:
    reply = ledger.query(
        TableName="ledger",
        KeyConditionExpression="submission = :submission",
        ExpressionAttributeValues={":submission": {"S": "c"}},
    )
    assert reply["Items"] == []


def test_items_are_read_with_the_types_they_were_written_with(client: Callable[..., Any], table: Any) -> None:
    every_type = {
        "k": {"S": "every type"},
        "text": {"S": ""},
        "number": {"N": "0.10"},
        "yes": {"BOOL": False},
        "none": {"NULL": True},
        "bytes": {"B": b"\x00\xff"},
        "texts": {"SS": ["a", "b"]},
        "numbers": {"NS": ["1", "2"]},
        "list": {"L": [{"S": "a"}, {"M": {"deep": {"N": "1"}}}, {"L": []}]},
        "map": {"M": {"S": {"S": "a key named as a type"}, "bytes": {"B": b"\x01"}}},
    }
    table.put_item(TableName="t", Item=every_type)
    assert table.get_item(TableName="t", Key={"k": every_type["k"]})["Item"] == every_type
    assert every_type in table.scan(TableName="t")["Items"]


def test_a_page_of_an_index_has_a_megabyte_of_its_own_entries(client: Callable[..., Any]) -> None:
    dynamodb = client("dynamodb")
    keys = [{"AttributeName": "k", "KeyType": "HASH"}, {"AttributeName": "r", "KeyType": "RANGE"}]
    dynamodb.create_table(
        TableName="indexed",
        KeySchema=keys,
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("k", "r")],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "small",
                "KeySchema": keys,
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["state"]},
            }
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    for number in range(4):
        item = {"k": {"S": "a"}, "r": {"S": str(number)}, "state": {"S": "new"}, "more": {"S": "x" * 300_000}}
        dynamodb.put_item(TableName="indexed", Item=item)
    request = {
        "TableName": "indexed",
        "KeyConditionExpression": "k = :k",
        "ExpressionAttributeValues": {":k": {"S": "a"}},
    }
    of_table, of_index = (dynamodb.query(**request, **index) for index in ({}, {"IndexName": "small"}))
    assert of_table["Count"] == 3
    assert "LastEvaluatedKey" in of_table
    assert of_index["Items"] == [
        {"k": {"S": "a"}, "r": {"S": str(number)}, "state": {"S": "new"}} for number in range(4)
    ]
    assert "LastEvaluatedKey" not in of_index


def test_an_update_changes_at_most_one_index(client: Callable[..., Any]) -> None:
    dynamodb, keys = client("dynamodb"), [{"AttributeName": "k", "KeyType": "HASH"}]
    attributes = [{"AttributeName": "k", "AttributeType": "S"}]
    dynamodb.create_table(
        TableName="updated", KeySchema=keys, AttributeDefinitions=attributes, BillingMode="PAY_PER_REQUEST"
    )

    def update(*names: str) -> list[str]:
        created = [
            {"Create": {"IndexName": name, "KeySchema": keys, "Projection": {"ProjectionType": "ALL"}}}
            for name in names
        ]
        dynamodb.update_table(TableName="updated", AttributeDefinitions=attributes, GlobalSecondaryIndexUpdates=created)
        described = dynamodb.describe_table(TableName="updated")["Table"]
        return [index["IndexName"] for index in described["GlobalSecondaryIndexes"]]

    with pytest.raises(ClientError, match="Only 1 online index can be created or deleted") as refused:
        update("one", "two")
    assert refused.value.response["Error"]["Code"] == "LimitExceededException"
    assert update("one") == ["one"]
    assert update("two") == ["one", "two"]
