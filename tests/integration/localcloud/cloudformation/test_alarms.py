"""Alarms on log contents: creation, in-place update and deletion in localcloud."""

import json
from collections.abc import Callable
from typing import Any

from localcloud.server.local_cloud import LocalCloud


def template(pattern: str) -> str:
    resources = {
        "Log": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/counted"}},
        "Filter": {
            "Type": "AWS::Logs::MetricFilter",
            "Properties": {
                "LogGroupName": {"Ref": "Log"},
                "FilterPattern": pattern,
                "MetricTransformations": [{"MetricName": "denied", "MetricNamespace": "grid", "MetricValue": "1"}],
            },
        },
        "Query": {
            "Type": "AWS::Logs::QueryDefinition",
            "Properties": {"Name": "x/y", "QueryString": "fields @message", "LogGroupNames": [{"Ref": "Log"}]},
        },
    }
    return json.dumps({"Resources": resources})


def test_a_metric_filter_is_created_updated_and_deleted_with_its_stack(
    cloud: LocalCloud, client: Callable[..., Any]
) -> None:
    stacks, logs = client("cloudformation"), client("logs")
    stacks.create_stack(StackName="counting", TemplateBody=template("{ $.a = 1 }"))
    (made,) = logs.describe_metric_filters(logGroupName="/counted")["metricFilters"]
    assert made["metricTransformations"][0]["metricName"] == "denied"
    stacks.update_stack(StackName="counting", TemplateBody=template("{ $.a = 2 }"))
    (changed,) = logs.describe_metric_filters(logGroupName="/counted")["metricFilters"]
    assert (changed["filterName"], changed["filterPattern"]) == (made["filterName"], "{ $.a = 2 }")
    stacks.delete_stack(StackName="counting")
    assert not logs.describe_metric_filters()["metricFilters"]
