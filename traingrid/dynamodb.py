"""A DynamoDB table of conditional writes, and the way from Python's values to DynamoDB's and back."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from traingrid.clients import Maker, client

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Item = dict[str, Any]

_SMALLEST, _BEYOND_LARGEST = 1e-130, 1e126


class Table:
    """A table with the partition key `submission` and the sort key `item`.

    Args:
        name: The table's name.
        region: Its Region; the environment's where none is given.
        make: Makes the client of DynamoDB.
    """

    def __init__(self, name: str, region: str | None = None, make: Maker = client) -> None:
        self._name = name
        self._dynamodb: Any = make("dynamodb", region)

    def get(self, submission: str, item: str) -> Item | None:
        """Return an item, or None if there is none."""
        key = marshalled({"submission": submission, "item": item})
        reply = self._dynamodb.get_item(TableName=self._name, Key=key, ConsistentRead=True)
        return plain(reply["Item"]) if "Item" in reply else None

    def put(self, item: Item) -> None:
        """Write an item, whatever was there."""
        self._dynamodb.put_item(TableName=self._name, Item=marshalled(item))

    def put_new(self, item: Item) -> bool:
        """Write an item unless one of its key exists; return whether it was written."""
        request = {"Item": marshalled(item), "ConditionExpression": "attribute_not_exists(submission)"}
        return self._unless_condition_failed("put_item", request)

    def query(self, submission: str, condition: str, value: str) -> Iterator[Item]:
        """Yield a submission's items, in the order of their sort key, that meet a condition of `#item` and `:value`."""
        pages = self._dynamodb.get_paginator("query").paginate(
            TableName=self._name,
            ConsistentRead=True,
            KeyConditionExpression=f"submission = :submission AND {condition}",
            ExpressionAttributeNames={"#item": "item"},
            ExpressionAttributeValues=marshalled({":submission": submission, ":value": value}),
        )
        for page in pages:
            yield from map(plain, page["Items"])

    def scan(self, item: str) -> Iterator[Item]:
        """Yield the items of one sort key, of all submissions and in no order."""
        pages = self._dynamodb.get_paginator("scan").paginate(
            TableName=self._name,
            FilterExpression="#item = :item",
            ExpressionAttributeNames={"#item": "item"},
            ExpressionAttributeValues=marshalled({":item": item}),
        )
        for page in pages:
            yield from map(plain, page["Items"])

    def everything(self) -> Iterator[Item]:
        """Yield every item, in no order of the submissions, each as it is when its page is read."""
        pages = self._dynamodb.get_paginator("scan").paginate(TableName=self._name, ConsistentRead=True)
        for page in pages:
            yield from map(plain, page["Items"])

    def update(  # noqa: PLR0913  # the parts of one UpdateItem
        self,
        key: tuple[str, str],
        changes: Item,
        condition: str,
        values: Item,
        *,
        appended: Mapping[str, list[Any]] | None = None,
        removed: Sequence[str] = (),
    ) -> bool:
        """Change an item under a condition; return whether it was met.

        Args:
            key: Submission and item.
            changes: New values of fields.
            condition: A condition expression. Its fields are words that begin with #, apart from brackets.
            values: The values of the condition's placeholders.
            appended: What to add to the ends of fields that are lists, or become lists by that.
            removed: Fields to take away.
        """
        appended = appended or {}
        fields = {*changes, *appended, *removed, *(w.strip("#") for w in condition.split() if w.startswith("#"))}
        new = {f":new_{field}": value for field, value in {**changes, **appended}.items()}
        parts = [f"#{field} = :new_{field}" for field in changes]
        parts += [f"#{field} = list_append(if_not_exists(#{field}, :empty), :new_{field})" for field in appended]
        removal = " REMOVE " + ", ".join(f"#{field}" for field in removed) if removed else ""
        request = {
            "Key": marshalled(dict(zip(("submission", "item"), key, strict=True))),
            "UpdateExpression": "SET " + ", ".join(parts) + removal,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {f"#{field}": field for field in fields},
            "ExpressionAttributeValues": marshalled({**new, **values, **({":empty": []} if appended else {})}),
        }
        return self._unless_condition_failed("update_item", request)

    def _unless_condition_failed(self, operation: str, request: Item) -> bool:
        try:
            getattr(self._dynamodb, operation)(TableName=self._name, **request)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            return False
        return True


def marshalled(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item, or a map of expression values, as DynamoDB's API takes it."""
    serialize = TypeSerializer().serialize
    return {name: serialize(_decimal(value)) for name, value in item.items()}


def plain(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item of DynamoDB's API as ordinary values: integers and floats, no decimals."""
    deserialize = TypeDeserializer().deserialize
    return {name: _number(deserialize(value)) for name, value in item.items()}


def _decimal(value: Any) -> Any:
    """DynamoDB's numbers are decimals; boto3 refuses floats because they are not exact.

    A metric that DynamoDB cannot hold is left out, because a number that a training prints must not end its child.
    """
    if isinstance(value, float):
        return Decimal(str(value))
    if isinstance(value, dict):
        return {name: _decimal(part) for name, part in value.items() if not isinstance(part, float) or _holds(part)}
    if isinstance(value, list | tuple):
        return [_decimal(part) for part in value]
    return value


def _holds(number: float) -> bool:
    """Whether DynamoDB holds a number: not NaN, not infinite, within 1E-130 to 9.99E+125, or 0
    (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html).
    """
    return number == 0 or _SMALLEST <= abs(number) < _BEYOND_LARGEST


def _number(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {name: _number(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_number(part) for part in value]
    return value
