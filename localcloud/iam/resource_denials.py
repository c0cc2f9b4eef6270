"""Denials in the policies of queues and topics, which apply to every caller, also to an account's own user."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from moto.sns.models import sns_backends
from moto.sqs.models import sqs_backends

from localcloud.iam.request_keys import Context
from localcloud.iam.resource_policies import denies

OVER_TLS: Context = {"aws:SecureTransport": "true"}
"""The keys of the transport: a call to localcloud on loopback stands for one over TLS."""


def resource_denies(action: str, resource: str, principal: str) -> bool:
    """Return True if the policy of a queue or a topic denies a principal an action.

    Args:
        action: For example "sns:Publish".
        resource: The ARN of the queue or the topic; other resources deny nothing here.
        principal: The ARN of a role, a user or an account's root.
    """
    policy_of = POLICIES.get(action.partition(":")[0])
    if policy_of is None or not resource.startswith("arn:"):
        return False
    policy = policy_of(*resource.split(":", 5)[3:])
    return bool(policy) and denies(json.loads(policy), action, principal, OVER_TLS)


def _policy_of_queue(region: str, account: str, name: str) -> Any:
    queue = sqs_backends[account][region].queues.get(name)
    return queue and queue.policy


def _policy_of_topic(region: str, account: str, name: str) -> Any:
    topic = sns_backends[account][region].topics.get(f"arn:aws:sns:{region}:{account}:{name}")
    return topic and topic.policy


POLICIES: Mapping[str, Callable[[str, str, str], Any]] = {"sqs": _policy_of_queue, "sns": _policy_of_topic}
"""Functions that return the policy of a resource as text, or None, by service."""
