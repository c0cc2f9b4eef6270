"""Results of asynchronous invocations: sends them to the function's destinations and its dead-letter queue."""

from __future__ import annotations

import json
import logging
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from moto.awslambda.models import EventSourceMapping, LambdaFunction
from moto.sqs.exceptions import QueueDoesNotExist
from moto.sqs.models import sqs_backends

if TYPE_CHECKING:
    from localcloud.lambda_.execution_environments import InvocationResult

_log = logging.getLogger(__name__)
_MAX_MESSAGE_LENGTH = 1024


def send_result(
    function: LambdaFunction, config: dict[str, Any], event: bytes, outcome: InvocationResult, attempts: int
) -> None:
    """Send the record of a finished asynchronous invocation to the configured destinations.

    Args:
        config: Its event invoke configuration.
        event: The event as JSON.
        outcome: Result of the last attempt.
    """
    destination = config.get("DestinationConfig", {}).get("OnFailure" if outcome.error else "OnSuccess", {})
    if destination.get("Destination"):
        record = _invocation_record(function, event, outcome, attempts)
        send_to_queue(destination["Destination"], json.dumps(record))
    dead_letter_queue = getattr(function, "dead_letter_target", None)
    if outcome.error and dead_letter_queue:
        send_to_queue(dead_letter_queue, event.decode(), _dead_letter_attributes(outcome))


def send_to_queue(arn: str, body: str, attributes: dict[str, Any] | None = None) -> bool:
    """Send a message to an SQS queue; log a missing queue, because no caller waits for the result.

    Args:
        arn: The queue; other kinds of destination are not supported.
        attributes: Message attributes in moto's form.

    Returns:
        True if the queue received the message.
    """
    service, region, account, name = arn.split(":")[2:6]
    if service != "sqs":
        _log.warning("localcloud delivers only to SQS queues; nothing was sent to %s", arn)
        return False
    try:
        sqs_backends[account][region].send_message(name, body, message_attributes=attributes)
    except QueueDoesNotExist:
        _log.warning("the queue %s does not exist; a message to it is lost", arn)
        return False
    return True


def send_discarded(
    mapping: EventSourceMapping, shard: str, records: list[dict[str, Any]], invoked: int, *, expired: bool
) -> None:
    """Send the position of discarded records of a stream to the destination of their mapping, if it has one.

    https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-errors.html has the form and the condition
    RetryAttemptsExhausted; the condition of records that are too old is not documented.

    Args:
        shard: The id of the shard.
        invoked: The number of invocations with them.
        expired: True if they are too old.
    """
    changes = [record["dynamodb"] for record in records]
    first = _seconds_as_text(changes[0]["ApproximateCreationDateTime"])
    last = _seconds_as_text(changes[-1]["ApproximateCreationDateTime"])
    body = {
        "requestContext": {
            "requestId": str(uuid.uuid4()),
            "functionArn": mapping.function_arn,
            "condition": "RecordAgeExceeded" if expired else "RetryAttemptsExhausted",
            "approximateInvokeCount": invoked,
        },
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "version": "1.0",
        "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
        "DDBStreamBatchInfo": {
            "shardId": shard,
            "startSequenceNumber": changes[0]["SequenceNumber"],
            "endSequenceNumber": changes[-1]["SequenceNumber"],
            "approximateArrivalOfFirstRecord": first,
            "approximateArrivalOfLastRecord": last,
            "batchSize": len(records),
            "streamArn": mapping.event_source_arn,
        },
    }
    if queue := on_failure(mapping.destination_config):
        send_to_queue(queue, json.dumps(body))


def on_failure(config: dict[str, Any] | None) -> str:
    """Return the ARN of a destination for failures; empty if there is none."""
    destination = ((config or {}).get("OnFailure") or {}).get("Destination")
    return str(destination or "")


def _seconds_as_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def text_attribute(value: str, kind: str = "String") -> dict[str, str]:
    """Return one SQS message attribute."""
    return {"DataType": kind, "StringValue": value}


def _invocation_record(
    function: LambdaFunction, event: bytes, outcome: InvocationResult, attempts: int
) -> dict[str, Any]:
    """Return the record of AWS Lambda, "Capturing records of asynchronous invocations", version 1.0."""
    context: dict[str, Any] = {"statusCode": 200, "executedVersion": str(function.version)}
    if outcome.error:
        context["functionError"] = outcome.error
    return {
        "version": "1.0",
        "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
        "requestContext": {
            "requestId": outcome.request_id,
            "functionArn": f"{function.function_arn}:{function.version}",
            "condition": "RetriesExhausted" if outcome.error else "Success",
            "approximateInvokeCount": attempts,
        },
        "requestPayload": json.loads(event),
        "responseContext": context,
        "responsePayload": json.loads(outcome.payload or b"null"),
    }


def _dead_letter_attributes(outcome: InvocationResult) -> dict[str, Any]:
    """Return RequestID, ErrorCode and 1 KB of the error message (AWS Lambda, "Adding a dead-letter queue")."""
    message = json.loads(outcome.payload).get("errorMessage", "")[:_MAX_MESSAGE_LENGTH] or " "
    return {
        "RequestID": text_attribute(outcome.request_id),
        "ErrorCode": text_attribute("200", "Number"),
        "ErrorMessage": text_attribute(message),
    }
