"""SNS with the limits of Publish, and with subscriptions that are pending until their owner confirms them.

moto 5.2.5 accepts subjects with line breaks, messages without a default form if there is no subscriber, and delivers to
addresses that have not confirmed. localcloud sends no email and no HTTP request, so these subscriptions stay pending.
"""

import json
from typing import TYPE_CHECKING, Any

from moto.sns.exceptions import InvalidParameterValue
from moto.sns.models import SNSBackend, Subscription, Topic
from moto.sns.responses import SNSResponse

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

_SUBJECT_BELOW = 100
_MESSAGE_BYTES = 262_144
"""Limits of Subject and Message (https://docs.aws.amazon.com/sns/latest/api/API_Publish.html)."""
_CONFIRMED_BY_OWNER = ("email", "email-json", "http", "https")
"""Protocols whose endpoints must confirm (https://docs.aws.amazon.com/sns/latest/api/API_Subscribe.html)."""

_publish = SNSBackend.publish
_subscribe = SNSBackend.subscribe
_deliver = Subscription.publish
_attributes = SNSResponse.get_topic_attributes


def install(cloud: "LocalCloud") -> None:
    """Replace moto's functions; moto has no hooks for these."""
    cloud.replace(SNSBackend, publish=_checked_publish, subscribe=_pending_subscribe)
    cloud.replace(Subscription, publish=_deliver_if_confirmed)
    cloud.replace(SNSResponse, get_topic_attributes=_counted_attributes)


def _checked_publish(backend: Any, message: str, arn: str | None, **options: Any) -> str:
    subject = options.get("subject")
    if subject is not None and not _is_subject(subject):
        raise InvalidParameterValue("Invalid parameter: Subject")
    if len(message.encode()) > _MESSAGE_BYTES:
        raise InvalidParameterValue("Invalid parameter: Message too long")
    if not message:
        raise InvalidParameterValue("Invalid parameter: Empty message")
    if options.get("message_structure") == "json":
        _check_structure(message)
    return str(_publish(backend, message, arn, **options))


def _is_subject(text: str) -> bool:
    """Return True if a text has no line breaks and control characters, and less than 100 characters."""
    return 0 < len(text) < _SUBJECT_BELOW and all(character.isprintable() for character in text)


def _check_structure(message: str) -> None:
    """Refuse a message that is not a JSON object with a text as `default`."""
    try:
        forms = json.loads(message)
    except ValueError:
        text = "Invalid parameter: Message Structure - JSON message body failed to parse"
        raise InvalidParameterValue(text) from None
    if not isinstance(forms, dict) or not isinstance(forms.get("default"), str):
        raise InvalidParameterValue("Invalid parameter: Message Structure - No default entry in JSON message body")


def _pending_subscribe(backend: Any, topic_arn: str, endpoint: str, protocol: str) -> Subscription:
    subscription = _subscribe(backend, topic_arn, endpoint, protocol)
    if protocol in _CONFIRMED_BY_OWNER:
        subscription.attributes["PendingConfirmation"] = True
        subscription.attributes["ConfirmationWasAuthenticated"] = False
    return subscription


def _deliver_if_confirmed(subscription: Any, *arguments: Any, **options: Any) -> None:
    if not subscription.attributes.get("PendingConfirmation"):
        _deliver(subscription, *arguments, **options)


def _counted_attributes(response: Any) -> Any:
    """Return a topic's attributes with the numbers of its subscriptions, which moto does not count."""
    topic: Topic = response.backend.get_topic(response._get_param("TopicArn"))
    subscriptions = [
        subscription for subscription in response.backend.subscriptions.values() if subscription.topic is topic
    ]
    topic.subscriptions_pending = sum(
        bool(subscription.attributes.get("PendingConfirmation")) for subscription in subscriptions
    )
    topic.subscriptions_confimed = len(subscriptions) - topic.subscriptions_pending
    return _attributes(response)
