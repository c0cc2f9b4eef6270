"""IAM: services assume the product's roles under the conditions of their trust."""

from collections.abc import Iterator

from conformance.aws import Aws, refused
from conformance.claim import claim, documented
from conformance.claims.permissions import Creating
from conformance.resources.batch import Batch
from conformance.resources.builds import LOGGING, build, project
from conformance.resources.events import Inbox, bus, let_account_send, rule
from conformance.resources.identity import acting_with, allow, role
from conformance.resources.product import Conditions, trust_conditions
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
    for conditions, accepted in _each_trust(aws, f"arn:aws:sagemaker:{aws.home}:{aws.account}:*"):
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
    for conditions, accepted in _each_trust(aws, f"arn:aws:ecs:{aws.home}:{aws.account}:*"):
        arn = role(aws, "task", trusted, allow("sqs:ListQueues"), conditions=conditions)
        definition = batch.define("nothing", job_role=arn)
        assert batch.ended(batch.submit(definition))["status"] == ("SUCCEEDED" if accepted else "FAILED")


@claim(
    page(
        "https://docs.aws.amazon.com/codebuild/latest/userguide/setting-up-service-role.html",
        "is the owner of the CodeBuild project and",
    ),
    page(
        "https://github.com/hashicorp/terraform-provider-aws/issues/4233",
        "CodeBuild is not authorized to perform: sts:AssumeRole",
    ),
    used_by="stacks/build_project.py stacks/replication_wait.py",
)
def build_starts_with_a_limited_trust(aws: Aws) -> None:
    """CodeBuild assumes a role whose trust requires aws:SourceAccount and the ARN of a project; others are refused."""
    for conditions, accepted in _each_trust(aws, f"arn:aws:codebuild:{aws.home}:{aws.account}:project/*"):
        arn = role(aws, "build", {"Service": "codebuild.amazonaws.com"}, LOGGING, conditions=conditions)
        if accepted:
            assert build(aws, arn) == "SUCCEEDED"
            continue
        with refused("InvalidInputException", text="sts:AssumeRole"):
            project(aws, arn)


@claim(
    page(
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html",
        "For IAM roles, the request context returns the ARN of the role",
    ),
    used_by="stacks/accounts.py",
)
def role_trusts_one_role_of_an_account(aws: Aws) -> None:
    """A trust in an account with aws:PrincipalArn of a role admits that role, and no other role of the account."""
    assume = allow("sts:AssumeRole", f"arn:aws:iam::{aws.account}:role/tgc-{aws.run}-*")
    known, another = acting_with(aws, assume), acting_with(aws, assume)
    session = known("sts").get_caller_identity()["Arn"]
    arn = f"arn:aws:iam::{aws.account}:role/{session.split('/')[1]}"
    whole = {"AWS": f"arn:aws:iam::{aws.account}:root"}
    target = role(aws, "acting", whole, conditions={"ArnEquals": {"aws:PrincipalArn": arn}})
    known("sts").assume_role(RoleArn=target, RoleSessionName="conformance")
    with refused("AccessDenied"):
        another("sts").assume_role(RoleArn=target, RoleSessionName="conformance")


@documented(
    page(
        "https://docs.aws.amazon.com/vpc/latest/userguide/flow-logs-iam-role.html",
        "use the aws:SourceAccount and aws:SourceArn condition keys",
    ),
    used_by="stacks/flow_log.py",
    why="flow logs take 10 minutes, and their deliveries to localcloud's logs are empty",
)
def flow_log_is_delivered_with_a_limited_trust(aws: Aws) -> None:
    """Flow logs assume a role whose trust requires aws:SourceAccount and the ARN of a flow log."""


@documented(
    page(
        "https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html",
        "keys for tags that are added to the AssumeRole request",
    ),
    page(
        "https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html",
        "restrict which service accounts, namespaces, and clusters can use this role",
    ),
    used_by="stacks/eks_access.py localcloud/eks/pod_identity.py",
    why="it takes a pod on a node of a cluster",
)
def pod_is_known_by_the_tags_of_its_session(aws: Aws) -> None:
    """EKS assumes a role of pods with aws:RequestTag of the cluster's ARN, the namespace and the service account."""


@documented(
    page(
        "https://docs.aws.amazon.com/efs/latest/ug/iam-access-control-nfs-efs.html",
        "by clients that are not using file system mount targets",
    ),
    page(
        "https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticfilesystem.html",
        "whether the file system is accessed via mount targets",
    ),
    used_by="stacks/execution_role.py",
    why="it takes a file system with mount targets in a VPC; localcloud's file systems are folders",
)
def file_system_knows_its_mount_targets(aws: Aws) -> None:
    """elasticfilesystem:AccessedViaMountTarget is true for a mount through a mount target of the file system."""


def _each_trust(aws: Aws, source: str) -> Iterator[tuple[Conditions, bool]]:
    """Yield the product's conditions, and those with another account and another source, which must be refused."""
    yield trust_conditions(aws.account, source), True
    yield trust_conditions("000000000000", source), False
    yield trust_conditions(aws.account, source.replace(aws.account, "000000000000")), False


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
    put, rules = allow("events:PutEvents", arn), f"arn:aws:events:{aws.away}:{aws.account}:rule/tgc-{aws.run}-rule-*"
    for conditions, accepted in _each_trust(aws, rules):
        forwarder = role(aws, "trusting", {"Service": "events.amazonaws.com"}, put, conditions=conditions)
        pattern = {"source": [source], "detail-type": ["Claim" if accepted else "Lost"]}
        rule(aws, pattern, {"Arn": arn, "RoleArn": forwarder}, aws.away)

    def arrived() -> bool:
        entries = [{"Source": source, "DetailType": kind, "Detail": "{}"} for kind in ("Lost", "Claim")]
        away.put_events(Entries=entries)
        return any('"Claim"' in message["Body"] for message in box.messages())

    aws.wait(arrived, "the forwarded event", seconds=aws.seconds(200))
    assert [message for message in box.messages() if '"Lost"' in message["Body"]] == []


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
