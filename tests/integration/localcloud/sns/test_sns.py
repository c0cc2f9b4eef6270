"""SNS in localcloud refuses what AWS's API reference forbids, and delivers nothing without a confirmation."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings


@pytest.fixture(scope="module", autouse=True)
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("sns"))
    with LocalCloud(settings) as running, pytest.MonkeyPatch.context() as env:
        for name, value in user_environment(running.endpoint_url).items():
            env.setenv(name, value)
        yield running


@pytest.fixture
def topic() -> Iterator[str]:
    sns: Any = boto3.client("sns", region_name="us-east-1")
    arn = sns.create_topic(Name="topic")["TopicArn"]
    yield str(arn)
    sns.delete_topic(TopicArn=arn)


def publish(topic: str, **request: Any) -> None:
    sns: Any = boto3.client("sns", region_name="us-east-1")
    sns.publish(TopicArn=topic, **{"Message": "text", **request})


def refusal(topic: str, **request: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        publish(topic, **request)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


@pytest.mark.parametrize("subject", ["a\nb", "a\rb", "\x1b[2J", "", "x" * 100])
def test_a_subject_with_a_line_break_or_a_hundred_characters_is_refused(topic: str, subject: str) -> None:
    assert refusal(topic, Subject=subject) == ("InvalidParameter", "Invalid parameter: Subject")


def test_a_subject_of_ninety_nine_characters_is_accepted(topic: str) -> None:
    publish(topic, Subject="x" * 99)


@pytest.mark.parametrize("message", ["text", "[]", "{}", '{"email": "text"}', '{"default": 1}'])
def test_a_message_with_a_structure_needs_a_default_form(topic: str, message: str) -> None:
    code, text = refusal(topic, Message=message, MessageStructure="json")
    assert code == "InvalidParameter"
    assert text.startswith("Invalid parameter: Message Structure - ")


def test_the_size_of_a_message_counts_bytes(topic: str) -> None:
    publish(topic, Message="é" * 131_072)
    assert refusal(topic, Message="é" * 131_073)[1] == "Invalid parameter: Message too long"


def test_a_topic_that_does_not_exist_is_not_found(topic: str) -> None:
    assert refusal(f"{topic}2")[0] == "NotFound"


def test_each_protocol_gets_its_form_of_a_message(topic: str) -> None:
    sqs: Any = boto3.client("sqs", region_name="us-east-1")
    url = sqs.create_queue(QueueName="queue")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    boto3.client("sns", region_name="us-east-1").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    publish(topic, Message=json.dumps({"default": "for all", "email": "for people"}), MessageStructure="json")
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert json.loads(message["Body"])["Message"] == "for all"


def test_an_email_and_a_web_address_are_pending_and_get_nothing(topic: str) -> None:
    sns: Any = boto3.client("sns", region_name="us-east-1")
    for protocol, endpoint in (("email", "a@example.com"), ("http", "http://127.0.0.1:9/x")):
        sns.subscribe(TopicArn=topic, Protocol=protocol, Endpoint=endpoint)
    attributes = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
    assert (attributes["SubscriptionsPending"], attributes["SubscriptionsConfirmed"]) == ("2", "0")
    publish(topic)
    listed = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    pending = [sns.get_subscription_attributes(SubscriptionArn=entry["SubscriptionArn"]) for entry in listed]
    assert [entry["Attributes"]["PendingConfirmation"] for entry in pending] == ["true", "true"]
