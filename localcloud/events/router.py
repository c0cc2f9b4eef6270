"""EventBridge: delivers events to rules, and from rules to targets, in the background.

Targets: Lambda, SQS, event buses of any Region, CloudWatch Logs. Not built: cron schedules, delivery retries (a failed
delivery would fail again here, so it goes to the rule's dead-letter queue immediately), FIFO queues, other targets.
"""

import json
import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from moto.awslambda.models import lambda_backends
from moto.events.models import EventsBackend, Rule, events_backends
from moto.iam.models import iam_backends
from moto.logs.models import logs_backends
from moto.sqs.models import sqs_backends

from localcloud.credentials.arn import account_of_arn, name_of_arn, region_of_arn, service_of_arn
from localcloud.events.request_checks import put_events, put_rule
from localcloud.events.schedules import Schedules
from localcloud.events.target_checks import accepts_events_of, put_targets
from localcloud.events.target_input import target_input
from localcloud.faults.events import FaultyWay
from localcloud.iam.encryption_keys import key_policy
from localcloud.iam.evaluation import verdict
from localcloud.iam.resource_policies import allows_service
from localcloud.iam.roles import policies_of, trust_of
from localcloud.lambda_ import destinations
from localcloud.log_streams import LogStream

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

_log = logging.getLogger(__name__)
_ENCRYPTING = ("kms:Decrypt", "kms:GenerateDataKey")
"""Actions on the key of a queue that EventBridge needs (eb-rule-event-delivery.html in EventBridge's User Guide)."""
_WORKERS = 4
Event = dict[str, Any]


