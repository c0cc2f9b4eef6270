"""DynamoDB whose writes are atomic: a condition and the write that it allows are one step, as in AWS.

moto 5.2.5 checks a condition and then changes the item in place, in whichever thread serves the request: two writers
could both find their condition true, and a reader could meet an item that is half changed.
"""

import threading
from typing import TYPE_CHECKING, Any

from moto.dynamodb.responses import DynamoHandler

if TYPE_CHECKING:
    from localcloud.server import LocalCloud

_ONE_AT_A_TIME = threading.RLock()
_call_action = DynamoHandler.call_action


def install(_cloud: "LocalCloud") -> None:
    """Let DynamoDB do one call at a time; moto has no seam there, so the method is replaced."""

    def call_action(handler: Any) -> Any:
        with _ONE_AT_A_TIME:
            return _call_action(handler)

    DynamoHandler.call_action = call_action
