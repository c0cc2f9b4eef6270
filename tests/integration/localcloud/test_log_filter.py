"""Log filter: the patterns of terms that AWS documents."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.logs.exceptions import InvalidParameterException

from localcloud.log_filter import message_filter

EVENTS = ["[ERROR 400] BAD REQUEST", "[ERROR 401] UNAUTHORIZED REQUEST", "[ERROR 419] MISSING ARGUMENTS", "[WARN] slow"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", [0, 1, 2, 3]),
        ("ERROR", [0, 1, 2]),
        ("error", []),
        ("ERROR ARGUMENTS", [2]),
        ("?ERROR ?WARN", [0, 1, 2, 3]),
        ("?401 ?WARN", [1, 3]),
        ("ERROR -ARGUMENTS", [0, 1]),
        ("-ERROR", [3]),
        ('"BAD REQUEST"', [0]),
        ('ERROR -"BAD REQUEST"', [1, 2]),
        ("?WARN ERROR", [0, 1, 2]),
        ('"a \\"quoted\\" word"', []),
    ],
)
def test_events_that_match_a_pattern(pattern: str, found: list[int]) -> None:
    assert [number for number, event in enumerate(EVENTS) if message_filter(pattern)(event)] == found


@pytest.mark.parametrize("pattern", ["{ $.level = 3 }", "[ip, user, size > 1]", "%ERR.*%", '"open'])
def test_other_patterns_are_refused_in_a_sentence(pattern: str) -> None:
    with pytest.raises(InvalidParameterException, match=r"localcloud has no filter patterns|Invalid filter pattern"):
        message_filter(pattern)


def test_a_log_group_is_filtered_and_a_query_is_refused_in_a_sentence(client: Callable[..., Any]) -> None:
    logs, now = client("logs"), int(time.time() * 1000)
    logs.create_log_group(logGroupName="filtered")
    logs.create_log_stream(logGroupName="filtered", logStreamName="one")
    events = [{"timestamp": now + number, "message": message} for number, message in enumerate(EVENTS)]
    logs.put_log_events(logGroupName="filtered", logStreamName="one", logEvents=events)
    found = logs.filter_log_events(logGroupName="filtered", filterPattern="ERROR -ARGUMENTS")["events"]
    assert [event["message"] for event in found] == EVENTS[:2]
    with pytest.raises(ClientError, match="localcloud runs no queries of CloudWatch Logs Insights"):
        logs.start_query(logGroupName="filtered", startTime=0, endTime=now, queryString="fields @message")
