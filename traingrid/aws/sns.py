"""SNS: a topic to which messages are published."""

from __future__ import annotations

import json
from typing import Any

from traingrid.aws.clients import ClientFactory, client
from traingrid.names import region_of_arn

SUBJECT_LIMIT = 99
"""Maximum length of a subject: SNS requires "less than 100 characters", without line breaks and control characters
(Subject in https://docs.aws.amazon.com/sns/latest/api/API_Publish.html)."""


class Topic:
    """A topic.

    Args:
        make_client: Makes the client of SNS.
    """

    def __init__(self, arn: str, make_client: ClientFactory = client) -> None:
        self._arn = arn
        self._sns: Any = make_client("sns", region_of_arn(arn))

    def publish(self, subject: str, email: str, event: dict[str, Any]) -> None:
        """Publish a message with one form for people and another for programs.

        Args:
            subject: The subject of an email; other characters than printable ASCII are replaced.
            email: The text of an email.
            event: The message for all other protocols, such as the protocols of chats.
        """
        message = {"default": json.dumps(event), "email": email}
        self._sns.publish(
            TopicArn=self._arn, Subject=subject_of(subject), MessageStructure="json", Message=json.dumps(message)
        )


def subject_of(text: str) -> str:
    """Return a text as a subject that SNS accepts: printable ASCII of limited length.

    The API reference has required ASCII for years and now requires UTF-8, so ASCII is accepted in both cases.
    """
    plain = "".join(character if " " <= character <= "~" else "?" for character in text)
    return plain if len(plain) <= SUBJECT_LIMIT else f"{plain[: SUBJECT_LIMIT - 3]}..."
