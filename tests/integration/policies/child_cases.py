"""Permissions of a Batch child, and requests that break exactly one of their rules."""

from collections.abc import Iterator
from typing import Any

from localcloud.iam.request_keys import Context, file_system_keys, training_job_keys
from tests.integration.policies.case import EXPLICITLY, IMPLICITLY, RESOURCE, Caller, Case
from tests.integration.policies.grid import ACCOUNT, EFS, FREE, GROUPS, HOME, INSIDE, LUSTRE, PLAN, SUBNETS, the_grid
from traingrid import names
from traingrid.backends.sagemaker.request import confined, fingerprint, training_job_request
from traingrid.grid.deployment import Deployment
from traingrid.job.ownership import tags_of
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

CREATE = "sagemaker:CreateTrainingJob"
COPY_SOURCE = "s3:x-amz-copy-source"
LEDGER = f"arn:aws:dynamodb:{HOME}:{ACCOUNT}:table/{names.ledger('traingrid')}"
MANIFESTS = f"arn:aws:s3:::traingrid-manifests-{ACCOUNT}-{HOME}"

child = Caller("child")

Value = str | list[str]
"""The value of a condition key."""
_ONE_OF = "ForAllValues:StringEquals"


def training_job(region: str, name: str = "traingrid-0123abcd-0-1") -> str:
    return f"arn:aws:sagemaker:{region}:{ACCOUNT}:training-job/{name}"


def training_plan(region: str, name: str = PLAN) -> str:
    return f"arn:aws:sagemaker:{region}:{ACCOUNT}:training-plan/{name}"


def execution_role(region: str, grid: str = "traingrid") -> str:
    return f"arn:aws:iam::{ACCOUNT}:role/{grid}-execution-{region}"


def output(region: str) -> str:
    return f"arn:aws:s3:::traingrid-output-{ACCOUNT}-{region}"


def data_of(region: str) -> str:
    return output(region).replace("output", "data")


def copied_from(bucket: str) -> Context:
    """Return the condition key of a copy of an object, as boto3 names its source."""
    return {COPY_SOURCE: f"{bucket.removeprefix('arn:aws:s3:::')}/campaign/train/a"}


def asked(region: str) -> Context:
    """Return the condition keys of a child's actual request, for a line with a user's tag."""
    grid = the_grid()
    deployment = Deployment(
        grid=grid, account=ACCOUNT, table="", manifest_bucket="", job_queue="queue", job_definition="definition"
    )
    data = f"s3://traingrid-data-{ACCOUNT}-{region}/campaign"
    lines = parse(f"region,s3_uri,tag.team\n{region},{data},perception\n".encode(), deployment)
    (job,) = jobs_of_lines(lines, deployment, "0123abcd")
    role = deployment.execution_role_arn(region)
    plain = training_job_request("traingrid-0123abcd-0-1", job, role, {})
    tags = tags_of(grid.name, "0123abcd", 0, fingerprint(plain))
    request = training_job_request("traingrid-0123abcd-0-1", job, role, tags)
    return training_job_keys(confined(request, grid.training, grid.regions[region]))


def changed(region: str, **changes: Any) -> Context:
    """Return the keys of a child's request with changes; None removes a key, and the first "_" stands for ":"."""
    keys = {key.replace("_", ":", 1): value for key, value in changes.items()}
    return {key: value for key, value in {**asked(region), **keys}.items() if value is not None}


def cases() -> Iterator[Case]:
    yield from without_copies()
    yield from _copying()
    yield from _copying_checkpoints()


def without_copies() -> Iterator[Case]:
    """Yield the cases of a child that copies nothing, as in a Region of another account."""
    yield from _creating()
    yield from _creating_otherwise()
    yield from _training_jobs()
    yield from _passing()
    yield from _reading_and_writing()


