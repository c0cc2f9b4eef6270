"""Permissions of a training job's code, and of the services that start children and forward events."""

from collections.abc import Iterator

from localcloud.iam.request_keys import Context
from tests.integration.policies.case import RESOURCE, Caller, Case
from tests.integration.policies.child_cases import (
    CREATE,
    LEDGER,
    MANIFESTS,
    asked,
    execution_role,
    output,
    training_job,
)
from tests.integration.policies.function_cases import QUEUE, TO_SAGEMAKER
from tests.integration.policies.grid import ACCOUNT, EFS, FREE, GROUPS, HOME, INSIDE, SUBNETS

container, start, flows, forwarding = map(Caller, ("training job", "start of a child", "flow logs", "event forwarding"))
PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
EC2 = f"arn:aws:ec2:{INSIDE}:{ACCOUNT}"
INTERFACE = f"{EC2}:network-interface/eni-0123456789abcdef0"
DATA = f"arn:aws:s3:::traingrid-data-{ACCOUNT}-{INSIDE}"


def repository(name: str, account: str = ACCOUNT, region: str = INSIDE) -> str:
    return f"arn:aws:ecr:{region}:{account}:repository/{name}"


def cases() -> Iterator[Case]:
    yield from _data()
    yield from _control_plane()
    yield from _images()
    yield from _observation()
    yield from _network()
    yield from _file_systems()
    yield from _services()


def _file_systems() -> Iterator[Case]:
    mount, through = "elasticfilesystem:ClientMount", "elasticfilesystem:AccessedViaMountTarget"
    mine = f"arn:aws:elasticfilesystem:{INSIDE}:{ACCOUNT}:file-system/{EFS}"
    via_target: Context = {through: "true"}
    otherwise: tuple[Context, ...] = ({through: "false"}, {})
    yield container.may("read the grid's EFS file system", mount, mine, via_target)
    for keys in otherwise:
        yield container.may_not(f"mount it otherwise: {keys}", mount, mine, keys, breaks=f"Bool {through}")
    other = mine.replace(EFS, "fs-0123456789abcdef2")
    yield container.may_not("mount another file system", mount, other, via_target, breaks=RESOURCE)
    for action in ("ClientWrite", "ClientRootAccess"):
        yield container.may_not("write to it", f"elasticfilesystem:{action}", mine, via_target)


def _data() -> Iterator[Case]:
    for bucket in (DATA, "arn:aws:s3:::mine-east"):
        yield container.may("read data", "s3:GetObject", f"{bucket}/campaign/x.tfrecord")
        yield container.may("list data", "s3:ListBucket", bucket)
    result = f"{output(INSIDE)}/0123abcd/0/output/model.tar.gz"
    for action in ("PutObject", "GetObject", "AbortMultipartUpload"):
        yield container.may("write results and read checkpoints", f"s3:{action}", result)
    yield container.may("find its checkpoints", "s3:ListBucket", output(INSIDE))
    for name, bucket in (("another Region's", DATA.replace(INSIDE, FREE)), ("foreign", "arn:aws:s3:::theirs")):
        yield container.may_not(f"read {name} data", "s3:GetObject", f"{bucket}/x", breaks=RESOURCE)
        yield container.may_not(f"list {name} data", "s3:ListBucket", bucket, breaks=RESOURCE)
    for place in (f"{DATA}/campaign/x.tfrecord", f"{output(FREE)}/0123abcd/0/x", "arn:aws:s3:::mine-east/x"):
        yield container.may_not(f"write {place[13:]}", "s3:PutObject", place, breaks=RESOURCE)
    checkpoint = f"{output(INSIDE)}/0123abcd/0/checkpoints/12"
    yield container.may("delete a checkpoint in a Region with a cluster", "s3:DeleteObject", checkpoint)
    for kept in (result, f"{DATA}/checkpoints/12", f"{output(FREE)}/0123abcd/0/checkpoints/12"):
        yield container.may_not(f"delete {kept[13:]}", "s3:DeleteObject", kept, breaks=RESOURCE)
    yield container.may_not("delete an earlier version", "s3:DeleteObjectVersion", checkpoint)
    yield container.may_not("make the bucket public", "s3:PutBucketPolicy", output(INSIDE))


def _control_plane() -> Iterator[Case]:
    for key in ("manifests/x.csv", "submissions/0123abcd/jobs.jsonl", "by-hand/x.csv"):
        yield container.may_not(f"write {key}", "s3:PutObject", f"{MANIFESTS}/{key}", breaks=RESOURCE)
    yield container.may_not("read a submission", "s3:GetObject", f"{MANIFESTS}/submissions/x", breaks=RESOURCE)
    yield container.may_not("list manifests", "s3:ListBucket", MANIFESTS, breaks=RESOURCE)
    for action in ("GetItem", "PutItem", "UpdateItem", "Scan", "Query"):
        yield container.may_not("access the ledger", f"dynamodb:{action}", LEDGER)
    yield container.may_not("start a training job", CREATE, training_job(INSIDE), asked(INSIDE))
    for action in ("StopTrainingJob", "DescribeTrainingJob", "DeleteTrainingJob", "AddTags"):
        yield container.may_not("access a training job", f"sagemaker:{action}", training_job(INSIDE))
    yield container.may_not("pass its own role", "iam:PassRole", execution_role(INSIDE), {**TO_SAGEMAKER})
    yield container.may_not("assume another role", "sts:AssumeRole", f"arn:aws:iam::{ACCOUNT}:role/Admin")
    yield container.may_not("submit an array", "batch:SubmitJob", QUEUE)
    function = f"arn:aws:lambda:{HOME}:{ACCOUNT}:function:intake"
    yield container.may_not("call a function", "lambda:InvokeFunction", function)
    bus = f"arn:aws:events:{HOME}:{ACCOUNT}:event-bus/traingrid"
    yield container.may_not("forge a state change", "events:PutEvents", bus)