class DeliveryError(Exception):
    """A target cannot be reached; has EventBridge's error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Router:
    """Accepts events and delivers them in its own threads, at least once and in no guaranteed order."""

    def __init__(self, cloud: "LocalCloud") -> None:
        self._cloud = cloud
        self._random = random.Random(cloud.settings.seed)  # noqa: S311 - chance of a duplicate, not a secret
        self._random_lock = threading.Lock()
        self._workers: ThreadPoolExecutor | None = None
        self._way = FaultyWay(cloud.faults)
        self._schedules = Schedules(self._send_scheduled_event)

    def start(self) -> None:
        """Start delivering, and replace the delivery of moto's rules.

        moto 5.2.5 calls `Rule.send_to_targets` inside the API call that caused the event, raises for Lambda targets,
        and ignores the rule's dead-letter queue. moto has no hook there, so the method is replaced.
        """
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="eventbridge")
        self._cloud.replace(
            Rule, send_to_targets=lambda rule, event, **_: self._submit(self._apply, rule, normalised(event, rule))
        )
        self._cloud.replace(EventsBackend, put_targets=put_targets, put_rule=put_rule, put_events=put_events)
        self._schedules.start()

    def stop(self) -> None:
        """Stop delivering; events that have not been delivered are lost."""
        self._schedules.stop()
        self._way.stop()
        if self._workers:
            self._workers.shutdown(wait=False, cancel_futures=True)
            self._workers = None

    def put(self, region: str, bus: str, event: Event, account_id: str) -> None:
        """Accept an event for a bus; SageMaker's events are sometimes duplicated, as AWS documents.

        Args:
            event: The event; see `LocalCloud.put_event`.
        """
        filled = {
            "id": str(uuid.uuid4()),
            "time": _iso(time.time()),
            "resources": [],
            **event,
            "version": "0",
            "account": account_id,
            "region": event.get("region", region),
        }
        for _ in range(2 if self._must_repeat(filled) else 1):
            self._way.send(str(filled["source"]), lambda: self._submit(self._route, (account_id, region, bus), filled))

    def _must_repeat(self, event: Event) -> bool:
        with self._random_lock:
            random_number = self._random.random()
        return event["source"] == "aws.sagemaker" and random_number < self._cloud.settings.duplicate_event_rate

    def _submit(self, work: Callable[..., None], *arguments: Any) -> None:
        workers = self._workers
        if workers:
            workers.submit(_logging_failures, work, *arguments)

    def _route(self, place: tuple[str, str, str], event: Event) -> None:
        account_id, region, bus = place
        event_bus = events_backends[account_id][region].event_buses.get(bus)
        if event_bus:
            for rule in list(event_bus.rules.values()):
                self._apply(rule, event)

    def _apply(self, rule: Rule, event: Event) -> None:
        if rule.state != "ENABLED" or not rule.event_pattern.get_pattern():
            return
        if rule.event_pattern.matches_event(event):
            for target in list(rule.targets):
                self._deliver(rule, target, event)

    def _send_scheduled_event(self, rule: Rule) -> None:
        """Send the scheduled event to the rule's targets."""
        event = {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": "Scheduled Event",
            "source": "aws.events",
            "account": rule.account_id,
            "time": _iso(time.time()),
            "region": rule.region_name,
            "resources": [rule.arn],
            "detail": {},
        }
        for target in list(rule.targets):
            self._submit(self._deliver, rule, target, event)

    def _deliver(self, rule: Rule, target: dict[str, Any], event: Event) -> None:
        arn = target["Arn"]
        service = service_of_arn(arn)
        deliveries = {
            "lambda": self._send_to_function,
            "sqs": self._send_to_queue,
            "events": self._send_to_bus,
            "logs": self._send_to_log_group,
        }
        try:
            deliveries.get(service, _refuse)(rule, target, event)
        except DeliveryError as error:
            _log.warning("EventBridge could not deliver from %s to %s: %s", rule.name, arn, error)
            _send_to_dead_letters(rule, target, event, error)

    def _send_to_function(self, rule: Rule, target: dict[str, Any], event: Event) -> None:
        arn = target["Arn"]
        function = lambda_backends[account_of_arn(arn)][region_of_arn(arn)].get_function_by_arn(arn)
        if function is None:
            raise DeliveryError("NO_RESOURCE", f"Function not found: {arn}")
        if not _allows({"Statement": function.policy.statements}, "lambda:InvokeFunction", rule):
            message = f"The resource policy of {arn} does not allow events.amazonaws.com to invoke it for {rule.arn}"
            raise DeliveryError("NO_PERMISSIONS", message)
        if self._cloud.functions:
            self._cloud.functions.run_later(function, _input(rule, target, event).encode())

    def _send_to_queue(self, rule: Rule, target: dict[str, Any], event: Event) -> None:
        _check_queue(target["Arn"], rule)
        destinations.send_to_queue(target["Arn"], _input(rule, target, event))

    def _send_to_bus(self, rule: Rule, target: dict[str, Any], event: Event) -> None:
        """Put an event on another bus with the target's role, which the policy of the bus must allow as well."""
        arn = target["Arn"]
        region, account_id, name = region_of_arn(arn), account_of_arn(arn), name_of_arn(arn)
        bus = events_backends[account_id][region].event_buses.get(name)
        if bus is None:
            raise DeliveryError("NO_RESOURCE", f"Event bus {name} does not exist in {region}")
        role = name_of_arn(target.get("RoleArn", ""))
        if role not in {existing.name for existing in iam_backends[rule.account_id]["aws"].get_roles()}:
            message = f"RoleArn of a target event bus must be an existing role; got {target.get('RoleArn')!r}"
            raise DeliveryError("FAILED_TO_ASSUME_ROLE", message)
        if not _allows(trust_of(role, rule.account_id), "sts:AssumeRole", rule):
            message = f"The trust policy of role {role} does not allow events.amazonaws.com to assume it for {rule.arn}"
            raise DeliveryError("FAILED_TO_ASSUME_ROLE", message)
        documents = policies_of(role, rule.account_id)
        if documents is not None and verdict(documents, "events:PutEvents", arn, {}) != "Allowed":
            raise DeliveryError("NO_PERMISSIONS", f"The role {role} is not allowed to put events on {arn}")
        if not accepts_events_of(bus, rule.account_id, target["RoleArn"]):
            raise DeliveryError("NO_PERMISSIONS", f"The policy of {arn} does not allow {target['RoleArn']}")
        self._submit(self._route, (account_id, region, name), event)

    def _send_to_log_group(self, rule: Rule, target: dict[str, Any], event: Event) -> None:
        arn = target["Arn"].removesuffix(":*")
        region = region_of_arn(arn)
        account_id = account_of_arn(arn)
        group = arn.split(":", 6)[-1]
        if group not in logs_backends[account_id][region].groups:
            raise DeliveryError("NO_RESOURCE", f"The specified log group does not exist: {group}")
        stream = LogStream(account_id, region, group, str(uuid.uuid4()))
        stream.write(_input(rule, target, event))
        stream.flush()