def _copying() -> Iterator[Case]:
    """Yield the calls of a copy, because the grid has `moves`: from `INSIDE` to `FREE`, whose data stays there."""
    source, target, foreign = data_of(INSIDE), data_of(FREE), "arn:aws:s3:::mine-east"
    for bucket in (source, target, foreign):
        yield child.may("read data to copy, or its copy", "s3:GetObject", f"{bucket}/campaign/train/a")
    copy = f"{target}/copies/day1/train/a"
    for bucket in (source, foreign):
        yield child.may(f"copy data of {bucket[13:]}", "s3:PutObject", copy, copied_from(bucket))
    yield child.may("begin and complete an upload in parts", "s3:PutObject", copy)
    key = f"StringLikeIfExists {COPY_SOURCE}"
    for bucket in ("arn:aws:s3:::theirs", data_of("eu-west-1"), data_of(HOME).replace("data", "manifests")):
        yield child.may_not(f"copy objects of {bucket[13:]}", "s3:PutObject", copy, copied_from(bucket), breaks=key)
    for other in (f"/{source[13:]}/a", f"arn:aws:s3:{INSIDE}:{ACCOUNT}:accesspoint/a/object/a"):
        keys: Context = {COPY_SOURCE: other}
        yield child.may_not(f"copy {other}", "s3:PutObject", copy, keys, breaks=key)
    out, stays = f"{source}/copies/day1/train/a", copied_from(target)
    yield child.may_not("copy data that must stay in its Region", "s3:PutObject", out, stays, breaks=RESOURCE)
    for action in ("s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"):
        yield child.may("write a copy in parts", action, copy)
    for action in ("s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"):
        yield child.may_not("write to your bucket", action, f"{foreign}/campaign/train/a", breaks=RESOURCE)
    yield child.may("find unfinished copies", "s3:ListBucketMultipartUploads", target)
    yield child.may_not("find those of your bucket", "s3:ListBucketMultipartUploads", foreign, breaks=RESOURCE)
    yield child.may_not("delete a copy", "s3:DeleteObject", copy, breaks=RESOURCE)
    yield from _copying_models(key)
    abroad = f"{data_of('eu-west-1')}/campaign/train/a"
    yield child.may_not("read data of a Region outside the grid", "s3:GetObject", abroad, breaks=RESOURCE)


def _copying_models(key: str) -> Iterator[Case]:
    """Yield the calls of a copy of a model, with which a job in another Region begins, from `INSIDE` to `FREE`."""
    model = "0123abcd/0/traingrid-0123abcd-0-1/output/model.tar.gz"
    source, copy = f"{output(INSIDE)}/{model}", f"{output(FREE)}/initial-models/{model}"
    named: Context = {COPY_SOURCE: source.removeprefix("arn:aws:s3:::")}
    for one in (source, copy):
        yield child.may("read a model to copy, or its copy", "s3:GetObject", one)
    yield child.may("copy a model", "s3:PutObject", copy, named)
    yield child.may("find unfinished copies of models", "s3:ListBucketMultipartUploads", output(FREE))
    for action in ("s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"):
        yield child.may("write a copy of a model in parts", action, copy)
    other: Context = {COPY_SOURCE: f"{output('eu-west-1')[13:]}/{model}"}
    yield child.may_not("copy a model of a Region outside the grid", "s3:PutObject", copy, other, breaks=key)
    checkpoint: Context = {COPY_SOURCE: f"{output(INSIDE)[13:]}/0123abcd/0/checkpoints/a"}
    yield child.may_not("copy a checkpoint as a model", "s3:PutObject", copy, checkpoint, breaks=key)
    stays: Context = {COPY_SOURCE: f"{output(FREE)[13:]}/{model}"}
    out = f"{output(INSIDE)}/initial-models/{model}"
    yield child.may_not("copy a model that must stay in its Region", "s3:PutObject", out, stays, breaks=RESOURCE)
    for text, other_object in (
        ("replace a model", f"{output(FREE)}/{model}"),
        ("write another object as a copy", f"{output(FREE)}/initial-models/a"),
    ):
        yield child.may_not(text, "s3:PutObject", other_object, named, breaks=RESOURCE)
    results = f"{output(INSIDE)}/0123abcd/0/traingrid-0123abcd-0-1/output/output.tar.gz"
    yield child.may_not("read other results", "s3:GetObject", results, breaks=RESOURCE)


