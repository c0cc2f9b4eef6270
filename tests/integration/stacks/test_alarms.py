"""Alarms: every problem that requires an operator raises an alarm, sends emails, and is in the runbook."""

import fnmatch
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.stacks.templates import ROOT, Template, a_grid, flat, only, resources, synthesise
from traingrid.reconciler.pass_report import PassReport

EMAILS = ["ml-on-call@example.com", "bills@example.com"]


@pytest.fixture(scope="module")
def alarmed(layer: Path) -> dict[str, Template]:
    """The templates of a grid with two Regions, two emails, a budget and keys."""
    grid = a_grid(2, alarms={"emails": EMAILS, "monthly_budget_usd": 20_000}, encryption="kms")
    return synthesise(grid, layer)


def alarms(templates: dict[str, Template]) -> Iterator[tuple[Template, dict[str, Any]]]:
    for template in templates.values():
        for alarm in resources(template, "AWS::CloudWatch::Alarm").values():
            yield template, alarm["Properties"]


def test_every_queue_has_an_alarm(alarmed: dict[str, Template]) -> None:
    for stack, template in alarmed.items():
        queues = {f"<{name}.QueueName>" for name in resources(template, "AWS::SQS::Queue")}
        watched = {
            flat(dimension["Value"])
            for _, alarm in alarms({"": template})
            for dimension in alarm.get("Dimensions", [])
            if dimension["Name"] == "QueueName"
        }
        assert watched == queues
        assert queues or "-registry-" in stack or stack.endswith(("-guard", "-images"))


def test_every_function_has_an_alarm_on_errors_and_throttles(alarmed: dict[str, Template]) -> None:
    seen = 0
    for template in alarmed.values():
        watched = {
            (flat(dimension["Value"]), metric["MetricStat"]["Metric"]["MetricName"])
            for _, alarm in alarms({"": template})
            for metric in alarm.get("Metrics", [])
            if "MetricStat" in metric
            for dimension in metric["MetricStat"]["Metric"]["Dimensions"]
        }
        names = resources(template, "AWS::Lambda::Function")
        # A marker's event that the registrar fails to handle is in its dead-letter queue, which has an alarm.
        functions = [f"<{name}>" for name in names if not name.startswith("DatasetsRegister")]
        assert watched >= {(function, metric) for function in functions for metric in ("Errors", "Throttles")}
        seen += len(functions)
    assert seen == 5


def test_missing_passes_raise_an_alarm(alarmed: dict[str, Template]) -> None:
    (alarm,) = [found for _, found in alarms(alarmed) if found["AlarmName"] == "traingrid-no-sweep"]
    assert (alarm["TreatMissingData"], alarm["ComparisonOperator"]) == ("breaching", "LessThanThreshold")
    assert alarm["Period"] * alarm["EvaluationPeriods"] == 15 * 60


def test_alarms_use_metrics_that_passes_publish(alarmed: dict[str, Template]) -> None:
    ours = {found["MetricName"] for _, found in alarms(alarmed) if found.get("Namespace") == "traingrid"}
    assert len(ours) == 4
    assert ours <= set(PassReport().counts())


def test_a_throttled_function_without_errors_raises_an_alarm(alarmed: dict[str, Template]) -> None:
    failing = [found for _, found in alarms(alarmed) if "-failing-" in found["AlarmName"]]
    sums = [entry["Expression"] for found in failing for entry in found["Metrics"] if "Expression" in entry]
    assert sums == ["FILL(errors, 0) + FILL(throttles, 0)"] * 5


def test_late_events_of_every_function_but_the_registrar_raise_an_alarm(alarmed: dict[str, Template]) -> None:
    """A late registration delays no job that runs, and an idle grid costs less without its alarm."""
    control = alarmed["traingrid-control"]
    late = [found for _, found in alarms({"": control}) if found.get("MetricName") == "AsyncEventAge"]
    assert {flat(found["Dimensions"][0]["Value"]) for found in late} == {
        f"<{name}>" for name in resources(control, "AWS::Lambda::Function") if "RegisterFunction" not in name
    }
    assert {(found["Statistic"], found["Threshold"]) for found in late} == {("Maximum", 15 * 60 * 1000)}


def test_ledger_throttling_alarms_use_metrics_that_tables_have(alarmed: dict[str, Template]) -> None:
    """A table has no metric ThrottledRequests: it requires the dimensions table and operation."""
    control = alarmed["traingrid-control"]
    throttled = [found for _, found in alarms({"": control}) if "throttled-ledger" in found["AlarmName"]]
    metrics = [
        entry["MetricStat"]["Metric"] for found in throttled for entry in found["Metrics"] if "MetricStat" in entry
    ]
    assert {metric["MetricName"] for metric in metrics} == {"ReadThrottleEvents", "WriteThrottleEvents"}
    assert all([dimension["Name"] for dimension in metric["Dimensions"]] == ["TableName"] for metric in metrics)
    sums = [entry["Expression"] for found in throttled for entry in found["Metrics"] if "Expression" in entry]
    assert sums == ["FILL(reads, 0)", "FILL(writes, 0)"], "without FILL, an alarm would stay in its state"


