"""Event source mappings of DynamoDB streams: passes records to functions in batches, as Lambda's pollers do.

moto 5.2.5 invokes the function with all records of the table, in the thread of the request that writes, and ignores
filters, windows and errors.

A stream has one shard here, so a function has one invocation of a mapping at a time. Refused: sources other than
DynamoDB, tumbling windows, partial batch responses and several batches of a shard at once.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from moto.awslambda.exceptions import LambdaClientError
from moto.awslambda.models import EventSourceMapping, lambda_backends
from moto.dynamodb.models import dynamodb_backends
from moto.events.exceptions import InvalidEventPatternException
from moto.events.models import EventPattern

from localcloud.credentials.arn import name_of_arn
from localcloud.iam.evaluation import verdict
from localcloud.iam.roles import policies_of
from localcloud.lambda_.destinations import on_failure, send_discarded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moto.awslambda.models import LambdaFunction
    from moto.dynamodb.models.table import Table

    from localcloud.lambda_.functions import Functions

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.2
_WAITS = (0.2, 30.0)
"""The first and the longest wait before a retry; AWS does not document its own."""
_LIMITS: Mapping[str, tuple[int, int]] = {
    "BatchSize": (1, 10_000),
    "MaximumBatchingWindowInSeconds": (0, 300),
    "MaximumRetryAttempts": (-1, 10_000),
    "MaximumRecordAgeInSeconds": (-1, 604_800),
}
"""https://docs.aws.amazon.com/lambda/latest/dg/services-ddb-params.html and the service model of Lambda."""
_MIN_AGE = 60
_FILTERS = 5
"""https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html"""
_NOT_BUILT = ("TumblingWindowInSeconds", "FunctionResponseTypes")
_ACTIONS = ("GetRecords", "GetShardIterator", "DescribeStream", "ListStreams")
Record = dict[str, Any]


def check(spec: Mapping[str, Any], function: LambdaFunction) -> None:
    """Refuse a mapping that AWS refuses, or that localcloud cannot serve.

    Args:
        spec: The request of CreateEventSourceMapping.

    Raises:
        LambdaClientError: It is refused.
    """
    for name, (lowest, highest) in _LIMITS.items():
        value = spec.get(name)
        if value is not None and not lowest <= int(value) <= highest:
            raise _invalid(f"{name} must be between {lowest} and {highest}; got {value}")
    if 0 <= int(spec.get("MaximumRecordAgeInSeconds") or -1) < _MIN_AGE:
        raise _invalid("MaximumRecordAgeInSeconds must be -1, or at least 60")
    if spec.get("StartingPosition") not in ("TRIM_HORIZON", "LATEST"):
        raise _invalid("StartingPosition must be TRIM_HORIZON or LATEST for a DynamoDB stream")
    if any(spec.get(name) for name in _NOT_BUILT) or int(spec.get("ParallelizationFactor") or 1) > 1:
        raise _invalid(f"localcloud supports neither {', '.join(_NOT_BUILT)} nor ParallelizationFactor")
    patterns = _patterns(spec)
    if len(patterns) > _FILTERS:
        raise _invalid(f"Maximum number of filters: {_FILTERS}")
    _check_permissions(spec, function)


def _check_permissions(spec: Mapping[str, Any], function: LambdaFunction) -> None:
    """Refuse a function whose role may not read the stream, or not send to the destination.

    https://github.com/aws-samples/lambda-refarch-webapp/issues/7 has AWS's words.
    """
    stream, role = spec["EventSourceArn"], name_of_arn(function.role)
    documents = policies_of(role, function.account_id) or []

    def may(action: str, resource: str) -> bool:
        return verdict(documents, action, resource, {}) == "Allowed"

    if not all(may(f"dynamodb:{name}", "*" if name == "ListStreams" else stream) for name in _ACTIONS):
        actions = "GetRecords, GetShardIterator, DescribeStream, and ListStreams Actions on your stream in IAM."
        raise _invalid(f"Cannot access stream {stream}. Please ensure the role can perform the {actions}")
    queue = on_failure(spec.get("DestinationConfig"))
    if queue and not may("sqs:SendMessage", queue):
        raise _invalid("The function execution role does not have permissions to call SendMessage on SQS")


def _invalid(message: str) -> LambdaClientError:
    return LambdaClientError("InvalidParameterValueException", message)


def _patterns(spec: Mapping[str, Any]) -> list[EventPattern]:
    """Return the filters of a mapping; a record passes if one of them matches, or if there are none."""
    filters = (spec.get("FilterCriteria") or {}).get("Filters", [])
    try:
        return [EventPattern.load(event_filter["Pattern"]) for event_filter in filters]
    except InvalidEventPatternException as error:
        raise _invalid(f"Invalid filter pattern definition. {error}") from None