def _copying_checkpoints() -> Iterator[Case]:
    """Yield the calls of a copy of a checkpoint from `FREE` to `INSIDE`: the other direction than that of data."""
    name = "0123abcd/0/checkpoints/checkpoint-000001-step-000000001/state.json"
    source, copy = f"{output(FREE)}/{name}", f"{output(INSIDE)}/{name}"
    named: Context = {COPY_SOURCE: source.removeprefix("arn:aws:s3:::")}
    for checkpoint in (source, copy):
        yield child.may("read a checkpoint to copy, or its copy", "s3:GetObject", checkpoint)
    yield child.may("copy a checkpoint", "s3:PutObject", copy, named)
    yield child.may("begin and complete an upload of a checkpoint", "s3:PutObject", copy)
    yield child.may("find unfinished copies of checkpoints", "s3:ListBucketMultipartUploads", output(INSIDE))
    for action in ("s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"):
        yield child.may("write a copy of a checkpoint in parts", action, copy)
        yield child.may_not("write others in parts", action, f"{output(INSIDE)}/0123abcd/0/a", breaks=RESOURCE)
    key = f"StringLikeIfExists {COPY_SOURCE}"
    for other in (f"{output(FREE)}/0123abcd/0/a", f"{data_of(FREE)}/campaign/a", f"{output('eu-west-1')}/{name}"):
        keys: Context = {COPY_SOURCE: other.removeprefix("arn:aws:s3:::")}
        yield child.may_not(f"copy {other[13:]} as a checkpoint", "s3:PutObject", copy, keys, breaks=key)
    stays: Context = {COPY_SOURCE: copy.removeprefix("arn:aws:s3:::")}
    yield child.may_not("copy a checkpoint that must stay", "s3:PutObject", source, stays, breaks=RESOURCE)
    results = f"{output(INSIDE)}/0123abcd/0/traingrid-0123abcd-0-1/output/output.tar.gz"
    yield child.may_not("write other results", "s3:PutObject", results, named, breaks=RESOURCE)
    yield child.may("delete a copy of a checkpoint", "s3:DeleteObject", copy)
    yield child.may_not("delete an earlier version of it", "s3:DeleteObjectVersion", copy)
    for result in (results, results.replace("output.tar.gz", "model.tar.gz")):
        yield child.may_not("delete other results", "s3:DeleteObject", result, breaks=RESOURCE)
    yield child.may_not("delete a checkpoint where none is copied", "s3:DeleteObject", source, breaks=RESOURCE)
    abroad = f"{output('eu-west-1')}/{name}"
    yield child.may_not("read a checkpoint outside the grid", "s3:GetObject", abroad, breaks=RESOURCE)


def _creating() -> Iterator[Case]:
    job = training_job(INSIDE)
    for region in (INSIDE, FREE):
        yield child.may(f"create a training job in {region}", CREATE, training_job(region), asked(region))
    other = changed(INSIDE, sagemaker_InstanceTypes=["ml.p4d.24xlarge"])
    yield child.may("create one with another allowed type", CREATE, job, other)
    yield child.may("create one in one of the subnets", CREATE, job, changed(INSIDE, sagemaker_VpcSubnets=SUBNETS[:1]))
    yield child.may(
        "create one with a runtime of two days", CREATE, job, changed(INSIDE, sagemaker_MaxRuntimeInSeconds="172800")
    )
    yield child.may("create one without a warm pool", CREATE, job, changed(INSIDE, sagemaker_KeepAlivePeriod="0"))
    yield child.may("create one without a shell", CREATE, job, changed(INSIDE, sagemaker_EnableRemoteDebug="false"))
    elsewhere = training_job("eu-west-1")
    yield child.may_not("create one in a Region outside the grid", CREATE, elsewhere, asked(INSIDE), breaks=RESOURCE)
    for name in ("traingrid2-0123abcd-0-1", "my-own-job", "traingridx"):
        theirs = training_job(INSIDE, name)
        yield child.may_not(f"create {name} of another grid", CREATE, theirs, asked(INSIDE), breaks=RESOURCE)
    yield from _with_a_training_plan()
    yield from _with_a_file_system()
    abroad = training_job(INSIDE).replace(ACCOUNT, "999999999999")
    yield child.may_not("create one in another account", CREATE, abroad, asked(INSIDE), breaks=RESOURCE)