def _images() -> Iterator[Case]:
    foreign = repository("tensorflow-training", "763104351884")
    for action in PULL:
        yield container.may("pull the grid's image", action, repository("traingrid/training"))
        yield container.may("pull from a registry of grid.yaml", action, foreign)
        yield container.may("pull from a repository below one", action, f"{foreign}/nightly")
        yield container.may_not("pull from one with a similar name", action, f"{foreign}-evil", breaks=RESOURCE)
        others = repository("somebody/training")
        yield container.may_not("pull a foreign image", action, others, breaks=RESOURCE)
        yield start.may("pull the orchestrator", action, repository("traingrid/orchestrator"))
        yield start.may_not("pull another image", action, repository("traingrid/training"), breaks=RESOURCE)
    for caller, image in ((container, "training"), (start, "orchestrator")):
        yield caller.may("get the registry's token", "ecr:GetAuthorizationToken", "*")
        yield caller.may_not("push an image", "ecr:PutImage", repository(f"traingrid/{image}"))


def _observation() -> Iterator[Case]:
    group = f"arn:aws:logs:{INSIDE}:{ACCOUNT}:log-group:/aws/sagemaker/TrainingJobs"
    for action in ("CreateLogGroup", "DescribeLogStreams"):
        yield container.may("create its log", f"logs:{action}", f"{group}:log-stream:")
    for action in ("CreateLogStream", "PutLogEvents"):
        yield container.may("write its log", f"logs:{action}", f"{group}:log-stream:traingrid-0123abcd-0-1/algo-1-1")
    others = group.replace("/aws/sagemaker/TrainingJobs", "OrchestratorLog")
    yield container.may_not("write another log", "logs:PutLogEvents", f"{others}:log-stream:x", breaks=RESOURCE)
    key, action = "StringEquals cloudwatch:namespace", "cloudwatch:PutMetricData"
    ours: Context = {"cloudwatch:namespace": "/aws/sagemaker/TrainingJobs"}
    # Since CloudWatch accepts OTLP, the reference lists a resource for this action; the original call names none.
    metrics = f"arn:aws:cloudwatch:{INSIDE}:{ACCOUNT}:dataset/default"
    yield container.may("send metrics", action, metrics, ours)
    theirs: Context = {"cloudwatch:namespace": "Billing"}
    yield container.may_not("send metrics to another namespace", action, metrics, theirs, breaks=key)
    yield container.may_not(
        "silence an alarm", "cloudwatch:DisableAlarmActions", f"arn:aws:cloudwatch:{INSIDE}:{ACCOUNT}:alarm:x"
    )


def _network() -> Iterator[Case]:
    create = "ec2:CreateNetworkInterface"
    for resource in (f"{EC2}:subnet/{SUBNETS[0]}", f"{EC2}:security-group/{GROUPS[0]}", INTERFACE):
        yield container.may("be placed in its subnets", create, resource)
    for resource in (f"{EC2}:subnet/subnet-00000000", f"{EC2}:security-group/sg-00000000"):
        yield container.may_not("be placed elsewhere", create, resource, breaks=RESOURCE)
    here: Context = {"ec2:Subnet": f"{EC2}:subnet/{SUBNETS[0]}"}
    elsewhere: Context = {"ec2:Subnet": f"{EC2}:subnet/subnet-00000000"}
    for action in ("CreateNetworkInterfacePermission", "DeleteNetworkInterface", "DeleteNetworkInterfacePermission"):
        yield container.may("manage its interfaces", f"ec2:{action}", INTERFACE, here)
        key = "ArnEquals ec2:Subnet"
        yield container.may_not("manage another subnet's interfaces", f"ec2:{action}", INTERFACE, elsewhere, breaks=key)
    for what in ("DhcpOptions", "NetworkInterfaces", "SecurityGroups", "Subnets", "Vpcs"):
        yield container.may("check the network", f"ec2:Describe{what}", "*")
    open_group = "ec2:AuthorizeSecurityGroupIngress"
    yield container.may_not("open its security group", open_group, f"{EC2}:security-group/{GROUPS[0]}")


def _services() -> Iterator[Case]:
    for caller, log in ((start, "OrchestratorLog"), (flows, "OrchestratorNetworkFlowLogGroup")):
        group = f"arn:aws:logs:{HOME}:{ACCOUNT}:log-group:{log}"
        for action in ("CreateLogStream", "PutLogEvents"):
            yield caller.may("write its log", f"logs:{action}", f"{group}:log-stream:x")
        others = f"{group}2:log-stream:x"
        yield caller.may_not("write another log", "logs:PutLogEvents", others, breaks=RESOURCE)
        yield caller.may_not("delete its log", "logs:DeleteLogGroup", f"{group}:log-stream:")
        yield caller.may_not("start a training job", CREATE, training_job(INSIDE), asked(INSIDE))
    yield flows.may("list log streams", "logs:DescribeLogStreams", f"{group}:log-stream:")
    bus = f"arn:aws:events:{HOME}:{ACCOUNT}:event-bus/traingrid"
    yield forwarding.may("forward state changes to the home Region", "events:PutEvents", bus)
    for other in ("default", "traingrid2"):
        elsewhere = bus.replace("bus/traingrid", f"bus/{other}")
        yield forwarding.may_not("forward them to another bus", "events:PutEvents", elsewhere, breaks=RESOURCE)
    yield forwarding.may_not("call a function", "lambda:InvokeFunction", f"arn:aws:lambda:{HOME}:{ACCOUNT}:function:x")