def watched_rule(template: Template, kind: str) -> tuple[dict[str, Any], str]:
    """Return the event pattern of the rule behind an alarm of this kind, and the logical id of its queue."""
    (alarm,) = [found for _, found in alarms({"": template}) if found["AlarmName"] == f"traingrid-{kind}"]
    (dimension,) = alarm["Dimensions"]
    queue = flat(dimension["Value"]).strip("<>").partition(".")[0]
    rules = [found["Properties"] for found in resources(template, "AWS::Events::Rule").values()]
    (rule,) = [one for one in rules if flat(one["Targets"][0]["Arn"]) == f"<{queue}.Arn>"]
    return rule["EventPattern"], queue


def test_a_blocked_queue_raises_an_alarm(alarmed: dict[str, Template]) -> None:
    control = alarmed["traingrid-control"]
    pattern, queue = watched_rule(control, "queue-blocked")
    (batch,) = resources(control, "AWS::Batch::JobQueue")
    assert pattern == {
        "source": ["aws.batch"],
        "detail-type": ["Batch Job Queue Blocked"],
        "detail": {"jobQueue": [{"Fn::GetAtt": [batch, "JobQueueArn"]}]},
    }
    policies = [found["Properties"] for found in resources(control, "AWS::SQS::QueuePolicy").values()]
    (policy,) = [one for one in policies if flat(one["Queues"][0]) == f"<{queue}>"]
    (allow,) = [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Allow"]
    assert allow["Principal"] == {"Service": "events.amazonaws.com"}
    assert "aws:SourceArn" in allow["Condition"]["ArnLike"]


def test_deletion_of_a_key_raises_an_alarm_in_its_region(
    alarmed: dict[str, Template], control: Template, oregon: Template
) -> None:
    for stack, of in {"control": "control", "us-east-1": "data", "us-west-2": "data"}.items():
        template = alarmed[f"traingrid-{stack}"]
        pattern, _ = watched_rule(template, f"key-in-danger-{of}")
        (key,) = resources(template, "AWS::KMS::Key")
        assert pattern["detail"]["eventName"] == ["ScheduleKeyDeletion", "DisableKey"]
        assert pattern["detail"]["resources"] == {"ARN": [{"Fn::GetAtt": [key, "Arn"]}]}
    for template in (control, oregon):
        assert not [found for _, found in alarms({"": template}) if "key-in-danger" in found["AlarmName"]]


@pytest.mark.parametrize(
    ("kind", "line", "counted"),
    [
        ("outage", {"event": "outage", "failure": "ThrottlingException"}, True),
        ("outage", {"event": "refused", "failure": "throttled"}, True),
        ("outage", {"event": "refused", "failure": "quota"}, False),
        ("outage", {"event": "ended", "failure": "service_error"}, False),
        ("denied", {"event": "ended", "failure": "permission"}, True),
        ("denied", {"event": "error", "failure": "AccessDeniedException"}, True),
        ("denied", {"event": "ended", "failure": "algorithm"}, False),
    ],
)
def test_matching_lines_of_the_childrens_log_are_counted(
    control: Template, kind: str, line: dict[str, str], counted: bool
) -> None:
    found = [entry["Properties"] for entry in resources(control, "AWS::Logs::MetricFilter").values()]
    (wanted,) = [entry for entry in found if entry["MetricTransformations"][0]["MetricName"] == kind]
    assert matches(wanted["FilterPattern"], line) == counted
    (alarm,) = [entry for _, entry in alarms({"": control}) if entry["AlarmName"] == f"traingrid-{kind}"]
    metric = wanted["MetricTransformations"][0]
    assert (alarm["Namespace"], alarm["MetricName"]) == (metric["MetricNamespace"], metric["MetricName"])
    (log,) = [name for name in resources(control, "AWS::Logs::LogGroup") if name.startswith("OrchestratorLog")]
    assert flat(wanted["LogGroupName"]) == f"<{log}>"


def matches(pattern: str, line: dict[str, str]) -> bool:
    """Return True if a JSON filter pattern of CloudWatch Logs matches a line. It supports only our patterns' syntax."""
    compared = re.sub(
        r'\$\.(\w+) = "([^"]*)"', lambda match: str(fnmatch.fnmatchcase(line.get(match[1], ""), match[2])), pattern
    )
    return bool(eval(compared.strip("{ }").replace("&&", "and").replace("||", "or")))


def test_every_alarm_notifies_the_subscribers_of_its_region(alarmed: dict[str, Template]) -> None:
    for template, alarm in alarms(alarmed):
        (topic,) = resources(template, "AWS::SNS::Topic")
        assert [flat(action) for action in alarm["AlarmActions"]] == [f"<{topic}>"]
        subscribed = [found["Properties"] for found in resources(template, "AWS::SNS::Subscription").values()]
        assert sorted(found["Endpoint"] for found in subscribed) == sorted(EMAILS)
        assert {flat(found["TopicArn"]) for found in subscribed} == {f"<{topic}>"}


def test_only_alarms_of_this_account_may_publish_and_only_over_tls(alarmed: dict[str, Template]) -> None:
    policies = [it for template in alarmed.values() for it in resources(template, "AWS::SNS::TopicPolicy").values()]
    assert len(policies) == 4
    for policy in policies:
        deny, allow = policy["Properties"]["PolicyDocument"]["Statement"]
        assert (deny["Effect"], deny["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
        assert allow["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
        assert flat(allow["Condition"]["StringEquals"]["aws:SourceAccount"]) == "<AWS::AccountId>"


def test_every_alarm_has_its_section_in_the_runbook(alarmed: dict[str, Template]) -> None:
    sections = set(re.findall(r"^### `([a-z-]+)`", (ROOT / "docs" / "alarms.md").read_text(), re.MULTILINE))
    kinds = {found["AlarmDescription"].rpartition(", ")[2].rstrip(".") for _, found in alarms(alarmed)}
    assert kinds == sections


def test_a_budget_notifies_the_emails_from_half_of_its_limit(alarmed: dict[str, Template]) -> None:
    (budget,) = resources(alarmed["traingrid-control"], "AWS::Budgets::Budget").values()
    properties = budget["Properties"]
    assert properties["Budget"]["BudgetLimit"] == {"Amount": 20_000, "Unit": "USD"}
    assert properties["Budget"]["CostFilters"] == {"TagKeyValue": ["user:traingrid:grid$traingrid"]}
    notified = properties["NotificationsWithSubscribers"]
    assert [entry["Notification"]["Threshold"] for entry in notified] == [50, 80, 100]
    assert all([it["Address"] for it in entry["Subscribers"]] == EMAILS for entry in notified)


def test_a_change_of_emails_changes_the_budgets_name(alarmed: dict[str, Template], layer: Path) -> None:
    """CloudFormation replaces the budget, which fails if the name is the same."""
    grid = a_grid(2, alarms={"emails": [*EMAILS, "head@example.com"], "monthly_budget_usd": 20_000}, encryption="kms")
    other = synthesise(grid, layer)["traingrid-control"]
    names = {only(it, "AWS::Budgets::Budget")["Budget"]["BudgetName"] for it in (alarmed["traingrid-control"], other)}
    assert len(names) == 2
    assert all(name.startswith("traingrid-") for name in names)


def test_without_emails_there_are_no_subscriptions_and_no_budget(control: Template) -> None:
    assert not resources(control, "AWS::SNS::Subscription")
    assert not resources(control, "AWS::Budgets::Budget")
    assert resources(control, "AWS::CloudWatch::Alarm")


def test_the_dashboard_shows_every_region(control: Template) -> None:
    (board,) = resources(control, "AWS::CloudWatch::Dashboard").values()
    body = json.loads(flat(board["Properties"]["DashboardBody"]))
    titles = [widget["properties"]["title"] for widget in body["widgets"]]
    for region in ("us-east-1", "us-west-2", "eu-west-1", "eu-central-1"):
        assert f"{region}: GPUUtilization of hosts, %" in titles
    undelivered = next(widget for widget in body["widgets"] if "delivered" in widget["properties"]["title"])
    regions = [metric[0].get("region", "us-east-1") for metric in undelivered["properties"]["metrics"]]
    assert sorted(set(regions)) == ["eu-central-1", "eu-west-1", "us-east-1", "us-west-2"]
    assert len(regions) == 5, "the control plane's queues, and those of four Regions"


@pytest.mark.parametrize("metric", ["LinesPending", "LinesWaiting", "LinesTraining", "TrainingJobs", "LinesLeft"])
def test_the_dashboard_shows_metrics_of_passes(control: Template, metric: str) -> None:
    assert metric in PassReport().counts()
    (board,) = resources(control, "AWS::CloudWatch::Dashboard").values()
    assert f'"{metric}"' in flat(board["Properties"]["DashboardBody"])