def mounting(file_system: str, access: str = "ro") -> Context:
    """Return the keys of a request's channel on a file system."""
    kind, path = ("EFS", "/train") if file_system == EFS else ("FSxLustre", "/fsx/train")
    names_of = {"FileSystemId": file_system, "FileSystemType": kind, "DirectoryPath": path}
    return file_system_keys(names_of | {"FileSystemAccessMode": access})


def _with_a_file_system() -> Iterator[Case]:
    job = training_job(INSIDE)
    for mine in (EFS, LUSTRE):
        yield child.may(f"create one that mounts {mine}", CREATE, job, asked(INSIDE) | mounting(mine))
    for file_system, access, key in (
        ("fs-0123456789abcdef2", "ro", "FileSystemId"),
        (EFS, "rw", "FileSystemAccessMode"),
    ):
        keys, breaks = asked(INSIDE) | mounting(file_system, access), f"StringEqualsIfExists sagemaker:{key}"
        yield child.may_not(f"create one that mounts {file_system} {access}", CREATE, job, keys, breaks=breaks)
    elsewhere, breaks = asked(FREE) | mounting(EFS), "Null sagemaker:FileSystemId"
    yield child.may_not(f"mount in {FREE}", CREATE, training_job(FREE), elsewhere, breaks=breaks)


def _with_a_training_plan() -> Iterator[Case]:
    """Yield the cases of the further resources of a request with a training plan: the plan and its capacity."""
    plan, capacity = training_plan(INSIDE), f"arn:aws:sagemaker:{INSIDE}:{ACCOUNT}:reserved-capacity/abcdefgh"
    for resource in (plan, capacity):
        yield child.may("use the grid's training plan", CREATE, resource, asked(INSIDE))
    other = changed(INSIDE, sagemaker_MaxRuntimeInSeconds="172801")
    limit = "NumericLessThanEquals sagemaker:MaxRuntimeInSeconds"
    yield child.may_not("use it with a longer runtime", CREATE, plan, other, breaks=limit)
    foreign = training_plan(INSIDE, "december")
    yield child.may_not("use another training plan", CREATE, foreign, asked(INSIDE), breaks=RESOURCE)
    yield child.may_not("buy a training plan", "sagemaker:CreateTrainingPlan", plan)


def _creating_otherwise() -> Iterator[Case]:
    """Yield requests of which exactly one key violates grid.yaml, for each such key."""
    yield from _with_a_wrong_value()
    yield from _without_a_value()
    yield from _with_a_network_that_the_region_does_not_have()
    yield from _with_a_feature_that_is_always_denied()


def _with_a_wrong_value() -> Iterator[Case]:
    wrong: tuple[tuple[str, str, str, Value], ...] = (
        ("with a type that is not allowed", _ONE_OF, "InstanceTypes", ["ml.p5.48xlarge"]),
        ("with an allowed type and one that is not", _ONE_OF, "InstanceTypes", ["ml.g5.48xlarge", "ml.p5.48xlarge"]),
        ("in an unknown subnet", _ONE_OF, "VpcSubnets", ["subnet-00000000"]),
        ("in an additional unknown subnet", _ONE_OF, "VpcSubnets", [*SUBNETS, "subnet-00000000"]),
        ("in an unknown security group", _ONE_OF, "VpcSecurityGroupIds", ["sg-00000000"]),
        ("without encrypted traffic", "Bool", "InterContainerTrafficEncryption", "false"),
        ("without isolation", "Bool", "NetworkIsolation", "false"),
        ("with a runtime of two days and a second", "NumericLessThanEquals", "MaxRuntimeInSeconds", "172801"),
    )
    for phrase, operator, key, value in wrong:
        yield _not_created(phrase, operator, f"sagemaker:{key}", value)
    yield _not_created("with another grid's tag", "StringEquals", f"aws:RequestTag/{names.TAG_GRID}", "other")


def _without_a_value() -> Iterator[Case]:
    required = {
        **dict.fromkeys(("InstanceTypes", "VpcSubnets", "VpcSecurityGroupIds"), "Null"),
        **dict.fromkeys(("InterContainerTrafficEncryption", "NetworkIsolation"), "Bool"),
        "MaxRuntimeInSeconds": "NumericLessThanEquals",
    }
    for key, operator in required.items():
        yield _not_created(f"without {key}", operator, f"sagemaker:{key}", None)
    yield _not_created("without the grid's tag", "StringEquals", f"aws:RequestTag/{names.TAG_GRID}", None)
    for tag in (names.TAG_SUBMISSION, names.TAG_JOB, names.TAG_FINGERPRINT):
        yield _not_created(f"without {tag}", "Null", f"aws:RequestTag/{tag}", None)


