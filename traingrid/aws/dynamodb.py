"""DynamoDB: a table with conditional writes, and conversions between Python's and DynamoDB's values."""

from __future__ import annotations

from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from traingrid.aws.clients import ClientFactory, client

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Item = dict[str, Any]

_WITHOUT_INDEX = frozenset({"ValidationException", "ResourceNotFoundException", "AccessDeniedException"})
"""The errors of a query of an index that does not exist (https://github.com/awslabs/aws-sdk-ios-samples/issues/58; the
reference of Query has the second one), that the caller cannot read, or that DynamoDB still fills
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.OnlineOps.html)."""
_MIN_NUMBER, _BEYOND_MAX_NUMBER = 1e-130, 1e126
_DESERIALIZER: Any = TypeDeserializer()


class Table:
    """A table with the partition key `submission` and the sort key `item`.

    Args:
        region: The table's Region; by default the environment's.
        make_client: Makes the client of DynamoDB.
    """

    def __init__(self, name: str, region: str | None = None, make_client: ClientFactory = client) -> None:
        self._name = name
        self._dynamodb: Any = make_client("dynamodb", region)

    def get(self, submission: str, item: str) -> Item | None:
        """Return an item, or None if there is none."""
        key = marshalled({"submission": submission, "item": item})
        reply = self._dynamodb.get_item(TableName=self._name, Key=key, ConsistentRead=True)
        return plain(reply["Item"]) if "Item" in reply else None

    def put(self, item: Item) -> None:
        """Write an item, and replace an existing one."""
        self._dynamodb.put_item(TableName=self._name, Item=marshalled(item))

    def put_new(self, item: Item) -> bool:
        """Write an item unless one with its key exists; return True if it was written."""
        request = {"Item": marshalled(item), "ConditionExpression": "attribute_not_exists(submission)"}
        return self._write_conditionally("put_item", request)

    def query(self, submission: str, condition: str, value: str) -> Iterator[Item]:
        """Yield a submission's items that meet a condition on `#item` and `:value`, in the order of their sort key."""
        pages = self._dynamodb.get_paginator("query").paginate(
            TableName=self._name,
            ConsistentRead=True,
            KeyConditionExpression=f"submission = :submission AND {condition}",
            ExpressionAttributeNames={"#item": "item"},
            ExpressionAttributeValues=marshalled({":submission": submission, ":value": value}),
        )
        for page in pages:
            yield from map(plain, page["Items"])

    def query_index(self, index: str, condition: str, values: Item) -> Iterator[Item] | None:
        """Return the items of an index that meet a key condition, with the attributes of the index.

        An index is only eventually consistent: it may lack changes of the last moments
        (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html).

        Args:
            index: The name of a global secondary index.
            condition: A key condition expression. Its fields start with # and are separated as in `scan_page`.
            values: The values of its placeholders.

        Returns:
            None if the table does not have the index, or not yet, or the caller may not read it.
        """
        pages = self._dynamodb.get_paginator("query").paginate(
            TableName=self._name,
            IndexName=index,
            KeyConditionExpression=condition,
            ExpressionAttributeNames={f"#{field}": field for field in _fields(condition)},
            ExpressionAttributeValues=marshalled(values),
        )
        replies = iter(pages)
        try:
            first = next(replies)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _WITHOUT_INDEX:
                raise
            return None
        return (plain(item) for page in chain([first], replies) for item in page["Items"])

    def scan(self, item: str) -> Iterator[Item]:
        """Yield the items of all submissions with one sort key, in no particular order."""
        pages = self._dynamodb.get_paginator("scan").paginate(
            TableName=self._name,
            FilterExpression="#item = :item",
            ExpressionAttributeNames={"#item": "item"},
            ExpressionAttributeValues=marshalled({":item": item}),
        )
        for page in pages:
            yield from map(plain, page["Items"])

    def scan_page(self, condition: str, values: Item, after: Item | None) -> tuple[list[tuple[str, str]], Item | None]:
        """Return the keys of the items on one page of the table that meet a condition, eventually consistent.

        Args:
            condition: A filter expression. Its fields start with # and must be separated from brackets by spaces.
            values: The values of its placeholders.
            after: The key after which the page begins; None for the first page.

        Returns:
            The keys, and the key after which the next page begins; None after the last page.
        """
        fields = {"submission", "item", *_fields(condition)}
        reply = self._dynamodb.scan(
            TableName=self._name,
            FilterExpression=condition,
            ProjectionExpression="#submission, #item",
            ExpressionAttributeNames={f"#{field}": field for field in fields},
            ExpressionAttributeValues=marshalled(values),
            **({"ExclusiveStartKey": marshalled(after)} if after else {}),
        )
        last = reply.get("LastEvaluatedKey")
        keys = [(item["submission"], item["item"]) for item in map(plain, reply["Items"])]
        last_key = plain(last) if last else None
        return keys, last_key

    def everything(self) -> Iterator[Item]:
        """Yield every item of the table. Submissions are in no particular order; pages are read one after the other."""
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
        added: Mapping[str, str] | None = None,
        discarded: Mapping[str, str] | None = None,
    ) -> bool:
        """Change an item if a condition is met; return True if it was changed.

        Args:
            key: The submission and item of the key.
            changes: New values of fields.
            condition: A condition expression. Its fields start with # and must be separated from brackets by spaces.
            values: The values of the condition's placeholders.
            appended: Values to append to list fields, which are created if they do not exist.
            added: A text to add to each field that is a set, which is created if it does not exist.
            discarded: A text to remove from each field that is a set, which is removed with its last text.
        """
        appended, added, discarded = appended or {}, added or {}, discarded or {}
        fields = {*changes, *appended, *removed, *added, *discarded, *_fields(condition)}
        new = {f":new_{field}": value for field, value in {**changes, **appended}.items()}
        new |= {f":new_{field}": {value} for field, value in {**added, **discarded}.items()}
        parts = [f"#{field} = :new_{field}" for field in changes]
        parts += [f"#{field} = list_append(if_not_exists(#{field}, :empty), :new_{field})" for field in appended]
        clauses = {
            "SET": parts,
            "REMOVE": [f"#{field}" for field in removed],
            "ADD": [f"#{field} :new_{field}" for field in added],
            "DELETE": [f"#{field} :new_{field}" for field in discarded],
        }
        request = {
            "Key": marshalled(dict(zip(("submission", "item"), key, strict=True))),
            "UpdateExpression": " ".join(f"{name} {', '.join(part)}" for name, part in clauses.items() if part),
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {f"#{field}": field for field in fields},
            "ExpressionAttributeValues": marshalled({**new, **values, **({":empty": []} if appended else {})}),
        }
        return self._write_conditionally("update_item", request)

    def delete(self, key: tuple[str, str], condition: str, values: Item) -> bool:
        """Delete an item if a condition is met, as in `update`; return True if it was deleted."""
        request = {
            "Key": marshalled(dict(zip(("submission", "item"), key, strict=True))),
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {f"#{field}": field for field in _fields(condition)},
            "ExpressionAttributeValues": marshalled(values),
        }
        return self._write_conditionally("delete_item", request)

    def _write_conditionally(self, operation: str, request: Item) -> bool:
        try:
            getattr(self._dynamodb, operation)(TableName=self._name, **request)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            return False
        return True


