"""Refused calls: AWS denies one operation to all clients of a test."""

from typing import Any

import botocore.client
import pytest
from botocore.exceptions import ClientError


def refuse(monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    """Let each call of an operation, such as ListObjectsV2, end with AccessDenied."""
    base: Any = botocore.client.BaseClient
    call = base._make_api_call

    def reply(self: Any, operation: str, arguments: Any) -> Any:
        if operation == refused:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, operation)
        return call(self, operation, arguments)

    monkeypatch.setattr(base, "_make_api_call", reply)
