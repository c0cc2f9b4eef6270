"""IAM: services assume the product's roles under the conditions of their trust."""

from conformance.aws import Aws, refused
from conformance.claim import claim
from conformance.claims.permissions import Creating
from conformance.resources.batch import Batch
from conformance.resources.events import Inbox, bus, let_account_send, rule
from conformance.resources.identity import acting_with, allow, role
from conformance.resources.product import trust_conditions
from conformance.resources.training import Training, execution_permissions
from conformance.sources import page

_DEPUTY = "https://docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html"


@claim(
    page(
        "https://docs.aws.amazon.com/sagemaker/latest/dg/security-confused-deputy-prevention.html",
        "using the aws:SourceArn and aws:SourceAccount global condition keys",
    ),
    page("https://github.com/awslabs/predictive-maintenance-using-machine-learning/issues/3", "Could not assume role"),
    used_by="stacks/execution_role.py",
    trainings=1,
)
def training_job_starts_with_a_limited_trust(aws: Aws) -> None:
    """SageMaker assumes an execution role whose trust requires aws:SourceAccount and an aws:SourceArn of SageMaker."""
    training, trusted = Training.of(aws), {"Service": "sagemaker.amazonaws.com"}
    for account, accepted in ((aws.account, True), ("000000000000", False)):
        conditions = trust_conditions(account, f"arn:aws:sagemaker:{aws.home}:{aws.account}:*")
        arn = role(aws, "limited", trusted, *execution_permissions(aws), conditions=conditions)
        if accepted:
            assert training.run("nothing", RoleArn=arn)["TrainingJobStatus"] == "Completed"
            continue
        with refused("ValidationException", text="assume"):
            training.start(RoleArn=arn)


@claim(
    page(
        "https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html",
        "use the aws:SourceAccount or aws:SourceArn condition keys",
    ),
    page(_DEPUTY, "include the aws:SourceAccount and aws:SourceArn global condition context keys"),
    used_by="stacks/orchestrator.py",
)
def child_starts_with_a_limited_trust(aws: Aws) -> None:
    """ECS assumes a job role whose trust requires aws:SourceAccount and an aws:SourceArn of ECS in the Region."""
    batch, trusted = Batch.of(aws), {"Service": "ecs-tasks.amazonaws.com"}
    for account, status in ((aws.account, "SUCCEEDED"), ("000000000000", "FAILED")):
        conditions = trust_conditions(account, f"arn:aws:ecs:{aws.home}:{aws.account}:*")
        arn = role(aws, "task", trusted, allow("sqs:ListQueues"), conditions=conditions)
        definition = batch.define("nothing", job_role=arn)
        assert batch.ended(batch.submit(definition))["status"] == status


@claim(
    page(_DEPUTY, "include the aws:SourceAccount and aws:SourceArn global condition context keys"),
    used_by="stacks/event_forwarding.py",
)
def event_is_forwarded_with_a_limited_trust(aws: Aws) -> None:
    """EventBridge assumes a target's role whose trust requires aws:SourceAccount and the ARN of its rule."""
    away, source = aws.client("events", aws.away), f"conformance.trust.{aws.run}"
    name, arn = bus(aws)
    let_account_send(aws, name, arn)
    box = Inbox(aws)
    rule(aws, {"source": [source]}, {"Arn": box.arn}, bus=name)
    conditions = trust_conditions(aws.account, [f"arn:aws:events:{aws.away}:{aws.account}:rule/tgc-{aws.run}-rule-*"])
    put = allow("events:PutEvents", arn)
    forwarder = role(aws, "trusting", {"Service": "events.amazonaws.com"}, put, conditions=conditions)
    rule(aws, {"source": [source]}, {"Arn": arn, "RoleArn": forwarder}, aws.away)

    def arrived() -> bool:
        away.put_events(Entries=[{"Source": source, "DetailType": "Claim", "Detail": "{}"}])
        return bool(box.messages())

    aws.wait(arrived, "the forwarded event", seconds=aws.seconds(200))


@claim(
    page(
        "https://docs.aws.amazon.com/service-authorization/latest/reference/list_sagemaker.html",
        "API actions to which a user can apply tags",
    ),
    used_by="stacks/child_permissions.py",
    trainings=1,
)
def tags_may_be_limited_to_a_creation(aws: Aws) -> None:
    """sagemaker:TaggingAction lets a role tag the training job that it creates, but not an existing one."""
    it = Creating(aws)
    jobs = f"arn:aws:sagemaker:{aws.home}:{aws.account}:training-job/tgc-*"
    limited = allow("sagemaker:AddTags", jobs, StringEquals={"sagemaker:TaggingAction": "CreateTrainingJob"})
    name = it.by(it.create, limited, it.pass_role)
    arn = f"arn:aws:sagemaker:{aws.home}:{aws.account}:training-job/{name}"
    with refused("AccessDeniedException", text="sagemaker:AddTags"):
        acting_with(aws, limited)("sagemaker").add_tags(ResourceArn=arn, Tags=aws.tags())