def table_of(mapping: EventSourceMapping) -> Table:
    """Return the table whose stream a mapping reads.

    Raises:
        LambdaClientError: The stream does not exist.
    """
    arn = mapping.event_source_arn
    _, _, _, region, account, resource = arn.split(":", 5)
    name, _, label = resource.removeprefix("table/").partition("/stream/")
    table = dynamodb_backends[account][region].tables.get(name)
    if table is None or table.stream_shard is None or table.latest_stream_label != label:
        raise LambdaClientError("ResourceNotFoundException", f"Stream not found: {arn}")
    return table


class StreamPoller:
    """Reads the stream of one mapping in a thread, until the mapping is deleted or the server stops.

    Args:
        mapping: The mapping, which an update may change.
    """

    def __init__(self, mapping: EventSourceMapping, functions: Functions) -> None:
        self._mapping, self._functions = mapping, functions
        self._shard: Any = table_of(mapping).stream_shard
        self._position = 0 if mapping.starting_position == "TRIM_HORIZON" else len(self._shard.items)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stream-poller", daemon=True)

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading; records that are not delivered remain in the stream."""
        self._stopped.set()

    def _run(self) -> None:
        while batch := self._next_batch():
            self._deliver(batch)

    def _next_batch(self) -> list[Record]:
        """Return records that pass the filters: a full batch, or the records of a whole window; none after the stop."""
        batch: list[Record] = []
        began = 0.0
        while not self._stopped.wait(_LOOK_SECONDS):
            patterns = _patterns({"FilterCriteria": self._mapping.filter_criteria})
            while self._mapping.enabled and self._position < len(self._shard.items):
                record = self._record(self._shard.items[self._position].to_json())
                self._position += 1
                if not patterns or any(pattern.matches_event(record) for pattern in patterns):
                    began = began if batch else time.monotonic()
                    batch.append(record)
                if len(batch) == self._mapping.batch_size:
                    return batch
            if batch and time.monotonic() - began >= (self._mapping.max_batch_window or 0):
                return batch
        return []

    def _record(self, stored: Record) -> Record:
        """Return a record in the form of the event (https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html)."""
        change = {**stored["dynamodb"]}
        created_at = change["ApproximateCreationDateTime"]
        change["ApproximateCreationDateTime"] = (
            created_at.timestamp() if hasattr(created_at, "timestamp") else created_at
        )
        region = self._mapping.region
        return {**stored, "awsRegion": region, "dynamodb": change, "eventSourceARN": self._mapping.event_source_arn}

    def _deliver(self, batch: list[Record]) -> None:
        """Invoke the function until each record is handled, too old, or has failed too often.

        A batch that fails is split, which does not count as a retry, and its first half comes first
        (https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-errors.html).
        """
        waiting = [(batch, 0, 0)]
        while waiting and not self._stopped.is_set():
            records, retries, invoked = waiting.pop(0)
            expired = self._is_expired(records[-1])
            outcome = None if expired else self._invoke(records)
            if expired or (outcome and outcome.error and self._is_exhausted(records, retries)):
                self._discard(records, invoked + (not expired), expired=expired)
            elif outcome is None:  # throttled
                waiting.insert(0, (records, retries, invoked))
                self._wait(retries)
            elif outcome.error and self._mapping.bisect_on_error and len(records) > 1:
                half = (len(records) + 1) // 2
                waiting[:0] = [(records[:half], retries, 0), (records[half:], retries, 0)]
            elif outcome.error:
                waiting.insert(0, (records, retries + 1, invoked + 1))
                self._wait(retries)

    def _invoke(self, records: list[Record]) -> Any:
        """Run the function, looked up again because an update may have fixed it; None if it is throttled."""
        arn = self._mapping.function_arn
        function = lambda_backends[self._mapping.account_id][self._mapping.region].get_function_by_arn(arn)
        if function is None:
            return None
        event = json.dumps({"Records": records}).encode()
        return self._functions.run(function, event, f"stream-{records[0]['eventID']}")

    def _is_exhausted(self, records: list[Record], retries: int) -> bool:
        max_retries = self._mapping.max_retry_attempts
        splits = self._mapping.bisect_on_error and len(records) > 1
        return not splits and max_retries is not None and 0 <= max_retries <= retries

    def _is_expired(self, record: Record) -> bool:
        longest = self._mapping.max_record_age
        age = time.time() - record["dynamodb"]["ApproximateCreationDateTime"]
        return longest is not None and 0 <= longest < age

    def _discard(self, records: list[Record], invoked: int, *, expired: bool) -> None:
        _log.warning("discarded %d records of %s", len(records), self._mapping.event_source_arn)
        send_discarded(self._mapping, self._shard.id, records, invoked, expired=expired)

    def _wait(self, retries: int) -> None:
        self._stopped.wait(min(_WAITS[0] * 2**retries, _WAITS[1]))
