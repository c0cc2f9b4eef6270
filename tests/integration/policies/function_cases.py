"""Permissions of the Lambda functions: intake, recorder, reconciler, registrar, region guard and catalog follower."""

from collections.abc import Iterator

from localcloud.iam.request_keys import Context, tag_keys
from tests.integration.policies.case import ACTION, EXPLICITLY, RESOURCE, Caller, Case
from tests.integration.policies.child_cases import (
    CREATE,
    LEDGER,
    MANIFESTS,
    asked,
    execution_role,
    output,
    training_job,
)
from tests.integration.policies.grid import ACCOUNT, FREE, HOME, INSIDE
from traingrid import names

intake, recorder, reconciler, registrar, guard, follower = (
    Caller(role) for role in ("intake", "recorder", "reconciler", "registrar", "region guard", "follower")
)
LEADING = "ForAllValues:StringEquals dynamodb:LeadingKeys"
BATCH = f"arn:aws:batch:{HOME}:{ACCOUNT}"
QUEUE, DEFINITION = f"{BATCH}:job-queue/traingrid-shared", f"{BATCH}:job-definition/traingrid-orchestrator:7"
MINE = "arn:aws:s3:::mine-east"
TO_SAGEMAKER: Context = {"iam:PassedToService": "sagemaker.amazonaws.com"}


def cases() -> Iterator[Case]:
    for caller, part in (
        (intake, "IntakeAccept"),
        (recorder, "JobEventsRecord"),
        (reconciler, "ReconcilerSweep"),
        (Caller("image builder"), "BuilderBuild"),  # its other cases are in tests/integration/policies/build_cases.py
        (registrar, "DatasetsRegister"),
        (guard, "GuardAnswer"),
        (follower, "CatalogFollowerFollow"),
    ):
        yield from _of_every_function(caller, part)
    yield from _intake()
    yield from _submitting()
    yield from _recorder()
    yield from _reconciler()
    yield from _connecting()
    yield from _registrar()
    yield from _guard()
    yield from _follower()


def _of_every_function(caller: Caller, part: str) -> Iterator[Case]:
    log = f"arn:aws:logs:{HOME}:{ACCOUNT}:log-group:{part}Log:log-stream:2026/11/21"
    queue = f"arn:aws:sqs:{HOME}:{ACCOUNT}:{part}DeadLetters"
    for action in ("CreateLogStream", "PutLogEvents"):
        yield caller.may("write its log", f"logs:{action}", log)
    for action in ("SendMessage", "GetQueueAttributes", "GetQueueUrl"):
        yield caller.may("send dead letters", f"sqs:{action}", queue)
    for action in ("PutTraceSegments", "PutTelemetryRecords"):
        yield caller.may("send traces", f"xray:{action}", "*")
    yield caller.may_not("read traces", "xray:GetTraceSummaries", "*")
    others = log.replace(f"{part}Log", "somebody")
    yield caller.may_not("write another log", "logs:PutLogEvents", others, breaks=RESOURCE)
    yield caller.may_not("write to another queue", "sqs:SendMessage", f"{queue}2", breaks=RESOURCE)
    yield caller.may_not("purge dead letters", "sqs:PurgeQueue", queue)
    yield caller.may_not("start a training job", CREATE, training_job(INSIDE), asked(INSIDE))
    yield caller.may_not("pass a role", "iam:PassRole", execution_role(INSIDE), {**TO_SAGEMAKER})
    model, some = f"{output(INSIDE)}/0123abcd/0/output/model.tar.gz", caller in (intake, reconciler, registrar)
    yield caller.may_not("read a model", "s3:GetObject", model, breaks=RESOURCE if some else ACTION)
    broken = "Null dynamodb:LeadingKeys" if caller is reconciler else ACTION  # it deletes only items of one kind
    yield caller.may_not("delete from the ledger", "dynamodb:DeleteItem", LEDGER, breaks=broken)
    yield caller.may_not("delete the ledger", "dynamodb:DeleteTable", LEDGER)
    yield caller.may_not("delete a training job", "sagemaker:DeleteTrainingJob", training_job(INSIDE))


def _intake() -> Iterator[Case]:
    for action in ("s3:GetObject", "s3:GetObjectVersion"):
        yield intake.may("read a manifest", action, f"{MANIFESTS}/manifests/a b+c.csv")
    for key in ("submissions/0123abcd/jobs.jsonl", "manifests/x.csv.report.json"):
        yield intake.may(f"write {key}", "s3:PutObject", f"{MANIFESTS}/{key}")
    for key in ("manifests/x.csv", "by-hand/x.csv", "x"):
        yield intake.may_not(f"write {key}", "s3:PutObject", f"{MANIFESTS}/{key}", breaks=RESOURCE)
    yield intake.may_not("read a by-hand manifest", "s3:GetObject", f"{MANIFESTS}/by-hand/x.csv", breaks=RESOURCE)
    yield intake.may_not("list the bucket", "s3:ListBucket", MANIFESTS)
    yield intake.may_not("delete a manifest", "s3:DeleteObject", f"{MANIFESTS}/manifests/x.csv")
    for action in ("GetItem", "PutItem", "UpdateItem"):
        yield intake.may("claim a submission", f"dynamodb:{action}", LEDGER)
    yield intake.may_not("claim in another table", "dynamodb:PutItem", f"{LEDGER}2", breaks=RESOURCE)
    yield intake.may_not("stop a training job", "sagemaker:StopTrainingJob", training_job(INSIDE))


