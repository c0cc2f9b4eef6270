"""EventBridge: the content and delivery of the events that the product reads."""

import json

from conformance.aws import Aws, refused
from conformance.claim import claim, documented
from conformance.resources.events import Inbox, bus, inbox, let_account_send, rule
from conformance.resources.identity import allow, document, role
from conformance.resources.storage import bucket
from conformance.resources.training import Training
from conformance.sources import model, page

_SAGEMAKER = "https://docs.aws.amazon.com/eventbridge/latest/ref/events-ref-sagemaker.html"
_S3 = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html"
_OBJECT = {"source": ["aws.s3"], "detail-type": ["Object Created"]}
KEY = "manifests/a folder/x+y ü.csv"


def _of_objects(aws: Aws) -> dict[str, object]:
    """Return the event of an uploaded object, and PutObject's replies; claims share them."""

    def make() -> dict[str, object]:
        name = bucket(aws, events=True)
        box = inbox(
            aws, {**_OBJECT, "detail": {"bucket": {"name": [name]}, "object": {"key": [{"prefix": "manifests/"}]}}}
        )
        s3, puts = aws.client("s3"), list[dict[str, object]]()

        def arrived() -> bool:  # the notification of a new bucket takes effect after a while
            puts.append(dict(s3.put_object(Bucket=name, Key=KEY, Body=b"12345")))
            return bool(box.messages())

        aws.wait(arrived, "the event of an upload")
        event = json.loads(box.messages()[0]["Body"])
        return {"event": event, "versions": [put["VersionId"] for put in puts], "bucket": name}

    return aws.once("object event", make)


@claim(page(_S3, '"detail-type": "Object Created"'), used_by="traingrid/submission/intake.py stacks/manifest_intake.py")
def upload_is_an_object_created_event(aws: Aws) -> None:
    """An upload sends an event Object Created of aws.s3 with bucket, key, size, version-id and etag in its detail."""
    found = _of_objects(aws)
    event = json.loads(json.dumps(found["event"]))
    thing = event["detail"]["object"]
    assert (event["source"], event["detail-type"]) == ("aws.s3", "Object Created")
    assert event["detail"]["bucket"]["name"] == found["bucket"]
    assert thing["size"] == 5
    assert thing["version-id"] in json.dumps(found["versions"])
    assert thing["etag"]


@claim(
    page(_S3),
    used_by="traingrid/aws/s3.py",
)
def key_of_an_event_is_plain_text(aws: Aws) -> None:
    """The key in an S3 event is plain text: spaces, plus signs and umlauts are not encoded."""
    # AWS's page does not specify it, and AWS's Powertools decode the key, so `object_of_event` reads both forms.
    event = json.loads(json.dumps(_of_objects(aws)["event"]))
    assert event["detail"]["object"]["key"] == KEY


@claim(
    page(_SAGEMAKER, "SageMaker Training Job State Change"),
    used_by="lambda/record_job_event.py stacks/event_forwarding.py",
    trainings=1,
)
def training_job_changes_are_events(aws: Aws) -> None:
    """A training job sends events of aws.sagemaker when it changes; their detail has its name, ARN and status."""
    training = Training.of(aws)
    pattern = {"source": ["aws.sagemaker"], "detail-type": ["SageMaker Training Job State Change"]}
    box = inbox(aws, {**pattern, "detail": {"TrainingJobName": [{"prefix": f"tgc-{aws.run}-"}]}})
    ended = training.run("nothing")
    wanted = (ended["TrainingJobName"], "Completed")
    event = box.event(
        lambda event: (event["detail"]["TrainingJobName"], event["detail"]["TrainingJobStatus"]) == wanted
    )
    assert event["region"] == aws.home
    assert event["detail"]["TrainingJobArn"] == ended["TrainingJobArn"]
    assert event["resources"] == [ended["TrainingJobArn"]]


