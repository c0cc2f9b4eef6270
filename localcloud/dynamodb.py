"""DynamoDB with atomic writes, and with reads whose time depends on their results; moto 5.2.5 provides neither.

A conditional write is atomic, as in AWS. moto checks the condition and then changes the item in place, in the thread
of the request: two writers could both find their condition true, and a reader could see a partially changed item.

A query reads only the items of its partition that meet its key condition. moto sorts all items of the table first, so
the cost of 10,000 children that each query the cancels of their submission would be quadratic.

A page of an index has up to 1 MB of the index's own entries, which are smaller than the items if it does not have all
attributes. moto adds the sizes of the items, and so would return more pages than AWS.

An update of a table creates or deletes at most one index, as in AWS; moto changes all of them.

An attribute with one value is written to the reply as stored, because that is DynamoDB's form. moto looks up each of
the ten types of DynamoDB under two names in every attribute, which made a page of items take several times as long.
"""

import copy
import threading
from typing import TYPE_CHECKING, Any

from moto.core.serialize import SERVICE_SPECIFIC_SERIALIZERS, JSONSerializer
from moto.dynamodb.comparisons import get_comparison_func
from moto.dynamodb.exceptions import DynamodbException
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import Item, LimitedSizeDict
from moto.dynamodb.models.table import SecondaryIndex, Table
from moto.dynamodb.responses import DynamoHandler

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

_ONE_AT_A_TIME = threading.RLock()
_call_action = DynamoHandler.call_action
_get_schema = DynamoDBBackend.get_schema
_query = Table.query
_update_indexes = DynamoDBBackend.update_table_global_indexes
_ONE_INDEX = "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table"
_SINGLE_VALUES = {"S": str, "N": str, "BOOL": bool, "NULL": bool}
_INDEX_NAME = 4  # its position in the arguments after the range key's


def install(cloud: "LocalCloud") -> None:
    """Serialise DynamoDB's calls and replace moto's query and serializer; moto has no hooks for these."""

    def call_action(handler: Any) -> Any:
        with _ONE_AT_A_TIME:
            return _call_action(handler)

    cloud.replace(DynamoHandler, call_action=call_action)
    cloud.replace(DynamoDBBackend, get_schema=_schema, update_table_global_indexes=_update_of_one_index)
    cloud.replace(Table, query=_query_of_partition)
    cloud.replace(SecondaryIndex, project=_index_entry)
    cloud.extend(SERVICE_SPECIFIC_SERIALIZERS, {"dynamodb": {"json": _ItemSerializer}})


def _schema(backend: Any, table_name: str, index_name: str | None) -> Any:
    """Return the keys of a table or an index; without the index, moto answers with another error code than AWS."""
    if index_name:
        backend.get_table(table_name).get_index(index_name, error_if_not=True)
    return _get_schema(backend, table_name, index_name)


def _update_of_one_index(backend: Any, table: Any, updates: list[dict[str, Any]]) -> None:
    """Create or delete an index, and refuse more than one such change.

    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_UpdateTable.html; the error is recorded in
    https://github.com/architect/architect/issues/334.
    """
    if sum("Create" in update or "Delete" in update for update in updates) > 1:
        raise DynamodbException("LimitExceededException", _ONE_INDEX)
    _update_indexes(backend, table, updates)


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
    table: Any, hash_key: Any, comparison: str | None, values: list[Any], *more: Any, **options: Any
) -> Any:
    """Query only the items of the partition that meet the key condition, or the entries of an index."""
    if more[_INDEX_NAME]:
        index = table.get_index(more[_INDEX_NAME])
        entries = [index.project(item) for item in table.has_idx_items(index.name)]
        return _query_of_items(entries, table, hash_key, comparison, values, *more, **options)
    if not table.range_key_attr or hash_key not in table.items:
        return _query(table, hash_key, comparison, values, *more, **options)
    meets = get_comparison_func(comparison or "")
    bounds = [value.cast_value for value in values]

    def is_in_bounds(key: Any) -> bool:
        return meets is None or bool(meets(key.value if key.type == "S" else key.cast_value, *bounds))

    items = [item for key, item in table.items[hash_key].items() if is_in_bounds(key)]
    return _query_of_items(items, table, hash_key, comparison, values, *more, **options)


def _query_of_items(items: list[Item], table: Any, *arguments: Any, **options: Any) -> Any:
    """Query with moto as if the table had only these items."""
    table.all_items = lambda: items
    try:
        return _query(table, *arguments, **options)
    finally:
        del table.all_items


def _index_entry(index: SecondaryIndex, item: Item) -> Item:
    """Return the entry of an item in an index. moto converts the whole item once for each attribute."""
    if (index.projection or {}).get("ProjectionType", "ALL") == "ALL":
        return item
    attributes = {*index.table_key_attrs, *index.schema_key_attrs, *index.projection.get("NonKeyAttributes", ())}
    entry = copy.copy(item)
    entry.attrs = LimitedSizeDict()
    # Its own method would add the sizes of all attributes for each of them.
    dict.update(entry.attrs, {name: value for name, value in item.attrs.items() if name in attributes})
    return entry