def _submitting() -> Iterator[Case]:
    tags, job = {names.TAG_GRID: "traingrid", names.TAG_SUBMISSION: "0123abcd"}, f"{BATCH}:job/0c5a3b1d"
    submit, tag = "batch:SubmitJob", "batch:TagResource"
    for resource in (QUEUE, DEFINITION, job):
        yield intake.may("submit an array", submit, resource, tag_keys(tags))
        yield intake.may("tag the array that it submits", tag, resource, tag_keys(tags))
        owner = tag_keys({**tags, "owner": "me"})
        yield intake.may_not("add other tags", tag, resource, owner, breaks="ForAllValues:StringEquals aws:TagKeys")
        yield intake.may_not("tag it without tags", tag, resource, breaks="Null aws:TagKeys")
    definition = f"{BATCH}:job-definition/somebody-else:1"
    for resource in (f"{QUEUE}2", definition, QUEUE.replace(HOME, "eu-west-1")):
        yield intake.may_not(f"submit to {resource[14:]}", submit, resource, tag_keys(tags), breaks=RESOURCE)
        yield intake.may_not(f"tag {resource[14:]}", tag, resource, tag_keys(tags), breaks=RESOURCE)
    yield intake.may("find an array that it has submitted", "batch:ListJobs", "*")
    yield intake.may_not("register a definition", "batch:RegisterJobDefinition", DEFINITION)
    yield intake.may_not("terminate a child", "batch:TerminateJob", job)


def _recorder() -> Iterator[Case]:
    for region in (INSIDE, FREE):
        for action in ("DescribeTrainingJob", "ListTags"):
            yield recorder.may(f"read how a job in {region} ended", f"sagemaker:{action}", training_job(region))
    theirs = training_job(INSIDE, "traingrid2-0123abcd-0-1")
    yield recorder.may_not("read another grid's job", "sagemaker:DescribeTrainingJob", theirs, breaks=RESOURCE)
    yield recorder.may_not("stop a training job", "sagemaker:StopTrainingJob", training_job(INSIDE))
    yield recorder.may("record a state", "dynamodb:UpdateItem", LEDGER)
    yield recorder.may_not("write to another table", "dynamodb:UpdateItem", f"{LEDGER}2", breaks=RESOURCE)
    for action in ("GetItem", "PutItem", "Scan"):
        yield recorder.may_not("access the ledger otherwise", f"dynamodb:{action}", LEDGER)
    yield recorder.may_not("submit an array", "batch:SubmitJob", QUEUE)


def _connecting() -> Iterator[Case]:
    """Yield the calls with which Lambda connects the reconciler to subnets, which its own code may not send.

    Only those of the code have a source function
    (https://docs.aws.amazon.com/lambda/latest/dg/permissions-source-function-arn.html).
    """
    ec2 = f"arn:aws:ec2:{HOME}:{ACCOUNT}"
    interface = f"{ec2}:network-interface/eni-0a1b2c3d"
    by_code: Context = {"lambda:SourceFunctionArn": f"arn:aws:lambda:{HOME}:{ACCOUNT}:function:sweep"}
    for action, resource in (
        ("CreateNetworkInterface", interface),
        ("CreateNetworkInterface", f"{ec2}:subnet/subnet-0a1b2c3d"),
        ("CreateNetworkInterface", f"{ec2}:security-group/sg-0a1b2c3d"),
        ("DescribeNetworkInterfaces", "*"),
        ("DescribeSubnets", "*"),
        ("DeleteNetworkInterface", interface),
        ("AssignPrivateIpAddresses", interface),
        ("UnassignPrivateIpAddresses", interface),
    ):
        yield reconciler.may("be connected to subnets by Lambda", f"ec2:{action}", resource)
        key = "Null lambda:SourceFunctionArn"
        denied = {"breaks": key, "expected": EXPLICITLY}
        yield reconciler.may_not("change networks itself", f"ec2:{action}", resource, by_code, **denied)


