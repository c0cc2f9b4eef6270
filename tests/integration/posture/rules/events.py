"""Rules for events: no event is lost without a trace, and only events of known sources are accepted."""

from collections.abc import Iterator
from typing import Any

from tests.integration.posture.rule import Rule, added, listed, put, referred, removed, without
from tests.integration.posture.synthesised import Synthesised

FUNCTION, INVOKE, RULE = "AWS::Lambda::Function", "AWS::Lambda::EventInvokeConfig", "AWS::Events::Rule"
QUEUE, POLICY, BUS_POLICY = "AWS::SQS::Queue", "AWS::SQS::QueuePolicy", "AWS::Events::EventBusPolicy"
MAX_RETENTION = 14 * 24 * 3600
"""SQS's maximum, in seconds."""


def what_a_function_fails_on_is_kept(made: Synthesised) -> Iterator[str]:
    """Applies to functions that a rule invokes; other callers receive the error themselves."""
    configured = {
        (where.partition("/")[0], referred(config["FunctionName"])): config for where, config in made.properties(INVOKE)
    }
    for stack, function in _invoked(made):
        config = configured.get((stack, function), {})
        destination = referred(config.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination"))
        if made.templates[stack]["Resources"].get(destination, {}).get("Type") != QUEUE:
            yield f"{stack}/{function} has no queue for failed events"
        if not config.get("MaximumEventAgeInSeconds") or "MaximumRetryAttempts" not in config:
            yield f"{stack}/{function} does not specify the maximum age of events"


def what_a_rule_cannot_deliver_is_kept(made: Synthesised) -> Iterator[str]:
    """A queue as target needs no dead-letter queue, because both would fail for the same reasons."""
    for where, rule in made.properties(RULE):
        resources = made.templates[where.partition("/")[0]]["Resources"]
        for target in rule["Targets"]:
            queues = {referred(target.get("DeadLetterConfig", {}).get("Arn")), referred(target["Arn"])}
            if not any(resources.get(queue, {}).get("Type") == QUEUE for queue in queues):
                yield f"{where} has a target without a dead-letter queue"
            if not target.get("RetryPolicy", {}).get("MaximumEventAgeInSeconds"):
                yield f"{where} has a target without a maximum age of events"


def a_function_ends_and_its_log_forgets(made: Synthesised) -> Iterator[str]:
    for where, function in made.properties(FUNCTION):
        group = referred(function.get("LoggingConfig", {}).get("LogGroup"))
        resources = made.templates[where.partition("/")[0]]["Resources"]
        if not resources.get(group, {}).get("Properties", {}).get("RetentionInDays"):
            yield f"{where} keeps its log forever"
        if not function.get("Timeout"):
            yield f"{where} has no timeout"


def a_function_logs_json_and_is_traced(made: Synthesised) -> Iterator[str]:
    """Saved queries require JSON, and a trace shows which attempt at which event was slow."""
    for where, function in made.properties(FUNCTION):
        if function.get("LoggingConfig", {}).get("LogFormat") != "JSON":
            yield f"{where} logs plain text"
        if function.get("TracingConfig", {}).get("Mode") != "Active":
            yield f"{where} is not traced"


def a_service_invokes_a_function_for_a_named_source_only(made: Synthesised) -> Iterator[str]:
    for where, permission in made.properties("AWS::Lambda::Permission"):
        if not permission.get("SourceArn"):
            yield f"{where} lets {permission['Principal']} invoke a function for any source"


def a_queue_is_encrypted_and_keeps_its_messages(made: Synthesised) -> Iterator[str]:
    for where, queue in made.properties(QUEUE):
        if not (queue.get("SqsManagedSseEnabled") or queue.get("KmsMasterKeyId")):
            yield f"{where} is not encrypted"
        if queue.get("MessageRetentionPeriod") != MAX_RETENTION:
            yield f"{where} keeps its messages for {queue.get('MessageRetentionPeriod')} s"


def a_queue_speaks_tls_only(made: Synthesised) -> Iterator[str]:
    safe = {
        (where.partition("/")[0], referred(queue))
        for where, policy in made.properties(POLICY)
        if any(_refuses_plain_text(statement) for statement in policy["PolicyDocument"]["Statement"])
        for queue in policy["Queues"]
    }
    for stack, name, _ in made.each(QUEUE):
        if (stack, name) not in safe:
            yield f"{stack}/{name} accepts plain HTTP"


def a_queue_takes_messages_of_a_named_source_only(made: Synthesised) -> Iterator[str]:
    for where, policy in made.properties(POLICY):
        for statement in policy["PolicyDocument"]["Statement"]:
            named = "aws:SourceArn" in str(statement.get("Condition", {}))
            if statement["Effect"] == "Allow" and not (named and "Service" in statement["Principal"]):
                yield f"{where} lets {statement['Principal']} send"


def the_home_bus_is_the_only_one_and_takes_events_of_known_accounts(made: Synthesised) -> Iterator[str]:
    """Without a policy, PutTargets refuses the bus even for its own account. A policy must not allow all principals."""
    stacks = [stack for stack, _, _ in made.each("AWS::Events::EventBus")]
    if stacks != [f"{made.grid.name}-control"]:
        yield f"event buses exist in {stacks}"
    if not list(made.properties(BUS_POLICY)):
        yield "the home bus accepts no targets, because it has no policy"
    for where, policy in made.properties(BUS_POLICY):
        statement = policy.get("Statement", policy)
        actions = listed(statement.get("Action", "events:PutEvents"))
        if _everybody(statement.get("Principal")) or actions != ["events:PutEvents"]:
            yield f"{where} lets {statement.get('Principal')} do {actions}"


def _invoked(made: Synthesised) -> set[tuple[str, str]]:
    found = {
        (where.partition("/")[0], referred(target["Arn"]))
        for where, rule in made.properties(RULE)
        for target in rule["Targets"]
    }
    return found & {(stack, name) for stack, name, _ in made.each(FUNCTION)}


def _refuses_plain_text(statement: dict[str, Any]) -> bool:
    return statement["Effect"] == "Deny" and statement.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}


