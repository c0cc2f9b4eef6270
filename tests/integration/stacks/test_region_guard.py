"""The custom resources of lambda/guard_regions precede changes and deletions of the resources that they protect."""

from pathlib import Path

import pytest

from tests.integration.stacks.templates import Template, a_grid, actions, assembly, on, resources, synthesise
from traingrid import names

TWO = ("us-east-1", "us-west-2")
KEY = "1234abcd-12ab-34cd-56ef-1234567890ab"
QUESTION_FREE = ("Guard", "Manifests", "Ledger", "Libraries", "Alarms", "Dashboard", "ControlKey", "Query")
"""Resources that the guard itself needs, and that jobs do not depend on."""


def test_resources_of_jobs_change_only_after_the_answer(control: Template) -> None:
    (question,) = resources(control, names.REGIONS_QUESTION)
    unasked = [
        name
        for name, resource in control["Resources"].items()
        if question not in resource.get("DependsOn", ()) and not name.startswith(QUESTION_FREE)
    ]
    assert unasked == []


def test_the_question_waits_for_the_updated_function_and_role(control: Template) -> None:
    (question,) = resources(control, names.REGIONS_QUESTION).values()
    (function,) = [
        name
        for name, made in resources(control, "AWS::Lambda::Function").items()
        if made["Properties"]["Handler"] == "lambda.guard_regions.handler"
    ]
    assert question["Properties"]["ServiceToken"] == {"Fn::GetAtt": [function, "Arn"]}
    policies = [name for name in resources(control, "AWS::IAM::Policy") if name.startswith("GuardAnswerRole")]
    assert {function, *policies} <= set(question["DependsOn"])


def test_the_question_names_current_and_abandoned_regions(layer: Path) -> None:
    grid = a_grid(2, abandoned_regions=["eu-west-1"])
    (question,) = resources(synthesise(grid, layer)["traingrid-control"], names.REGIONS_QUESTION).values()
    asked = question["Properties"]
    assert (asked["Regions"], asked["Abandoned"]) == (["us-east-1", "us-west-2"], ["eu-west-1"])


@pytest.mark.parametrize("keys", [{}, {region: f"arn:aws:kms:{region}:111122223333:key/{KEY}" for region in TWO}])
def test_the_question_names_the_keys_that_open_jobs_need(layer: Path, keys: dict[str, str]) -> None:
    grid = a_grid(2, encryption={"kind": "kms", "keys": keys})
    (question,) = resources(synthesise(grid, layer)["traingrid-control"], names.REGIONS_QUESTION).values()
    assert (question["Properties"]["Encryption"], question["Properties"]["Keys"]) == ("kms", keys)


@pytest.mark.parametrize("regions", [1, 4])
def test_the_guards_stack_is_deployed_last_so_that_it_is_destroyed_first(layer: Path, regions: int) -> None:
    stacks = assembly(a_grid(regions), layer).stacks
    after = {stack.stack_name: {before.id for before in stack.dependencies} for stack in stacks}
    assert {f"traingrid-{region}" for region in a_grid(regions).regions} <= after["traingrid-guard"]
    assert not [stack for stack, before in after.items() if "traingrid-guard" in before]


def test_the_guards_stack_asks_the_control_stacks_function(layer: Path) -> None:
    made = synthesise(a_grid(1), layer)
    (question,) = resources(made["traingrid-guard"], names.JOBS_QUESTION).values()
    named = [
        function["Properties"]["FunctionName"]
        for function in resources(made["traingrid-control"], "AWS::Lambda::Function").values()
        if "FunctionName" in function["Properties"]
    ]
    token = question["Properties"]["ServiceToken"]["Fn::Join"][1]
    assert [f":function:{name}" for name in named] == [token[-1]]


def test_the_guard_changes_nothing(control: Template) -> None:
    may = actions(control, "GuardAnswerRole")
    of_every_function = {"sqs:SendMessage", "logs:CreateLogStream", "logs:PutLogEvents"}
    of_every_function |= {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}
    assert {
        action for action in may - of_every_function if action.split(":")[1].startswith(("Put", "Update", "Stop"))
    } == set()
    assert on(control, "GuardAnswerRole", "cloudformation:DescribeStacks") == {
        f"arn:aws:cloudformation:us-east-1:<AWS::AccountId>:stack/traingrid-{stack}/*" for stack in ("control", "guard")
    }
