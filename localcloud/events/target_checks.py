"""Checks of PutTargets: a custom event bus accepts a target only if its policy allows the sender.

https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-bus-to-bus.html requires a policy on the receiving bus, also
within one account, and https://github.com/ministryofjustice/modernisation-platform-environments/pull/19002 reports that
PutTargets returns AccessDeniedException without it. eb-cross-region.html does not mention the policy for one account;
localcloud takes the stricter reading. A default bus accepts its own account without a policy (eb-event-bus-perms.html).
"""

import json
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.events.models import EventBus, EventsBackend, events_backends

from localcloud.iam.resource_policies import lets

_put_targets = EventsBackend.put_targets


def accepts_events_of(bus: EventBus, sender: str, role: str) -> bool:
    """Return True if a bus accepts the events that a rule of an account sends with a role.

    Args:
        bus: The receiving bus.
        sender: Account of the rule.
        role: ARN of the target's role; empty for a target without one, which acts as its account.
    """
    if bus.name == "default" and bus.account_id == sender:
        return True
    return lets(json.loads(bus.policy or "{}"), "events:PutEvents", role or f"arn:aws:iam::{sender}:root")


def put_targets(backend: EventsBackend, name: str, event_bus_arn: str | None, targets: list[dict[str, Any]]) -> None:
    """Refuse targets on buses whose policies do not allow the sender; a missing bus is found at the delivery."""
    for target in targets:
        service, region, account_id = target["Arn"].split(":")[2:5]
        if service != "events":
            continue
        bus = events_backends[account_id][region].event_buses.get(target["Arn"].rsplit("/", 1)[-1])
        if bus is not None and not accepts_events_of(bus, backend.account_id, target.get("RoleArn", "")):
            message = (
                f"Account {backend.account_id} is not authorized to perform: events:PutEvents on resource: "
                f"{target['Arn']} because no resource-based policy allows the events:PutEvents action"
            )
            raise JsonRESTError("AccessDeniedException", message)
    _put_targets(backend, name, event_bus_arn, targets)
