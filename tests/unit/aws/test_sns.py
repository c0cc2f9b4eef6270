"""SNS: messages have a form for people and one for programs, and a subject that SNS accepts."""

import json
from typing import Any

import pytest

from traingrid.aws.sns import Topic, subject_of

ARN = "arn:aws:sns:eu-west-1:123456789012:topic"


def test_a_message_has_one_form_for_emails_and_one_for_all_other_protocols() -> None:
    calls: list[Any] = []

    class Client:
        def publish(self, **request: Any) -> None:
            calls.append(request)

    def make(service: str, region: str | None = None, *_: object) -> Any:
        calls.append((service, region))
        return Client()

    Topic(ARN, make).publish("a\nsubject", "text", {"version": "1.0"})
    made, request = calls
    assert made == ("sns", "eu-west-1")
    assert (request["TopicArn"], request["MessageStructure"], request["Subject"]) == (ARN, "json", "a?subject")
    assert json.loads(request["Message"]) == {"default": '{"version": "1.0"}', "email": "text"}


@pytest.mark.parametrize(
    ("text", "subject"),
    [("plain", "plain"), ("a\r\nb\x7f", "a??b?"), ("naïve ☃", "na?ve ?"), ("x" * 99, "x" * 99)],
)
def test_a_subject_is_printable_ascii(text: str, subject: str) -> None:
    assert subject_of(text) == subject


def test_a_long_subject_is_shortened_to_less_than_a_hundred_characters() -> None:
    assert subject_of("x" * 100) == "x" * 96 + "..."