@claim(
    page(
        "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-events-structure.html",
        "Identifies the AWS Region where the event originated",
    ),
    used_by="stacks/event_forwarding.py lambda/record_job_event.py",
)
def forwarded_event_keeps_its_region(aws: Aws) -> None:
    """An event that a rule forwards to a bus in another Region keeps its source, detail and original Region."""
    there = aws.client("events", aws.away)
    name, arn = bus(aws)
    let_account_send(aws, name, arn)
    box = Inbox(aws)
    rule(aws, {"source": [f"conformance.{aws.run}"]}, {"Arn": box.arn}, bus=name)
    put = role(aws, "forward", {"Service": "events.amazonaws.com"}, allow("events:PutEvents", arn))
    rule(aws, {"source": [f"conformance.{aws.run}"]}, {"Arn": arn, "RoleArn": put}, aws.away)
    entry = {"Source": f"conformance.{aws.run}", "DetailType": "Claim", "Detail": json.dumps({"a": 1})}

    def arrived() -> bool:
        there.put_events(Entries=[entry])
        return bool(box.messages())

    aws.wait(arrived, "the forwarded event")
    event = json.loads(box.messages()[0]["Body"])
    assert event["region"] == aws.away
    assert event["detail"] == {"a": 1}


@claim(
    page(
        "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-bus-to-bus.html",
        "permission to receive events from the sender event bus",
    ),
    page(
        "https://github.com/ministryofjustice/modernisation-platform-environments/pull/19002",
        "it returns AccessDeniedException from PutTargets",
    ),
    used_by="stacks/home_event_bus.py localcloud/events/target_checks.py",
)
def bus_refuses_targets_of_an_account_without_a_policy(aws: Aws) -> None:
    """PutTargets with a custom bus is refused, also within the account, until its policy allows the account."""
    # eb-cross-region.html has no such step: if AWS accepts the target without a policy, the product's is unnecessary.
    name, arn = bus(aws)
    put = role(aws, "sender", {"Service": "events.amazonaws.com"}, allow("events:PutEvents", arn))
    pattern, target = {"source": [f"conformance.target.{aws.run}"]}, {"Arn": arn, "RoleArn": put}
    with refused("AccessDeniedException"):
        rule(aws, pattern, target, aws.away)
    let_account_send(aws, name, arn)
    rule(aws, pattern, target, aws.away)


@claim(
    page(
        "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-event-patterns-content-based-filtering.html",
        "match an event depending on the prefix of a value",
    ),
    used_by="stacks/event_forwarding.py stacks/manifest_intake.py",
)
def prefix_matches_the_beginning_only(aws: Aws) -> None:
    """A prefix pattern matches only values that begin with the prefix."""
    source = f"conformance.prefix.{aws.run}"
    box = inbox(aws, {"source": [source], "detail": {"name": [{"prefix": "grid-"}]}})
    events = aws.client("events")

    def arrived() -> bool:
        names = ("other-grid-1", "grid-1")
        details = [json.dumps({"name": name}) for name in names]
        events.put_events(Entries=[{"Source": source, "DetailType": "Claim", "Detail": detail} for detail in details])
        return bool(box.messages())

    aws.wait(arrived, "the event that matches")
    aws.stays_false(
        lambda: any(json.loads(message["Body"])["detail"]["name"] != "grid-1" for message in box.messages()), of_aws=20
    )


@claim(
    page(
        "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-dlq.html",
        "Each message in your DLQ will include the following custom attributes",
    ),
    used_by="stacks/dead_letters.py",
)
def undelivered_event_is_a_dead_letter(aws: Aws) -> None:
    """An event that its target refuses goes to the rule's dead-letter queue, with the error code as an attribute."""
    source, dead = f"conformance.dead.{aws.run}", Inbox(aws)
    missing = f"arn:aws:lambda:{aws.home}:{aws.account}:function:{aws.name('missing')}"
    target = {
        "Arn": missing,
        "DeadLetterConfig": {"Arn": dead.arn},
        "RetryPolicy": {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60},
    }
    rule(aws, {"source": [source]}, target)

    def arrived() -> bool:
        aws.client("events").put_events(Entries=[{"Source": source, "DetailType": "Claim", "Detail": "{}"}])
        return bool(dead.messages())

    aws.wait(arrived, "the dead letter")
    assert dead.messages()[0]["MessageAttributes"]["ERROR_CODE"]["StringValue"]


