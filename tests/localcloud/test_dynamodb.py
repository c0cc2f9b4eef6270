import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

WRITERS, ROUNDS = 8, 12


@pytest.fixture
def threads_take_turns_often() -> Iterator[None]:
    """The server runs in this process: without its lock, some rounds then have two winners or more."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


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


def test_one_of_many_writers_at_once_meets_its_condition(table: Any, threads_take_turns_often: None) -> None:
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
        except table.exceptions.ConditionalCheckFailedException:
            return False
        return True

    table.put_item(TableName="t", Item={"k": {"S": "item"}, "a": {"N": "0"}})
    with ThreadPoolExecutor(WRITERS) as writers:
        for number in range(ROUNDS):
            assert sum(writers.map(advance, [number] * WRITERS)) == 1
    item = table.get_item(TableName="t", Key={"k": {"S": "item"}})["Item"]
    assert [int(entry["N"]) for entry in item["tried"]["L"]] == list(range(ROUNDS))
