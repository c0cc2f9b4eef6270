"""A grid with notifications, end to end with IAM and keys enforced: first failure, budget, end, and failures of SNS."""

import json
from pathlib import Path
from typing import Any

import pytest

from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import forbidden
from tests.e2e.submissions import ended, submit, until
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client
from traingrid.deploy.checkup.finding import Verdict
from traingrid.deploy.checkup.notifications import notifications
from traingrid.grid.file import load_grid

HOME = "us-east-1"


def outputs() -> dict[str, str]:
    (stack,) = client("cloudformation", HOME).describe_stacks(StackName="traingrid-control")["Stacks"]
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


class Subscriber:
    """A queue that is subscribed to the topic."""

    def __init__(self) -> None:
        self._sqs: Any = client("sqs", HOME)
        self._url = self._sqs.create_queue(QueueName="subscriber")["QueueUrl"]
        attributes = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])["Attributes"]
        topic = outputs()["NotificationTopic"]
        client("sns", HOME).subscribe(TopicArn=topic, Protocol="sqs", Endpoint=attributes["QueueArn"])

    def received(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the subjects and events of all messages since the last call."""
        found = []
        while messages := self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                body = json.loads(message["Body"])
                found.append((body["Subject"], json.loads(body["Message"])))
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
        return found


@pytest.fixture(scope="module")
def subscriber(plane: ControlPlane) -> Subscriber:
    """A subscriber that receives nothing about the submissions of other tests, whose ends are published before."""
    run_pass()
    return Subscriber()


def run_pass() -> dict[str, Any]:
    """Run one pass as the deployed function, and return its result."""
    function = outputs()["ReconcileFunction"]
    reply = client("lambda", HOME).invoke(FunctionName=function, Payload=json.dumps({"grace_seconds": 0}).encode())
    done: dict[str, Any] = json.loads(reply["Payload"].read())
    assert "errorMessage" not in done, done
    return done


def manifest(plane: ControlPlane, *hyperparameters: dict[str, Any], **fields: Any) -> str:
    data = f"s3://{names.data_bucket('traingrid', plane.deployment.account, HOME)}/x"
    lines = [{"region": HOME, "s3_uri": data, "hyperparameters": wanted, **fields} for wanted in hyperparameters]
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def test_doctor_reports_the_email_that_is_not_confirmed(plane: ControlPlane, cloud: LocalCloud) -> None:
    (found,) = notifications(load_grid(Path(cloud.data_dir) / "grid.yaml"))
    assert (found.verdict, found.reason) == (Verdict.WRONG, "1 of the topic's subscriptions is not confirmed")


def test_the_first_failure_and_the_end_are_published_once(plane: ControlPlane, subscriber: Subscriber) -> None:
    lines = manifest(plane, {"code": "3"}, {"seconds": "600"})
    submission = submit(plane, "first.jsonl", lines)["submission"]
    until(lambda: [job.state for job in plane.status(submission).jobs] == ["Failed", "InProgress"])
    assert run_pass()["notified"] == [f"{submission} first_failure 0"]
    assert run_pass()["notified"] == []
    ((subject, event),) = subscriber.received()
    assert subject == f"traingrid traingrid: submission {submission} (first.jsonl) has its first failed job"
    assert event["content"]["nextSteps"][-1] == f"`traingrid logs {submission} 0`"
    assert f"#/jobs/traingrid-{submission}-0-1" in event["content"]["description"]
    assert "AlgorithmError" in event["content"]["description"]
    plane.ledger.request_cancel(submission, "all", {"by": "Ada", "reason": "enough"})
    run_pass()
    ended(plane, submission)
    run_pass()
    ((subject, event),) = subscriber.received()
    assert subject == f"traingrid traingrid: submission {submission} (first.jsonl) has ended: 1 failed, 1 stopped"
    assert event["metadata"] == {**event["metadata"], "eventType": "end", "threadId": f"traingrid-{submission}"}


def test_a_budget_is_published_with_its_dollars(plane: ControlPlane, subscriber: Subscriber) -> None:
    prices = {"dollars_per_hour": 3600.0, "budget_dollars": 10.0}
    submission = submit(plane, "budget.jsonl", manifest(plane, {"seconds": "600"}, **prices))["submission"]
    until(lambda: plane.status(submission).jobs[0].state == "InProgress")
    until(lambda: submission in run_pass()["over_budget"])
    events = [event for _, event in subscriber.received()]
    assert [event["metadata"]["eventType"] for event in events] == ["budget"] * len(events)
    assert events[-1]["id"] == f"traingrid-{submission}-budget-100"
    assert "the budget of $10.00 is reached" in events[-1]["content"]["description"]
    ended(plane, submission)
    run_pass()
    ((subject, _),) = subscriber.received()
    assert subject.endswith("has ended: 1 stopped")


def test_the_pass_continues_without_permission_or_topic_and_publishes_later(
    plane: ControlPlane, subscriber: Subscriber
) -> None:
    submission = submit(plane, "denied.jsonl", manifest(plane, {}))["submission"]
    ended(plane, submission)
    for missing in ("sns:Publish", "kms:GenerateDataKey"):
        with forbidden(names.home_role("traingrid", "sweep"), missing, unless="s3."):
            (reason,) = run_pass()["unsent"].values()
        assert f"is not authorized to perform: {missing}" in reason
    assert run_pass()["notified"] == [f"{submission} end 0"]
    assert [event["id"] for _, event in subscriber.received()] == [f"traingrid-{submission}-end-0"]
    client("sns", HOME).delete_topic(TopicArn=outputs()["NotificationTopic"])
    submission = submit(plane, "deleted.jsonl", manifest(plane, {}))["submission"]
    ended(plane, submission)
    (reason,) = run_pass()["unsent"].values()
    assert "NotFound" in reason


def test_doctor_reports_a_deleted_topic(plane: ControlPlane, cloud: LocalCloud, subscriber: Subscriber) -> None:
    (found,) = notifications(load_grid(Path(cloud.data_dir) / "grid.yaml"))
    assert found.verdict is Verdict.WRONG
    assert found.reason.endswith("does not exist")