@claim(
    model("cloudwatch", "SetAlarmState", "the action configured for the appropriate state is invoked"),
    used_by="stacks/alarm_actions.py docs/alarms.md",
    not_modelled="alarms: their state changes, but no action follows",
)
def alarm_that_is_set_tells_its_topic(aws: Aws) -> None:
    """SetAlarmState to ALARM sends to the alarm's topic, whose policy requires aws:SourceAccount of CloudWatch."""
    sns, cloudwatch, name = aws.client("sns"), aws.client("cloudwatch"), aws.name("alarm")
    topic = sns.create_topic(Name=name, Tags=aws.tags())["TopicArn"]
    aws.undo.later(f"topic {name}", lambda: sns.delete_topic(TopicArn=topic))
    publish = {"Effect": "Allow", "Principal": {"Service": "cloudwatch.amazonaws.com"}, "Action": "sns:Publish"}
    limited = {**publish, "Resource": topic, "Condition": {"StringEquals": {"aws:SourceAccount": aws.account}}}
    sns.set_topic_attributes(TopicArn=topic, AttributeName="Policy", AttributeValue=document(limited))
    box = Inbox(aws, principal="sns.amazonaws.com")
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=box.arn)
    aws.undo.later(f"alarm {name}", lambda: cloudwatch.delete_alarms(AlarmNames=[name]))
    cloudwatch.put_metric_alarm(
        AlarmName=name,
        MetricName="none",
        Namespace="conformance",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
        AlarmActions=[topic],
        Tags=aws.tags(),
    )
    cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="the claim")
    patience = aws.seconds(120)
    message = aws.wait(lambda: box.messages(), "the alarm's message", seconds=patience)[0]  # noqa: PLW0108 - a bound method cannot be truthy
    assert json.loads(json.loads(message["Body"])["Message"])["NewStateValue"] == "ALARM"


@documented(
    page(
        "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-service-event.html",
        "in some rare cases an event might not be delivered",
    ),
    page(
        "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-troubleshooting.html",
        "the same rule can run more than once for a single event",
    ),
    used_by="lambda/record_job_event.py traingrid/reconciler/reconciler.py",
    why="repeated and lost events cannot be provoked",
)
def events_may_repeat_or_be_lost(aws: Aws) -> None:
    """SageMaker's events are best effort and may be lost; a rule may be invoked more than once for one event."""


@documented(
    model("codebuild", "StartBuild", "AccountLimitExceededException"),
    page("https://docs.aws.amazon.com/codebuild/latest/userguide/limits.html", "Each supported Region: 1"),
    page(
        "https://github.com/aws-samples/aws-gateway-load-balancer-suricata-ids-ips-nsm/issues/12",
        "Cannot have more than 1 builds in queue for the account",
    ),
    page(
        "https://github.com/hashicorp-education/learn-terraform-aws-control-tower-aft/issues/7",
        "Cannot have more than 0 builds in queue for the account",
    ),
    used_by="traingrid/deploy/image_build.py stacks/image_build.py",
    why="the limit of concurrent builds depends on the account",
)
def builds_are_limited_by_the_account(aws: Aws) -> None:
    """An account with a limit of 0 or 1 concurrent builds, such as a new one, gets AccountLimitExceededException."""


@documented(
    page(
        "https://docs.aws.amazon.com/lambda/latest/dg/services-xray.html",
        "Your Lambda functions send trace data to X-Ray",
    ),
    used_by="stacks/event_function.py",
    why="traces are sampled, and arrive within minutes or not at all",
    not_modelled="X-Ray: traces are accepted but not stored",
)
def function_is_traced(aws: Aws) -> None:
    """A function with active tracing sends its traces to X-Ray."""
