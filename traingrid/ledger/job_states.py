"""Job states: the attributes of jobs that the ledger's index has, for a summary of a large submission.

An item of a job has about 1 KB, and DynamoDB returns at most 1 MB of items in one reply, whichever attributes are
requested (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Query.Pagination.html). The index has less
than a fifth of an item. It does not have the progress of a training, which changes most often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from traingrid.job.state import JobState
from traingrid.ledger.field_types import ATTEMPT, COUNT, PAST, SECONDS, TEXT, check_types
from traingrid.ledger.items import index_of

if TYPE_CHECKING:
    from collections.abc import Mapping

INDEXED = (
    *("state", "region", "name", "phase", "failure", "reason", "attempt", "epochs"),
    *("training_started_at", "training_seconds"),
)
"""The attributes of the index beside its keys. An index with other attributes needs another name, because DynamoDB does
not change an index, and CloudFormation creates one index in an update
(https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-dynamodb-table.html)."""
_TYPES = {
    **dict.fromkeys(("state", "region", "name", "phase", "failure", "reason"), TEXT),
    "attempt": ATTEMPT,
    "epochs": COUNT,
    "training_started_at": PAST,
    "training_seconds": SECONDS,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedState:
    """The state of a job; `JobItem` describes the attributes."""

    index: int
    state: JobState
    region: str
    name: str
    attempt: int
    phase: str = ""
    failure: str = ""
    reason: str = ""
    epochs: int = 0
    training_started_at: int = 0
    training_seconds: int = 0

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Return the state of a stored item, or of an entry of the index.

        Raises:
            ItemError: A required field is missing, or a field has another type.
        """
        get = item.get
        check_types(item, _TYPES, required=("item", "state", "region", "name", "attempt"))
        return cls(
            index=index_of(item),
            state=JobState(item["state"]),
            region=item["region"],
            name=item["name"],
            attempt=item["attempt"],
            phase=get("phase", ""),
            failure=get("failure", ""),
            reason=get("reason", ""),
            epochs=get("epochs", 0),
            training_started_at=get("training_started_at", 0),
            training_seconds=get("training_seconds", 0),
        )
