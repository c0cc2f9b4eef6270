"""DynamoDB with atomic writes, and with reads that take time in proportion to their results; moto 5.2.5 has neither.

A condition and the write that it allows are one step, as in AWS. moto checks a condition and then changes the item in
place, in whichever thread serves the request: two writers could both find their condition true, and a reader could meet
an item that is half changed.

A query looks at the items of its partition that meet its condition. moto sorts all items of the table first, so ten
thousand children that each ask for their submission's cancels would cost the square of ten thousand.

An attribute of one value is written to the reply as it is stored, which is as DynamoDB writes it. moto looks up each of
the ten types of DynamoDB under two names in every attribute: a page of items took several times as long.
"""

import threading
from typing import TYPE_CHECKING, Any

from moto.core.serialize import SERVICE_SPECIFIC_SERIALIZERS, JSONSerializer
from moto.dynamodb.comparisons import get_comparison_func
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler

if TYPE_CHECKING:
    from localcloud.server import LocalCloud

_ONE_AT_A_TIME = threading.RLock()
_call_action = DynamoHandler.call_action
_query = Table.query
_SINGLE_VALUES = {"S": str, "N": str, "BOOL": bool, "NULL": bool}
_INDEX_NAME = 4  # its place among the arguments behind the range key's


def install(_cloud: "LocalCloud") -> None:
    """Let DynamoDB do one call at a time, and look where it has to; moto has no seam there, so methods are replaced."""

    def call_action(handler: Any) -> Any:
        with _ONE_AT_A_TIME:
            return _call_action(handler)

    DynamoHandler.call_action = call_action
    Table.query = _query_of_partition
    SERVICE_SPECIFIC_SERIALIZERS["dynamodb"] = {"json": _ItemSerializer}


class _ItemSerializer(JSONSerializer):  # type: ignore[misc]  # moto has no types
    """Serializes replies, and leaves alone what has DynamoDB's form already."""

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
    """Query a table of which only those items are there that can be in the answer; an index is left to moto."""
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