def _reconciler() -> Iterator[Case]:
    yield reconciler.may("find training jobs", "sagemaker:ListTrainingJobs", "*")
    for region in (INSIDE, FREE):
        for action in ("DescribeTrainingJob", "StopTrainingJob", "ListTags"):
            yield reconciler.may(f"describe or stop one in {region}", f"sagemaker:{action}", training_job(region))
    theirs = training_job(INSIDE, "my-own-job")
    yield reconciler.may_not("stop a foreign one", "sagemaker:StopTrainingJob", theirs, breaks=RESOURCE)
    abroad = training_job("eu-west-1")
    yield reconciler.may_not("stop one in another Region", "sagemaker:StopTrainingJob", abroad, breaks=RESOURCE)
    yield reconciler.may_not("change one", "sagemaker:UpdateTrainingJob", training_job(INSIDE))
    yield reconciler.may_not("tag one", "sagemaker:AddTags", training_job(INSIDE))
    for action in ("Scan", "Query", "GetItem", "PutItem", "UpdateItem"):
        yield reconciler.may("close lines", f"dynamodb:{action}", LEDGER)
    mark: Context = {"dynamodb:LeadingKeys": ["open"]}
    job: Context = {"dynamodb:LeadingKeys": ["0123abcd"]}
    yield reconciler.may("settle a submission", "dynamodb:DeleteItem", LEDGER, mark)
    yield reconciler.may_not("delete a job", "dynamodb:DeleteItem", LEDGER, job, breaks=LEADING)
    yield reconciler.may_not("read another table", "dynamodb:Scan", f"{LEDGER}2", breaks=RESOURCE)
    for action in ("s3:GetObject", "s3:GetObjectVersion"):
        yield reconciler.may("read a submission", action, f"{MANIFESTS}/submissions/0123abcd/jobs.jsonl")
    yield reconciler.may("distinguish a missing submission from a forbidden one", "s3:ListBucket", MANIFESTS)
    yield reconciler.may_not("list results", "s3:ListBucket", output(INSIDE), breaks=RESOURCE)
    yield reconciler.may_not("read a manifest", "s3:GetObject", f"{MANIFESTS}/manifests/x.csv", breaks=RESOURCE)
    yield reconciler.may_not("write a submission", "s3:PutObject", f"{MANIFESTS}/submissions/0123abcd/jobs.jsonl")
    for action in ("ListJobs", "DescribeJobs"):
        yield reconciler.may("find lines without a child", f"batch:{action}", "*")
    yield reconciler.may_not("submit an array", "batch:SubmitJob", QUEUE)
    topic = f"arn:aws:sns:{HOME}:{ACCOUNT}:NotificationsTopic"
    yield reconciler.may("publish notifications", "sns:Publish", topic)
    for other in (f"{topic}2", topic.replace("Notifications", "Alarms"), topic.replace(HOME, "eu-west-1")):
        yield reconciler.may_not("publish to another topic", "sns:Publish", other, breaks=RESOURCE)
    for action in ("Subscribe", "SetTopicAttributes", "DeleteTopic", "CreateTopic"):
        yield reconciler.may_not("change the topic", f"sns:{action}", topic)


def _registrar() -> Iterator[Case]:
    for bucket in (*(f"arn:aws:s3:::traingrid-data-{ACCOUNT}-{region}" for region in (INSIDE, FREE)), MINE):
        yield registrar.may("read a marker", "s3:GetObject", f"{bucket}/oslo/day-1/dataset.json")
        yield registrar.may("count a dataset's objects", "s3:ListBucket", bucket)
        yield registrar.may_not("read data", "s3:GetObject", f"{bucket}/oslo/train/a.tfrecord", breaks=RESOURCE)
        yield registrar.may_not("write data", "s3:PutObject", f"{bucket}/oslo/dataset.json", breaks=RESOURCE)
        yield registrar.may_not("delete data", "s3:DeleteObject", f"{bucket}/oslo/dataset.json")
    yield registrar.may_not("list results", "s3:ListBucket", output(INSIDE), breaks=RESOURCE)
    yield registrar.may_not("list manifests", "s3:ListBucket", MANIFESTS, breaks=RESOURCE)
    for key in ("datasets/bucket/oslo/dataset.json.report.json", "manifests/on_dataset/night/oslo/1.jsonl"):
        yield registrar.may(f"write {key}", "s3:PutObject", f"{MANIFESTS}/{key}")
    for key in ("manifests/x.csv", "manifests/on_dataset/other/oslo/1.jsonl", "submissions/0123abcd/jobs.jsonl"):
        yield registrar.may_not(f"write {key}", "s3:PutObject", f"{MANIFESTS}/{key}", breaks=RESOURCE)
    datasets: Context = {"dynamodb:LeadingKeys": ["datasets"]}
    job: Context = {"dynamodb:LeadingKeys": ["0123abcd"]}
    for action in ("GetItem", "PutItem", "UpdateItem"):
        yield registrar.may("record a dataset", f"dynamodb:{action}", LEDGER, datasets)
        yield registrar.may_not("access a job", f"dynamodb:{action}", LEDGER, job, breaks=LEADING)
        missing = "Null dynamodb:LeadingKeys"
        yield registrar.may_not("access an unnamed item", f"dynamodb:{action}", LEDGER, breaks=missing)
    yield registrar.may_not("read the ledger", "dynamodb:Scan", LEDGER)
    yield registrar.may_not("write to another table", "dynamodb:PutItem", f"{LEDGER}2", datasets, breaks=RESOURCE)
    yield registrar.may_not("submit an array", "batch:SubmitJob", QUEUE)


