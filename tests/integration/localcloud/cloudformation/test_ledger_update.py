"""Ledger update: a table of version 0.1.0, which has no index, gets both by two updates, and lists work meanwhile."""

import json
from collections.abc import Callable
from typing import Any

from aws_cdk import App, Stack, assertions

from stacks.ledger import Ledger as LedgerTable
from tests.support.sample_deployment import sample_deployment
from traingrid import names
from traingrid.job.state import JobState
from traingrid.ledger.damage import intact
from traingrid.ledger.ledger import Ledger

_GRID = sample_deployment().grid
_SUBMISSION = "0123abcd"


def template(*, indexes: str = "") -> dict[str, Any]:
    """Return a stack with the ledger, with the value of the context key `ledger_indexes`."""
    stack = Stack(App(context={"ledger_indexes": indexes} if indexes else {}), "ledger")
    LedgerTable(stack, "Ledger", grid=_GRID, key=None)
    return {"Resources": assertions.Template.from_stack(stack).to_json()["Resources"]}


def without_indexes(body: dict[str, Any]) -> dict[str, Any]:
    """Return the stack as version 0.1.0 deployed it."""
    [table] = body["Resources"].values()
    del table["Properties"]["GlobalSecondaryIndexes"]
    table["Properties"]["AttributeDefinitions"] = table["Properties"]["AttributeDefinitions"][:2]
    return body


def test_a_table_without_indexes_gets_them_by_two_updates_and_lists_its_submissions(
    client: Callable[..., Any],
) -> None:
    stacks, dynamodb, table = client("cloudformation"), client("dynamodb"), names.ledger(_GRID.name)
    ledger = Ledger(table, make_client=lambda service, *_: client(service))

    def update(body: dict[str, Any]) -> tuple[str, list[str]]:
        stacks.update_stack(StackName="ledger", TemplateBody=json.dumps(body))
        described = dynamodb.describe_table(TableName=table)["Table"].get("GlobalSecondaryIndexes", [])
        status = stacks.describe_stacks(StackName="ledger")["Stacks"][0]["StackStatus"]
        return status, [index["IndexName"] for index in described]

    def check() -> None:
        assert [head.submission for head in intact(ledger.submissions())] == [_SUBMISSION]
        assert [job.state for job in intact(ledger.job_states(_SUBMISSION))] == [JobState.PENDING]

    stacks.create_stack(StackName="ledger", TemplateBody=json.dumps(without_indexes(template())))
    ledger.claim_submission(_SUBMISSION, "request-1", {"jobs": 1, "manifest": "s3://bucket/manifests/x.csv"})
    ledger.end_unreadable(_SUBMISSION, 0, {"state": JobState.PENDING})
    assert ledger.settle(_SUBMISSION, ledger.open_marks()[_SUBMISSION], {})
    check()
    assert update(template()) == ("UPDATE_ROLLBACK_COMPLETE", [])
    check()
    assert update(template(indexes="1")) == ("UPDATE_COMPLETE", [names.LEDGER_STATES])
    check()
    assert update(template()) == ("UPDATE_COMPLETE", [names.LEDGER_STATES, names.LEDGER_SUBMISSIONS])
    check()
    listed = dynamodb.query(
        TableName=table,
        IndexName=names.LEDGER_SUBMISSIONS,
        KeyConditionExpression="#item = :item",
        ExpressionAttributeNames={"#item": "item"},
        ExpressionAttributeValues={":item": {"S": "submission"}},
    )
    assert listed["Count"] == 1