def _allows(policy: Mapping[str, Any], action: str, rule: Rule) -> bool:
    """Return True if a resource's policy allows EventBridge an action for a rule."""
    return allows_service(policy, action, "events.amazonaws.com", rule.arn)


def _check_queue(arn: str, rule: Rule) -> None:
    """Refuse a queue that does not admit EventBridge, or is encrypted with a key that does not.

    The queue of dead letters needs the same
    (https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-event-delivery.html#eb-rule-dlq).
    """
    queue = sqs_backends[account_of_arn(arn)][region_of_arn(arn)].queues.get(arn.rsplit(":", 1)[-1])
    if queue is None:
        raise DeliveryError("NO_RESOURCE", f"The specified queue does not exist: {arn}")
    if not _allows(json.loads(queue.policy or "{}"), "sqs:SendMessage", rule):
        message = f"The policy of the queue {arn} does not allow events.amazonaws.com to send to it for {rule.arn}"
        raise DeliveryError("NO_PERMISSIONS", message)
    policy = key_policy(queue.kms_master_key_id, *arn.split(":")[3:5]) if queue.kms_master_key_id else None
    if policy is not None and not all(_allows(policy, action, rule) for action in _ENCRYPTING):
        raise DeliveryError("NO_PERMISSIONS", f"The key of the queue {arn} does not allow events.amazonaws.com")


def normalised(event: Event, rule: Rule) -> Event:
    """Return an event of moto in the form that EventBridge delivers: ISO time, no fields of moto."""
    event_time = event.get("time") or time.time()
    plain = {key: value for key, value in event.items() if key != "ingestion-time"}
    return plain | {
        "time": event_time if isinstance(event_time, str) else _iso(float(event_time)),
        "region": rule.region_name,
    }


def _logging_failures(work: Callable[..., None], *arguments: Any) -> None:
    """Run work in a worker and log its errors, which would otherwise be lost."""
    try:
        work(*arguments)
    except Exception:
        _log.exception("EventBridge in localcloud lost an event because of a defect in localcloud")
        raise


def _input(rule: Rule, target: dict[str, Any], event: Event) -> str:
    return target_input(target, event, rule.name, rule.arn)


def _refuse(_rule: Rule, target: dict[str, Any], _event: Event) -> NoReturn:
    service = service_of_arn(target["Arn"])
    raise DeliveryError("INTERNAL_ERROR", f"localcloud does not support EventBridge targets of the service {service}")


def _send_to_dead_letters(rule: Rule, target: dict[str, Any], event: Event, error: DeliveryError) -> None:
    """Send to the dead-letter queue: the event as body, the failure as attributes (EventBridge User Guide)."""
    arn = target.get("DeadLetterConfig", {}).get("Arn")
    if arn:
        try:
            _check_queue(arn, rule)
        except DeliveryError as refused:
            _log.warning("EventBridge lost an event of %s: %s", rule.name, refused)
            return
        attributes = {
            "RULE_ARN": rule.arn,
            "TARGET_ARN": target["Arn"],
            "ERROR_CODE": error.code,
            "ERROR_MESSAGE": str(error),
        }
        attributed = {name: destinations.text_attribute(value) for name, value in attributes.items()}
        destinations.send_to_queue(arn, json.dumps(event), attributed)


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
