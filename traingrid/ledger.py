"""The ledger: what is known of submissions and jobs, in one DynamoDB table.

There are no locks. Every write is conditional, so that any number of processes may write at any time, in any order and
more than once: a submission exists once, and a job that has ended never changes again.
"""

from __future__ import annotations

import calendar
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from traingrid.clients import client

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.job import Job

SUBMISSION = "submission"
# SageMaker's own words for a training job's status, and Pending for a job that has none yet.
PENDING = "Pending"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_SMALLEST, _BEYOND_LARGEST = 1e-130, 1e126
FINAL_STATES = frozenset({"Completed", "Failed", "Stopped"})

Item = dict[str, Any]


def job_item(index: int) -> str:
    """Return the sort key of a job, padded so that jobs sort by index."""
    return f"job#{index:05d}"


class Ledger:
    """The ledger of one grid.

    Args:
        table: The table's name.
        region: Its Region; the environment's where none is given.
    """

    def __init__(self, table: str, region: str | None = None) -> None:
        self._table = table
        self._dynamodb: Any = client("dynamodb", region)

    def claim_submission(self, submission: str, owner: str, facts: Mapping[str, Any]) -> Item | None:
        """Make a submission exist, once.

        Args:
            submission: Its id.
            owner: Who claims it: the Lambda request that will submit it, or the Batch job that it is already.
            facts: What is known of it; source, lines and so on.

        Returns:
            None if it exists from now on and is the caller's; else the item that was there before.
        """
        item = {"submission": submission, "item": SUBMISSION, "state": "Submitting", "owner": owner, **facts}
        item |= {"claimed_at": now()}
        try:
            self._dynamodb.put_item(
                TableName=self._table,
                Item=_marshalled(item),
                ConditionExpression="attribute_not_exists(submission)",
            )
        except ClientError as error:
            if not _condition_failed(error):
                raise
            return self.submission(submission)
        return None

    def take_over_submission(self, submission: str, owner: str, former: Item) -> bool:
        """Claim a submission anew, from now on, whose former claim is known to be dead.

        Args:
            submission: Its id.
            owner: Who claims it; may be the former owner.
            former: The submission as it was when that was found out.

        Returns:
            False if somebody else was faster.
        """
        return self._update(
            submission,
            SUBMISSION,
            {"owner": owner, "claimed_at": now()},
            "#owner = :owner AND #claimed_at = :claimed_at AND #state = :state",
            {f":{field}": former[field] for field in ("owner", "claimed_at", "state")},
        )

    def record_submitted(self, submission: str, batch_job: str) -> None:
        """Record the Batch job that a submission became."""
        changes = {"state": "Submitted", "batch_job": batch_job, "submitted_at": now()}
        self._update(submission, SUBMISSION, changes, "attribute_exists(submission)", {})

    def submission(self, submission: str) -> Item | None:
        """Return a submission, or None if there is none of this id."""
        return self._get(submission, SUBMISSION)

    def job(self, submission: str, index: int) -> Item | None:
        """Return what is known of a job, or None while nothing is."""
        return self._get(submission, job_item(index))

    def items(self, submission: str) -> Iterator[Item]:
        """Yield a submission's own item, if any, and those of its jobs in the order of their index."""
        pages = self._dynamodb.get_paginator("query").paginate(
            TableName=self._table,
            ConsistentRead=True,
            KeyConditionExpression="submission = :submission",
            ExpressionAttributeValues=_marshalled({":submission": submission}),
        )
        for page in pages:
            yield from map(_plain, page["Items"])

    def submissions(self) -> Iterator[Item]:
        """Yield every submission, newest first. Reads the whole table: for a person's command, not for a loop."""
        pages = self._dynamodb.get_paginator("scan").paginate(
            TableName=self._table,
            FilterExpression="#item = :item",
            ExpressionAttributeNames={"#item": "item"},
            ExpressionAttributeValues=_marshalled({":item": SUBMISSION}),
        )
        found = [_plain(item) for page in pages for item in page["Items"]]
        yield from sorted(found, key=lambda item: str(item.get("claimed_at", "")), reverse=True)

    def open_job(self, submission: str, job: Job) -> Item:
        """Make a job's item exist, at its first attempt, and return what is known of it now."""
        facts = {"region": job.region, "name": job.name, "line": job.line, "ranks": job.ranks}
        item = {"submission": submission, "item": job_item(job.index), "state": PENDING, "attempt": 1, **facts}
        try:
            self._dynamodb.put_item(
                TableName=self._table,
                Item=_marshalled(item | {"opened_at": now()}),
                ConditionExpression="attribute_not_exists(submission)",
            )
        except ClientError as error:
            if not _condition_failed(error):
                raise
        return self.job(submission, job.index) or item

    def record_job(self, submission: str, index: int, attempt: int, facts: Mapping[str, Any]) -> bool:
        """Record what was seen of a job's attempt.

        Returns:
            False, and nothing is changed, if the job has ended or is at another attempt.
        """
        values = {":attempt": attempt} | {f":final{n}": state for n, state in enumerate(sorted(FINAL_STATES))}
        finals = ", ".join(name for name in values if name.startswith(":final"))
        condition = f"#attempt = :attempt AND NOT #state IN ({finals})"
        return self._update(submission, job_item(index), {**facts, "updated_at": now()}, condition, values)

    def _get(self, submission: str, item: str) -> Item | None:
        key = _marshalled({"submission": submission, "item": item})
        reply = self._dynamodb.get_item(TableName=self._table, Key=key, ConsistentRead=True)
        return _plain(reply["Item"]) if "Item" in reply else None

    def _update(
        self, submission: str, item: str, changes: Mapping[str, Any], condition: str, values: Mapping[str, Any]
    ) -> bool:
        fields = {*changes, *(word.strip("#") for word in condition.split() if word.startswith("#"))}
        try:
            self._dynamodb.update_item(
                TableName=self._table,
                Key=_marshalled({"submission": submission, "item": item}),
                UpdateExpression="SET " + ", ".join(f"#{field} = :new_{field}" for field in changes),
                ConditionExpression=condition,
                ExpressionAttributeNames={f"#{field}": field for field in fields},
                ExpressionAttributeValues=_marshalled(
                    {**{f":new_{field}": value for field, value in changes.items()}, **values}
                ),
            )
        except ClientError as error:
            if not _condition_failed(error):
                raise
            return False
        return True


