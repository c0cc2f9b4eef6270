"""Checks of PutRule and PutEvents: schedules, the size of patterns, and the sources that only AWS may use."""

import re
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.events.models import EventsBackend, Rule

MAX_PATTERN = 2048
"""Characters of an event pattern (https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html)."""
_RATE = re.compile(r"rate\((1 (minute|hour|day)|(?!1 )[1-9]\d* (minute|hour|day)s)\)")
"""The unit is singular for 1, and plural otherwise (https://github.com/buildkite/buildkite-agent-scaler/pull/100)."""

_put_rule, _put_events = EventsBackend.put_rule, EventsBackend.put_events


def put_rule(backend: EventsBackend, name: str, **request: Any) -> Rule:
    """Refuse invalid rates and long patterns."""
    schedule = request.get("scheduled_expression") or ""
    if schedule.startswith("rate") and not _RATE.fullmatch(schedule):
        raise JsonRESTError("ValidationException", "Parameter ScheduleExpression is not valid.")
    if len(request.get("event_pattern") or "") > MAX_PATTERN:
        message = f"Event pattern is not valid. Reason: it has more than {MAX_PATTERN} characters"
        raise JsonRESTError("InvalidEventPatternException", message)
    return _put_rule(backend, name, **request)


def put_events(backend: EventsBackend, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Refuse events whose source begins with `aws.`, one by one, and put the others.

    The answer is that of https://github.com/aws-samples/serverless-patterns/pull/3089.
    """
    refused_entry = {"ErrorCode": "NotAuthorizedForSourceException", "ErrorMessage": "Not authorized for the source."}
    foreign = [str(event.get("Source", "")).startswith("aws.") for event in events]
    accepted = [event for event, is_of_aws in zip(events, foreign, strict=True) if not is_of_aws]
    entries = iter(_put_events(backend, accepted) if accepted else [])
    return [dict(refused_entry) if is_of_aws else next(entries) for is_of_aws in foreign]
