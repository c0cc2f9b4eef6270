"""DynamoDB with atomic writes, and with reads whose time depends on their results; moto 5.2.5 provides neither.

A conditional write is atomic, as in AWS. moto checks the condition and then changes the item in place, in the thread
of the request: two writers could both find their condition true, and a reader could see a partially changed item.

A query reads only the items of its partition that meet its key condition. moto sorts all items of the table first, so
the cost of 10,000 children that each query the cancels of their submission would be quadratic.

An attribute with one value is written to the reply as stored, because that is DynamoDB's form. moto looks up each of
the ten types of DynamoDB under two names in every attribute, which made a page of items take several times as long.
"""

import threading
from typing import TYPE_CHECKING, Any

from moto.core.serialize import SERVICE_SPECIFIC_SERIALIZERS, JSONSerializer
from moto.dynamodb.comparisons import get_comparison_func
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

_ONE_AT_A_TIME = threading.RLock()
_call_action = DynamoHandler.call_action
_query = Table.query
_SINGLE_VALUES = {"S": str, "N": str, "BOOL": bool, "NULL": bool}
_INDEX_NAME = 4  # its position in the arguments after the range key's


def install(_cloud: "LocalCloud") -> None:
    """Serialise DynamoDB's calls and replace moto's query and serializer; moto has no hooks for these."""

    def call_action(handler: Any) -> Any:
        with _ONE_AT_A_TIME:
            return _call_action(handler)

    DynamoHandler.call_action = call_action
    Table.query = _query_of_partition
    SERVICE_SPECIFIC_SERIALIZERS["dynamodb"] = {"json": _ItemSerializer}


class _ItemSerializer(JSONSerializer):
    """Serializes replies, and keeps values that already have DynamoDB's form."""

    def _serialize_type_structure(self, serialized: Any, value: Any, shape: Any, key: str) -> None:
        if shape.name == "AttributeValue" and isinstance(value, dict) and len(value) == 1:
            [(kind, content)] = value.items()
            if kind in _SINGLE_VALUES and isinstance(content, _SINGLE_VALUES[kind]):
                self._default_serialize(serialized, value, shape, key)
                return
        super()._serialize_type_structure(serialized, value, shape, key)


def _query_of_partition(
    table: Any, hash_key: Any, comparison: str | None, values: list[Any], *more: Any, **named: Any
) -> Any:
    """Query only the items of the partition that meet the key condition; moto queries an index."""
    if more[_INDEX_NAME] or not table.range_key_attr or hash_key not in table.items:
        return _query(table, hash_key, comparison, values, *more, **named)
    meets, wanted = get_comparison_func(comparison or ""), [value.cast_value for value in values]
    found = [
        item
        for key, item in table.items[hash_key].items()
        if meets is None or meets(key.value if key.type == "S" else key.cast_value, *wanted)
    ]
    table.all_items = lambda: found
    try:
        return _query(table, hash_key, comparison, values, *more, **named)
    finally:
        del table.all_items