def _everybody(principal: Any) -> bool:
    return principal in ("*", {"AWS": "*"}, None)


ANYBODY = {"Effect": "Allow", "Principal": "*", "Action": "events:PutEvents", "Resource": "*"}
RULES = (
    Rule(
        what_a_function_fails_on_is_kept,
        (removed(INVOKE), without(INVOKE, "DestinationConfig"), without(INVOKE, "MaximumEventAgeInSeconds")),
    ),
    Rule(
        what_a_rule_cannot_deliver_is_kept,
        (without(RULE, "Targets.0.DeadLetterConfig"), without(RULE, "Targets.0.RetryPolicy")),
    ),
    Rule(a_function_ends_and_its_log_forgets, (without(FUNCTION, "LoggingConfig"), without(FUNCTION, "Timeout"))),
    Rule(
        a_function_logs_json_and_is_traced,
        (put(FUNCTION, "LoggingConfig.LogFormat", "Text"), put(FUNCTION, "TracingConfig.Mode", "PassThrough")),
    ),
    Rule(a_service_invokes_a_function_for_a_named_source_only, (without("AWS::Lambda::Permission", "SourceArn"),)),
    Rule(
        a_queue_is_encrypted_and_keeps_its_messages,
        (put(QUEUE, "SqsManagedSseEnabled", False), without(QUEUE, "MessageRetentionPeriod")),
    ),
    Rule(a_queue_speaks_tls_only, (removed(POLICY), put(POLICY, "PolicyDocument.Statement.0.Effect", "Allow"))),
    Rule(
        a_queue_takes_messages_of_a_named_source_only,
        (
            without(POLICY, "PolicyDocument.Statement.1.Condition"),
            put(POLICY, "PolicyDocument.Statement.1.Principal", {"AWS": "*"}),
        ),
    ),
    Rule(
        the_home_bus_is_the_only_one_and_takes_events_of_known_accounts,
        (
            removed("AWS::Events::EventBus"),
            removed(BUS_POLICY),
            added(BUS_POLICY, {"EventBusName": "traingrid", "StatementId": "all", "Statement": ANYBODY}),
        ),
    ),
)
