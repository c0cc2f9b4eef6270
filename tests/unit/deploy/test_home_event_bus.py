"""Home event bus: `doctor` reports a bus that is gone, and a policy without an account of the grid."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.sample_deployment import sample_deployment
from traingrid.deploy.checkup import home_event_bus as checkup
from traingrid.deploy.checkup.finding import REVERT_DRIFT, Verdict
from traingrid.grid.model import GridSettings

HOME_ACCOUNT, OTHER = "123456789012", "210987654321"
GONE = ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "Event bus grid"}}, "DescribeEventBus")
DENIED = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeEventBus")


class Events:
    """EventBridge of the home Region."""

    def __init__(self, reply: dict[str, str] | ClientError) -> None:
        self.reply = reply

    def describe_event_bus(self, **_: str) -> dict[str, str]:
        if isinstance(self.reply, ClientError):
            raise self.reply
        return self.reply


def allows(principal: Any, action: Any = "events:PutEvents", effect: str = "Allow") -> dict[str, Any]:
    return {"Effect": effect, "Principal": principal, "Action": action, "Resource": "*"}


def policy(*statements: dict[str, Any]) -> dict[str, str]:
    return {"Policy": json.dumps({"Version": "2012-10-17", "Statement": statements})}


@pytest.fixture
def grid() -> GridSettings:
    return sample_deployment().grid


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (policy(allows({"AWS": f"arn:aws:iam::{HOME_ACCOUNT}:root"})), ""),
        (policy(allows({"AWS": [OTHER, HOME_ACCOUNT]}, ["events:PutEvents"])), ""),
        ({}, f"its policy lacks {HOME_ACCOUNT}: no events arrive from there"),
        (policy(allows({"AWS": OTHER})), f"its policy lacks {HOME_ACCOUNT}: no events arrive from there"),
        (
            policy(allows({"AWS": HOME_ACCOUNT}, "events:PutRule"), allows({"AWS": HOME_ACCOUNT}, effect="Deny")),
            f"its policy lacks {HOME_ACCOUNT}: no events arrive from there",
        ),
        (GONE, "does not exist: only passes record the ends of training jobs whose child has died"),
    ],
)
def test_a_bus_needs_a_policy_for_the_own_account(
    grid: GridSettings, monkeypatch: pytest.MonkeyPatch, reply: dict[str, str] | ClientError, why: str
) -> None:
    monkeypatch.setattr(checkup, "client", lambda *_: Events(reply))
    (found,) = checkup.home_event_bus(grid, HOME_ACCOUNT)
    assert (found.reason, found.fix) == (why, REVERT_DRIFT if why else "")
    assert found.verdict is (Verdict.WRONG if why else Verdict.GOOD)


def test_a_bus_needs_a_policy_for_each_account_of_the_grid(grid: GridSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GridSettings, "other_accounts", lambda _: {"eu-west-1": OTHER})
    monkeypatch.setattr(checkup, "client", lambda *_: Events(policy(allows({"AWS": HOME_ACCOUNT}))))
    (found,) = checkup.home_event_bus(grid, HOME_ACCOUNT)
    assert found.reason == f"its policy lacks {OTHER}: no events arrive from there"


def test_a_bus_that_may_not_be_read_is_not_checked(grid: GridSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "client", lambda *_: Events(DENIED))
    (found,) = checkup.home_event_bus(grid, HOME_ACCOUNT)
    assert (found.verdict, found.fix) == (Verdict.UNKNOWN, "allow the caller events:DescribeEventBus")