def _guard() -> Iterator[Case]:
    stacks = f"arn:aws:cloudformation:{HOME}:{ACCOUNT}:stack"
    for stack in ("traingrid-control", "traingrid-guard"):
        seen = f"{stacks}/{stack}/0c5a3b1d"
        yield guard.may("read the status of a deployment", "cloudformation:DescribeStacks", seen)
    theirs = f"{stacks}/somebody-else/0c5a3b1d"
    yield guard.may_not("describe another stack", "cloudformation:DescribeStacks", theirs, breaks=RESOURCE)
    yield guard.may_not("delete a stack", "cloudformation:DeleteStack", f"{stacks}/traingrid-control/0c5a3b1d")
    for action in ("GetItem", "Query", "Scan"):
        yield guard.may("find lines that have not ended", f"dynamodb:{action}", LEDGER)
        yield guard.may_not("read another table", f"dynamodb:{action}", f"{LEDGER}2", breaks=RESOURCE)
    for action in ("PutItem", "UpdateItem"):
        yield guard.may_not("write to the ledger", f"dynamodb:{action}", LEDGER)
    yield guard.may("read the Region of a line", "s3:GetObject", f"{MANIFESTS}/submissions/0123abcd/jobs.jsonl")
    yield guard.may("distinguish a missing submission from a forbidden one", "s3:ListBucket", MANIFESTS)
    yield guard.may_not("read a manifest", "s3:GetObject", f"{MANIFESTS}/manifests/x.csv", breaks=RESOURCE)
    yield guard.may_not("describe a Batch job", "batch:DescribeJobs", "*")
    yield guard.may("list running training jobs", "sagemaker:ListTrainingJobs", "*")
    yield guard.may("list jobs in a service queue", "batch:ListServiceJobs", "*")
    yield guard.may_not("terminate a service job", "batch:TerminateServiceJob", f"{BATCH}:service-job/0c5a3b1d")
    yield guard.may_not("stop a training job", "sagemaker:StopTrainingJob", training_job(INSIDE))
    yield guard.may_not("terminate a child", "batch:TerminateJob", f"{BATCH}:job/0c5a3b1d")


def _follower() -> Iterator[Case]:
    stream, cluster = f"{LEDGER}/stream/2026-11-23T10:00:00.000", f"arn:aws:dsql:{HOME}:{ACCOUNT}:cluster"
    for action in ("DescribeStream", "GetRecords", "GetShardIterator"):
        yield follower.may("read the ledger's stream", f"dynamodb:{action}", stream)
        other = stream.replace("ledger", "another")
        yield follower.may_not("read another stream", f"dynamodb:{action}", other, breaks=RESOURCE)
    yield follower.may("find the stream", "dynamodb:ListStreams", "*")
    for action in ("GetItem", "Query"):
        yield follower.may("read the ledger", f"dynamodb:{action}", LEDGER)
        yield follower.may_not("read another table", f"dynamodb:{action}", f"{LEDGER}2", breaks=RESOURCE)
    for action in ("PutItem", "UpdateItem", "Scan"):
        yield follower.may_not("write to the ledger, or read all of it", f"dynamodb:{action}", LEDGER)
    yield follower.may("read a line", "s3:GetObject", f"{MANIFESTS}/submissions/0123abcd/jobs.jsonl")
    yield follower.may("distinguish a missing submission from a forbidden one", "s3:ListBucket", MANIFESTS)
    yield follower.may_not("read a manifest", "s3:GetObject", f"{MANIFESTS}/manifests/x.csv", breaks=RESOURCE)
    yield follower.may_not("write to the manifest bucket", "s3:PutObject", f"{MANIFESTS}/submissions/0123abcd/x")
    yield follower.may("connect to the catalog", "dsql:DbConnect", f"{cluster}/CatalogCluster")
    yield follower.may_not("connect to another cluster", "dsql:DbConnect", f"{cluster}/other", breaks=RESOURCE)
    yield follower.may_not("connect as the admin", "dsql:DbConnectAdmin", f"{cluster}/CatalogCluster")
    yield follower.may_not("stop a training job", "sagemaker:StopTrainingJob", training_job(INSIDE))