def _with_a_network_that_the_region_does_not_have() -> Iterator[Case]:
    for key, value in (("VpcSubnets", SUBNETS), ("VpcSecurityGroupIds", GROUPS)):
        yield _not_created(f"with {key} in a Region without a VPC", "Null", f"sagemaker:{key}", value, FREE)


def _with_a_feature_that_is_always_denied() -> Iterator[Case]:
    never = (
        ("a shell", "Bool", "EnableRemoteDebug", "true"),
        ("a warm pool of a second", "NumericGreaterThan", "KeepAlivePeriod", "1"),
        ("a warm pool of an hour", "NumericGreaterThan", "KeepAlivePeriod", "3600"),
    )
    for feature, operator, key, value in never:
        for region in (INSIDE, FREE):
            phrase = f"with {feature} in {region}"
            yield _not_created(phrase, operator, f"sagemaker:{key}", value, region, expected=EXPLICITLY)


def _not_created(
    phrase: str, operator: str, key: str, value: Value | None, region: str = INSIDE, *, expected: str = IMPLICITLY
) -> Case:
    """Return the case of a child's request in which one key has another value, or no value if None."""
    context = {name: one for name, one in {**asked(region), key: value}.items() if one is not None}
    breaks = f"{operator} {key}"
    return child.may_not(
        f"create one {phrase}", CREATE, training_job(region), context, breaks=breaks, expected=expected
    )


def _training_jobs() -> Iterator[Case]:
    for action in ("DescribeTrainingJob", "StopTrainingJob", "ListTags"):
        for region in (INSIDE, FREE):
            yield child.may(f"use the grid's job in {region}", f"sagemaker:{action}", training_job(region))
        theirs = training_job(INSIDE, "traingrid2-0123abcd-0-1")
        yield child.may_not("use another grid's job", f"sagemaker:{action}", theirs, breaks=RESOURCE)
        longer = training_job(INSIDE, "traingrid-eu-0123abcd-0-1")
        yield child.may_not("use the job of a grid with a longer name", f"sagemaker:{action}", longer, breaks=RESOURCE)
    for action in ("UpdateTrainingJob", "DeleteTrainingJob"):
        yield child.may_not("change its own job", f"sagemaker:{action}", training_job(INSIDE), expected=EXPLICITLY)
    tagging, tags = {"sagemaker:TaggingAction": "CreateTrainingJob"}, "sagemaker:AddTags"
    yield child.may("tag a job when creating it", tags, training_job(INSIDE), {**tagging})
    theirs = training_job(INSIDE, "my-own-job")
    yield child.may_not("tag a foreign job", tags, theirs, {**tagging}, breaks=RESOURCE)
    key = "StringEquals sagemaker:TaggingAction"
    yield child.may_not("tag a running job", tags, training_job(INSIDE), breaks=key)
    model: Context = {"sagemaker:TaggingAction": "CreateModel"}
    yield child.may_not("tag when creating another resource", tags, training_job(INSIDE), model, breaks=key)
    yield child.may_not("list all training jobs", "sagemaker:ListTrainingJobs", "*")
    for what, kind in (("ProcessingJob", "processing-job"), ("TransformJob", "transform-job")):
        named = f"arn:aws:sagemaker:{INSIDE}:{ACCOUNT}:{kind}/traingrid-0123abcd-0-1"
        yield child.may_not("create a job of another kind", f"sagemaker:Create{what}", named)


