"""Topic: `doctor` distinguishes a topic without confirmed subscriptions from one that does not exist."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.sample_deployment import sample_deployment
from traingrid.deploy.checkup import notifications as checkup
from traingrid.deploy.checkup.finding import Verdict
from traingrid.grid.model import GridSettings

TOPIC = "arn:aws:sns:us-east-1:123456789012:notifications"
MISSING = ClientError({"Error": {"Code": "NotFound", "Message": "Topic does not exist"}}, "GetTopicAttributes")


class Account:
    """CloudFormation and SNS of an account with a deployed grid."""

    def __init__(self, topic: dict[str, str] | ClientError, outputs: dict[str, str]) -> None:
        self.topic, self.outputs = topic, outputs

    def describe_stacks(self, **_: str) -> dict[str, Any]:
        outputs = [{"OutputKey": key, "OutputValue": value} for key, value in self.outputs.items()]
        return {"Stacks": [{"Outputs": outputs}]}

    def get_topic_attributes(self, **_: str) -> dict[str, Any]:
        if isinstance(self.topic, ClientError):
            raise self.topic
        return {"Attributes": self.topic}


@pytest.fixture
def grid() -> GridSettings:
    found = sample_deployment().grid.model_dump(mode="json", exclude_defaults=True)
    return GridSettings.model_validate(found | {"notifications": {"emails": ["ada@example.org"]}})


@pytest.mark.parametrize(
    ("topic", "verdict", "why"),
    [
        ({"SubscriptionsConfirmed": "1", "SubscriptionsPending": "0"}, Verdict.GOOD, ""),
        (
            {"SubscriptionsConfirmed": "1", "SubscriptionsPending": "1"},
            Verdict.WRONG,
            "1 of the topic's subscriptions is",
        ),
        ({"SubscriptionsPending": "2"}, Verdict.WRONG, "2 of the topic's subscriptions are not confirmed"),
        ({"SubscriptionsConfirmed": "0"}, Verdict.WRONG, f"the topic {TOPIC} has no subscription"),
        (MISSING, Verdict.WRONG, f"the topic {TOPIC} does not exist"),
    ],
)
def test_a_topic_needs_a_confirmed_subscription(
    grid: GridSettings, monkeypatch: pytest.MonkeyPatch, topic: dict[str, str] | ClientError, verdict: Verdict, why: str
) -> None:

    monkeypatch.setattr(checkup, "client", lambda *_: Account(topic, {"NotificationTopic": TOPIC}))
    (found,) = checkup.notifications(grid)
    assert found.verdict is verdict
    assert found.reason.startswith(why)
    assert bool(found.reason) == bool(why)


def test_a_grid_that_was_deployed_without_notifications_has_no_topic(
    grid: GridSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "client", lambda *_: Account({}, {}))
    (found,) = checkup.notifications(grid)
    assert (found.verdict, found.reason) == (Verdict.WRONG, "the deployed grid differs from GRID-FILE: it has no topic")
    assert list(checkup.notifications(sample_deployment().grid)) == []
