"""Ledger indexes: adds an index to an existing ledger table, as a deployment does, and denies their use."""

from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from traingrid.ledger.job_states import INDEXED
from traingrid.names import LEDGER_STATES, LEDGER_SUBMISSIONS

_KEYS = {LEDGER_STATES: ("submission", "item"), LEDGER_SUBMISSIONS: ("item", "claimed_at")}
_PROJECTIONS = {
    LEDGER_STATES: {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(INDEXED)},
    LEDGER_SUBMISSIONS: {"ProjectionType": "ALL"},
}


def add_index(table: str, index: str) -> None:
    """Add one of the ledger's indexes to its table."""
    partition_key, sort_key = _KEYS[index]
    attributes = {"submission", "item", partition_key, sort_key}
    keys = [
        {"AttributeName": partition_key, "KeyType": "HASH"},
        {"AttributeName": sort_key, "KeyType": "RANGE"},
    ]
    created: Any = {"IndexName": index, "KeySchema": keys, "Projection": _PROJECTIONS[index]}
    boto3.client("dynamodb").update_table(
        TableName=table,
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in sorted(attributes)],
        GlobalSecondaryIndexUpdates=[{"Create": created}],
    )


def deny_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every call that reads an index, as for a caller without the permission."""
    query = BaseClient._make_api_call  # type: ignore[attr-defined]  # the stubs omit it

    def denied(client: BaseClient, operation: str, parameters: dict[str, Any]) -> Any:
        if "IndexName" in parameters:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "denied"}}, operation)
        return query(client, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", denied)