def _fields(condition: str) -> set[str]:
    """Return the fields of an expression, which start with #."""
    return {word.strip("#") for word in condition.split() if word.startswith("#")}


def marshalled(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item, or a map of expression values, in the format of DynamoDB's API."""
    serialize = TypeSerializer().serialize
    return {name: serialize(_decimal(value)) for name, value in item.items()}


def plain(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item of DynamoDB's API as Python values, with integers and floats instead of decimals."""
    return {name: _plain_value(value) for name, value in item.items()}


def _plain_value(value: Mapping[str, Any]) -> Any:
    """Return a value of DynamoDB's API; boto3's deserializer is slow for texts, which most values are."""
    if "S" in value:
        return value["S"]
    if "M" in value:
        return plain(value["M"])
    if "L" in value:
        return [_plain_value(part) for part in value["L"]]
    deserialized = _DESERIALIZER.deserialize(value)
    if isinstance(deserialized, Decimal):
        return int(deserialized) if deserialized == deserialized.to_integral_value() else float(deserialized)
    return deserialized


def _decimal(value: Any) -> Any:
    """Convert floats to decimals, because boto3 rejects floats as inexact.

    A metric that DynamoDB cannot store is omitted, because a number that a training prints must not fail its child.
    """
    if isinstance(value, float):
        return Decimal(str(value))
    if isinstance(value, dict):
        return {
            name: _decimal(part) for name, part in value.items() if not isinstance(part, float) or _is_storable(part)
        }
    if isinstance(value, list | tuple):
        return [_decimal(part) for part in value]
    return value


def _is_storable(number: float) -> bool:
    """Return True if DynamoDB can store a number: 0, or a finite number from 1E-130 to 9.99E+125.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
    """
    return number == 0 or _MIN_NUMBER <= abs(number) < _BEYOND_MAX_NUMBER