def now() -> str:
    """Return the time as the ledger writes it: UTC, ISO 8601, whole seconds."""
    return time.strftime(_TIME, time.gmtime())


def epoch_seconds(timestamp: str) -> int:
    """Return a time of the ledger as seconds since 1970."""
    return calendar.timegm(time.strptime(timestamp, _TIME))


def _condition_failed(error: ClientError) -> bool:
    return error.response["Error"]["Code"] == "ConditionalCheckFailedException"


def _marshalled(item: Mapping[str, Any]) -> dict[str, Any]:
    serialize = TypeSerializer().serialize
    return {name: serialize(_decimal(value)) for name, value in item.items()}


def _decimal(value: Any) -> Any:
    """DynamoDB's numbers are decimals; boto3 refuses floats because they are not exact.

    A metric that DynamoDB cannot hold is left out, because a number that a training prints must not end its child.
    """
    if isinstance(value, float):
        return Decimal(str(value))
    if isinstance(value, dict):
        return {name: _decimal(part) for name, part in value.items() if not isinstance(part, float) or _holds(part)}
    return value


def _holds(number: float) -> bool:
    """Whether DynamoDB holds a number: not NaN, not infinite, within 1E-130 to 9.99E+125, or 0
    (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html).
    """
    return number == 0 or _SMALLEST <= abs(number) < _BEYOND_LARGEST


def _plain(item: Mapping[str, Any]) -> Item:
    deserialize = TypeDeserializer().deserialize
    return {name: _number(deserialize(value)) for name, value in item.items()}


def _number(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {name: _number(part) for name, part in value.items()}
    return value
