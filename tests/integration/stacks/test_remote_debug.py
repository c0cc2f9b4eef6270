"""Remote debugging: without the key no role may use Systems Manager; with it, exactly as AWS documents."""

from pathlib import Path

import pytest

from tests.integration.stacks.templates import Template, a_grid, as_list, statements, synthesise

CHANNELS = {
    # https://docs.aws.amazon.com/sagemaker/latest/dg/train-remote-debugging.html
    *("ssmmessages:CreateControlChannel", "ssmmessages:CreateDataChannel"),
    *("ssmmessages:OpenControlChannel", "ssmmessages:OpenDataChannel"),
}
SHELL = {"Bool": {"sagemaker:EnableRemoteDebug": "true"}}


@pytest.fixture(scope="module")
def debugged(layer: Path) -> dict[str, Template]:
    grid = a_grid(2, training={"remote_debug": True})
    return synthesise(grid, layer)


def of_systems_manager(template: Template) -> set[str]:
    found = (action for entry in statements(template) for action in as_list(entry["Action"]))
    return {action for action in found if action.startswith(("ssm:", "ssmmessages:"))}


def denied(template: Template) -> list[object]:
    return [entry.get("Condition") for entry in statements(template) if entry["Effect"] == "Deny"]


def test_without_the_key_there_is_no_permission_and_a_shell_is_denied(control: Template, oregon: Template) -> None:
    assert of_systems_manager(control) == of_systems_manager(oregon) == set()
    assert SHELL in denied(control)


def test_with_the_key_training_jobs_have_exactly_the_documented_permissions(debugged: dict[str, Template]) -> None:
    for stack, template in debugged.items():
        is_region = stack in ("traingrid-us-east-1", "traingrid-us-west-2")
        assert of_systems_manager(template) == (CHANNELS if is_region else set()), stack


def test_with_the_key_only_the_denial_of_shells_is_gone(debugged: dict[str, Template], control: Template) -> None:
    allowed = denied(debugged["traingrid-control"])
    assert SHELL not in allowed
    assert [condition for condition in denied(control) if condition != SHELL] == allowed
