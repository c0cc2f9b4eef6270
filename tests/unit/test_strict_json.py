"""Strict JSON: every text that cannot be read raises the same error, with its place and the rule."""

import json

import pytest

from tests.support.rows import each_row
from traingrid.errors import TraingridError
from traingrid.strict_json import (
    MAX_LEVELS,
    JsonError,
    json_list,
    json_object,
    json_value,
    member,
    storable_object,
)

UNREADABLE = {
    "empty": ("", "JSON (Expecting value)"),
    "truncated": ('{"a": ', "JSON (Expecting value)"),
    "nested": ("[" * 100_000, f"JSON with fewer levels than {MAX_LEVELS + 1}"),
    "nested and complete": ("[" * 101 + "]" * 101, f"JSON with fewer levels than {MAX_LEVELS + 1}"),
    "digits": ('{"a": ' + "1" * 4301 + "}", "JSON whose numbers have at most 4300 digits"),
    "latin-1": (b'{"a": "\xe9"}', "JSON in UTF-8"),
}


@each_row("text_and_rule", UNREADABLE.items())
def test_unreadable_text_is_an_error_with_place_and_rule(text_and_rule: tuple[str | bytes, str]) -> None:
    text, rule = text_and_rule
    for read in (json_value, json_object, json_list, storable_object):
        with pytest.raises(JsonError) as raised:
            read(text, "s3://bucket/key")
        assert str(raised.value) == f"s3://bucket/key must be {rule}."
        assert isinstance(raised.value, TraingridError)
        assert isinstance(raised.value, ValueError)


def test_values_at_the_limits_are_read() -> None:
    nested = "[" * MAX_LEVELS + "]" * MAX_LEVELS
    assert json.dumps(json_value(nested)) == nested
    assert json_value("9" * 4300) == 10**4300 - 1
    assert json_value("[1, 2]" + " " * 5000) == [1, 2]
    assert json_value("[" + "[]," * 500 + "{}]")[-1] == {}
    assert json_value(b'\xef\xbb\xbf{"a": "\xc3\xa9"}') == {"a": "é"}


def test_another_type_is_an_error() -> None:
    with pytest.raises(JsonError, match=r"must be a JSON object"):
        json_object("[1]", "the file")
    with pytest.raises(JsonError, match=r"must be a JSON list"):
        json_list("null", "the file")
    for fields in ({}, {"n": True}, {"n": "1"}, {"n": None}):
        with pytest.raises(JsonError, match=r"^the file must be JSON whose 'n' is a whole number\.$"):
            member(fields, "n", int, "the file")
    assert member({"n": 0}, "n", int) == 0


@pytest.mark.parametrize(
    "text", ['{"a": NaN}', '{"a": 1e999}', '{"a": 1, "a": 2}', '{"a": "\\u0000"}', '{"a": "\\ud800"}']
)
def test_values_that_a_database_refuses_cannot_be_stored(text: str) -> None:
    json_object(text)
    with pytest.raises(JsonError):
        storable_object(text)
