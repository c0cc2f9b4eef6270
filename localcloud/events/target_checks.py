"""Checks of PutTargets: the number of targets, the role of a distant bus, and the policy of a custom event bus.

https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-bus-to-bus.html requires a policy on the receiving bus, also
within one account, and https://github.com/ministryofjustice/modernisation-platform-environments/pull/19002 reports that
PutTargets returns AccessDeniedException without it. eb-cross-region.html does not mention the policy for one account;
localcloud takes the stricter reading. A default bus accepts its own account without a policy (eb-event-bus-perms.html).
"""

import json
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.events.models import EventBus, EventsBackend, events_backends

from localcloud.credentials.arn import name_of_arn
from localcloud.iam.resource_policies import allows_principal

MAX_TARGETS = 5
"""Targets of a rule (https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html)."""

_put_targets = EventsBackend.put_targets


def accepts_events_of(bus: EventBus, sender: str, role: str) -> bool:
    """Return True if a bus accepts the events that a rule of an account sends with a role.

    Args:
        sender: Account of the rule.
        role: ARN of the target's role; empty for a target without one, which acts as its account.
    """
    if bus.name == "default" and bus.account_id == sender:
        return True
    return allows_principal(json.loads(bus.policy or "{}"), "events:PutEvents", role or f"arn:aws:iam::{sender}:root")


def put_targets(backend: EventsBackend, name: str, event_bus_arn: str | None, targets: list[dict[str, Any]]) -> None:
    """Refuse too many targets, and buses that the sender may not use; a missing bus is found at the delivery.

    The messages are those of https://github.com/aws-cloudformation/cfn-lint/issues/306 and
    https://github.com/awsdocs/aws-cloudformation-user-guide/pull/1178. A bus in another Region or account needs a role
    (https://github.com/cloudposse/terraform-aws-cloudwatch-events/issues/25).
    """
    bus_name = backend._normalize_event_bus_arn(event_bus_arn)
    rule = backend.event_buses[bus_name].rules.get(name) if bus_name in backend.event_buses else None
    existing_targets = rule.targets if rule else []
    if len({target["Id"] for target in (*existing_targets, *targets)}) > MAX_TARGETS:
        message = "The requested resource exceeds the maximum number allowed."
        raise JsonRESTError("LimitExceededException", message)
    for target in targets:
        service, region, account_id = target["Arn"].split(":")[2:5]
        if service != "events":
            continue
        if (region, account_id) != (backend.region_name, backend.account_id) and not target.get("RoleArn"):
            raise JsonRESTError("ValidationException", f"RoleArn is required for target {target['Arn']}.")
        bus = events_backends[account_id][region].event_buses.get(name_of_arn(target["Arn"]))
        if bus is not None and not accepts_events_of(bus, backend.account_id, target.get("RoleArn", "")):
            message = (
                f"Account {backend.account_id} is not authorized to perform: events:PutEvents on resource: "
                f"{target['Arn']} because no resource-based policy allows the events:PutEvents action"
            )
            raise JsonRESTError("AccessDeniedException", message)
    _put_targets(backend, name, event_bus_arn, targets)