def _passing() -> Iterator[Case]:
    action, to_sagemaker = "iam:PassRole", {"iam:PassedToService": "sagemaker.amazonaws.com"}
    for region in (INSIDE, FREE):
        yield child.may("pass a Region's execution role to SageMaker", action, execution_role(region), {**to_sagemaker})
    key = "StringEquals iam:PassedToService"
    for service in ("ec2", "lambda", "ecs-tasks"):
        to: Context = {"iam:PassedToService": f"{service}.amazonaws.com"}
        yield child.may_not(f"pass it to {service}", action, execution_role(INSIDE), to, breaks=key)
    yield child.may_not("pass it to an unnamed service", action, execution_role(INSIDE), breaks=key)
    for role in (execution_role(INSIDE, "other"), f"arn:aws:iam::{ACCOUNT}:role/Admin", execution_role("eu-west-1")):
        yield child.may_not(f"pass {role.rpartition('/')[2]}", action, role, {**to_sagemaker}, breaks=RESOURCE)
    yield child.may_not("assume it", "sts:AssumeRole", execution_role(INSIDE))


def _reading_and_writing() -> Iterator[Case]:
    for folder in ("submissions", "by-hand"):
        for action in ("s3:GetObject", "s3:GetObjectVersion"):
            yield child.may(f"read its line in {folder}", action, f"{MANIFESTS}/{folder}/x.jsonl")
    yield child.may_not("read a manifest", "s3:GetObject", f"{MANIFESTS}/manifests/x.csv", breaks=RESOURCE)
    new: Context = {"s3:if-none-match": "*"}
    for file in ("jobs.jsonl", "jobs.index"):
        key = f"{MANIFESTS}/submissions/0123abcd/{file}"
        yield child.may(f"write a new {file}", "s3:PutObject", key, new)
        yield child.may_not(f"replace {file}", "s3:PutObject", key, breaks="Null s3:if-none-match")
        copied = new | copied_from(data_of(INSIDE))
        yield child.may_not(f"copy data to {file}", "s3:PutObject", key, copied, breaks=f"Null {COPY_SOURCE}")
    for key in ("submissions/0123abcd/retry-1.jsonl", "manifests/x.csv", "by-hand/x.csv"):
        yield child.may_not(f"write {key}", "s3:PutObject", f"{MANIFESTS}/{key}", new, breaks=RESOURCE)
    for action in ("GetItem", "PutItem", "Query", "UpdateItem"):
        yield child.may("read and write its item", f"dynamodb:{action}", LEDGER)
    theirs = LEDGER.replace(names.ledger("traingrid"), "Orders")
    yield child.may_not("write to another table", "dynamodb:PutItem", theirs, breaks=RESOURCE)
    for action in ("Scan", "DeleteItem", "DeleteTable"):
        yield child.may_not("scan or delete the ledger", f"dynamodb:{action}", LEDGER)
    for region in (INSIDE, FREE):
        mine = f"{output(region)}/0123abcd/0/traingrid-0123abcd-0-1/input/train_0.manifest"
        for action in ("s3:GetObject", "s3:PutObject"):
            yield child.may("read and write its training job's ManifestFiles", action, mine)
        key = f"Null {COPY_SOURCE}"
        yield child.may_not("copy data to such a name", "s3:PutObject", mine, copied_from(data_of(region)), breaks=key)
        yield child.may("list results", "s3:ListBucket", output(region))
        yield child.may("list data", "s3:ListBucket", data_of(region))
    yield child.may("list data in a bucket of grid.yaml", "s3:ListBucket", "arn:aws:s3:::mine-east")
    yield child.may_not("list another bucket", "s3:ListBucket", "arn:aws:s3:::theirs", breaks=RESOURCE)
    model = f"{output(INSIDE)}/0123abcd/0/traingrid-0123abcd-0-1/output/model.tar.gz"
    yield child.may_not("write a model", "s3:PutObject", model, breaks=RESOURCE)
    group = f"arn:aws:logs:{INSIDE}:{ACCOUNT}:log-group:/aws/sagemaker/TrainingJobs"
    stream = f"{group}:log-stream:traingrid-0123abcd-0-1/algo-1-1700000000"
    yield child.may("read its training job's log", "logs:GetLogEvents", stream)
    yield child.may("list log streams", "logs:DescribeLogStreams", f"{group}:log-stream:")
    others = stream.replace("traingrid-", "somebody-")
    yield child.may_not("read a foreign log", "logs:GetLogEvents", others, breaks=RESOURCE)
    yield child.may_not("write to its training job's log", "logs:PutLogEvents", stream)
    yield child.may_not(
        "submit more children", "batch:SubmitJob", f"arn:aws:batch:{HOME}:{ACCOUNT}:job-queue/traingrid-shared"
    )
