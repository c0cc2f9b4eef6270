"""Permissions of image builds, and of the function that starts them."""

from collections.abc import Iterator

from localcloud.iam.request_keys import Context
from tests.integration.policies.case import RESOURCE, Caller, Case
from tests.integration.policies.child_cases import CREATE, LEDGER, MANIFESTS, asked, execution_role, training_job
from tests.integration.policies.function_cases import TO_SAGEMAKER
from tests.integration.policies.grid import ACCOUNT, FREE, HOME, INSIDE, SOURCE
from tests.integration.policies.region_cases import repository

orchestrator, training, builder = map(Caller, ("orchestrator build", "training build", "image builder"))
wait = Caller("replication wait")
BUS = f"arn:aws:events:{HOME}:{ACCOUNT}:event-bus/default"
OUR_EVENT: Context = {"events:source": ["traingrid.builds"]}
ASSETS = f"arn:aws:s3:::cdk-hnb659fds-assets-{ACCOUNT}-{HOME}"
PROJECT = f"arn:aws:codebuild:{HOME}:{ACCOUNT}:project"
OURS, THEIRS = repository("traingrid/orchestrator", region=HOME), repository("traingrid/training", region=HOME)
PUSH = (
    *("BatchCheckLayerAvailability", "InitiateLayerUpload", "UploadLayerPart"),
    *("CompleteLayerUpload", "PutImage", "BatchGetImage", "DescribeImages"),
)


def cases() -> Iterator[Case]:
    yield from _build(orchestrator, "OrchestratorBuild", OURS, THEIRS)
    yield from _build(training, "TrainingBuild-gpu", THEIRS, OURS)
    yield from _other_regions()
    yield from _builder()


def _build(caller: Caller, part: str, own: str, other: str) -> Iterator[Case]:
    yield caller.may("download its source", "s3:GetObject", f"{ASSETS}/{SOURCE}")
    yield caller.may_not("download another asset", "s3:GetObject", f"{ASSETS}/x{SOURCE}", breaks=RESOURCE)
    yield caller.may_not("download a manifest", "s3:GetObject", f"{MANIFESTS}/manifests/x.csv", breaks=RESOURCE)
    yield caller.may_not("change its source", "s3:PutObject", f"{ASSETS}/{SOURCE}")
    yield caller.may_not("list assets", "s3:ListBucket", ASSETS)
    for action in PUSH:
        yield caller.may("push its image", f"ecr:{action}", own)
        yield caller.may_not("push to another repository", f"ecr:{action}", other, breaks=RESOURCE)
    yield caller.may("get the registry's token", "ecr:GetAuthorizationToken", "*")
    yield caller.may_not("download layers of another repository", "ecr:GetDownloadUrlForLayer", other)
    for action in ("BatchDeleteImage", "SetRepositoryPolicy", "PutImageTagMutability"):
        yield caller.may_not("change its repository", f"ecr:{action}", own)
    yield from _project(caller, part)
    yield caller.may_not("start another build", "codebuild:StartBuild", f"{PROJECT}/{part.replace('-', '')}Project")
    yield caller.may_not("start a training job", CREATE, training_job(INSIDE), asked(INSIDE))
    yield caller.may_not("pass a role", "iam:PassRole", execution_role(INSIDE), {**TO_SAGEMAKER})
    yield caller.may_not("write to the ledger", "dynamodb:UpdateItem", LEDGER)


def _project(caller: Caller, part: str) -> Iterator[Case]:
    """Yield the permissions of every project: its own log streams, and the event at the end of a build."""
    streams = f"arn:aws:logs:{HOME}:{ACCOUNT}:log-group:/traingrid/builds:log-stream"
    for action in ("CreateLogStream", "PutLogEvents"):
        yield caller.may("write its log", f"logs:{action}", f"{streams}:{part}/0123")
    yield caller.may_not("write another log", "logs:PutLogEvents", f"{streams}:Other/0123", breaks=RESOURCE)
    yield caller.may("report the end of a build", "events:PutEvents", BUS, {**OUR_EVENT})
    others: Context = {"events:source": ["aws.codebuild"]}
    yield caller.may_not(
        "put an event with another source",
        "events:PutEvents",
        BUS,
        others,
        breaks="ForAllValues:StringEquals events:source",
    )
    yield caller.may_not("put an event without a source", "events:PutEvents", BUS, breaks="Null events:source")
    home = BUS.replace("default", "traingrid")
    yield caller.may_not("put an event on the home bus", "events:PutEvents", home, {**OUR_EVENT}, breaks=RESOURCE)


def _other_regions() -> Iterator[Case]:
    there = repository("traingrid/training", region=FREE)
    for place in (there, THEIRS):
        yield wait.may("check for an image in a Region", "ecr:DescribeImages", place)
    elsewhere = repository("traingrid/training", region="eu-west-1")
    yield wait.may_not("check in a Region outside the grid", "ecr:DescribeImages", elsewhere, breaks=RESOURCE)
    for place in (there, THEIRS):
        yield wait.may_not("push an image", "ecr:PutImage", place)
    yield wait.may_not("get the registry's token", "ecr:GetAuthorizationToken", "*")
    yield training.may_not("push to another Region", "ecr:PutImage", there, breaks=RESOURCE)
    for caller in (training, orchestrator):
        yield caller.may_not("describe images in another Region", "ecr:DescribeImages", there, breaks=RESOURCE)
    yield from _project(wait, "ReplicationWait")


def _builder() -> Iterator[Case]:
    for part in ("OrchestratorBuild", "TrainingBuildgpu", "ReplicationWait"):
        yield builder.may("start a build", "codebuild:StartBuild", f"{PROJECT}/{part}Project")
        yield builder.may("read the result of a build", "codebuild:BatchGetBuilds", f"{PROJECT}/{part}Project")
    theirs = f"{PROJECT}/deploy-production"
    yield builder.may_not("start another project", "codebuild:StartBuild", theirs, breaks=RESOURCE)
    yield builder.may_not("read another project's builds", "codebuild:BatchGetBuilds", theirs, breaks=RESOURCE)
    for action in ("UpdateProject", "StopBuild"):
        yield builder.may_not("change a build", f"codebuild:{action}", f"{PROJECT}/OrchestratorBuildProject")
    for one in (OURS, THEIRS):
        yield builder.may("describe built images", "ecr:DescribeImages", one)
        yield builder.may_not("push an image", "ecr:PutImage", one)
    others = repository("somebody/training", region=HOME)
    yield builder.may_not("describe foreign images", "ecr:DescribeImages", others, breaks=RESOURCE)
