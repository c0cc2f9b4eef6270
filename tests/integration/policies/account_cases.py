"""Cases of a training Region in another account: permissions there, and of the home account's roles to assume them.

Here the grid's one account is the Region's, and the home Region is in another account. The cases of a child therefore
apply unchanged to the role that a child assumes.
"""

from collections.abc import Iterator
from dataclasses import replace

from tests.integration.policies import child_cases
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
from tests.integration.policies.cluster_cases import ARN as CLUSTER_ARN
from tests.integration.policies.cluster_cases import of_a_user
from tests.integration.policies.function_cases import QUEUE, TO_SAGEMAKER
from tests.integration.policies.grid import ACCOUNT, CLUSTER, EFS, FREE, INSIDE, PARTS, YOUR_KEY, the_grid, with_cluster
from tests.integration.policies.key_cases import USES, VIA, data_key, through
from traingrid.grid.model import GridSettings

HOMES = "210987654321"
HOME_ROLES = {"launch": "child", "record": "recorder", "sweep": "reconciler", "register": "registrar"}
AT_HOME = {
    "launch": "OrchestratorRole",
    "record": "JobEventsRecordRole",
    "sweep": "ReconcilerSweepRole",
    "register": "DatasetsRegisterRole",
}
launch, record, sweep, register, use = map(Caller, PARTS)

DATA = f"arn:aws:s3:::traingrid-data-{ACCOUNT}-{INSIDE}"
GROUP = f"arn:aws:logs:{INSIDE}:{ACCOUNT}:log-group:/aws/sagemaker/TrainingJobs"
STACK = f"arn:aws:cloudformation:{INSIDE}:{ACCOUNT}:stack/traingrid-{INSIDE}/0a1b"
REPOSITORY = f"arn:aws:ecr:{INSIDE}:{ACCOUNT}:repository/traingrid/training"
BOOTSTRAP = f"arn:aws:ssm:{INSIDE}:{ACCOUNT}:parameter/cdk-bootstrap/hnb659fds/version"


def two_accounts() -> GridSettings:
    described = the_grid().model_dump(exclude_defaults=True, exclude={"network"})
    del described["regions"][INSIDE]["eks"]
    described["account"] = HOMES
    described["regions"][INSIDE]["account"] = ACCOUNT
    del described["regions"][INSIDE]["service_queue"]  # not supported in a Region in another account
    return with_cluster(GridSettings.model_validate(described))


def acting_role(part: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:role/traingrid-{part}-{INSIDE}"


def _of_a_child() -> Iterator[Case]:
    """Yield the child's cases for the role that it assumes, without those at home or in the other Region."""
    for case in child_cases.without_copies():
        there = INSIDE in case.resource or case.resource == "*"
        if MANIFESTS in case.resource or case.action.startswith(("batch:", "dynamodb:")) or not there:
            continue
        yield replace(case, role="launch")
    yield launch.may_not(
        "create one in a Region of the home account", CREATE, training_job(FREE), asked(INSIDE), breaks=RESOURCE
    )
    for name in ("checkpoints/a", "traingrid-0123abcd-0-1/output/model.tar.gz"):
        for action in ("s3:GetObject", "s3:PutObject"):
            object_of_job = f"{output(INSIDE)}/0123abcd/0/{name}"
            yield launch.may_not("read or write results", action, object_of_job, breaks=RESOURCE)
        yield launch.may_not("delete results", "s3:DeleteObject", f"{output(INSIDE)}/0123abcd/0/{name}")
    yield launch.may_not("read data", "s3:GetObject", f"{DATA}/campaign/train/a", breaks=RESOURCE)
    yield launch.may_not("write to the ledger", "dynamodb:UpdateItem", LEDGER)
    yield launch.may_not("assume another role", "sts:AssumeRole", acting_role("use"))
    yield launch.may("list data in a bucket of grid.yaml", "s3:ListBucket", "arn:aws:s3:::mine-east")


def _watching() -> Iterator[Case]:
    theirs = training_job(INSIDE, "my-own-job")
    for caller in (record, sweep, use):
        for action in ("DescribeTrainingJob", "ListTags"):
            yield caller.may("read how a job ended", f"sagemaker:{action}", training_job(INSIDE))
        yield caller.may_not("read a foreign one", "sagemaker:DescribeTrainingJob", theirs, breaks=RESOURCE)
        yield caller.may_not("create one", CREATE, training_job(INSIDE), asked(INSIDE))
        yield caller.may_not("pass a role", "iam:PassRole", execution_role(INSIDE), {**TO_SAGEMAKER})
        yield caller.may_not("submit an array", "batch:SubmitJob", QUEUE)
        yield caller.may_not("delete one", "sagemaker:DeleteTrainingJob", training_job(INSIDE))
    for caller in (sweep, use):
        yield caller.may("find running jobs", "sagemaker:ListTrainingJobs", "*")
        yield caller.may("stop a training job that is not needed", "sagemaker:StopTrainingJob", training_job(INSIDE))
        yield caller.may_not("stop a foreign one", "sagemaker:StopTrainingJob", theirs, breaks=RESOURCE)
    yield record.may_not("stop one", "sagemaker:StopTrainingJob", training_job(INSIDE))
    for caller in (record, sweep):
        yield caller.may_not("read a model", "s3:GetObject", f"{output(INSIDE)}/0123abcd/0/output/model.tar.gz")


def _registering() -> Iterator[Case]:
    for bucket in (DATA, "arn:aws:s3:::mine-east"):
        yield register.may("read a marker", "s3:GetObject", f"{bucket}/oslo/dataset.json")
        yield register.may("count a dataset's objects", "s3:ListBucket", bucket)
        yield register.may_not("read data", "s3:GetObject", f"{bucket}/oslo/train/a", breaks=RESOURCE)
    yield register.may_not("list results", "s3:ListBucket", output(INSIDE), breaks=RESOURCE)
    yield register.may_not("write data", "s3:PutObject", f"{DATA}/oslo/dataset.json")
    yield register.may_not("create a training job", CREATE, training_job(INSIDE), asked(INSIDE))


def _using() -> Iterator[Case]:
    for bucket in (DATA, output(INSIDE), "arn:aws:s3:::mine-east"):
        yield use.may("list the bucket", "s3:ListBucket", bucket)
    yield use.may("download a model", "s3:GetObject", f"{output(INSIDE)}/0123abcd/0/output/model.tar.gz")
    yield use.may_not("download data", "s3:GetObject", f"{DATA}/campaign/x", breaks=RESOURCE)
    for action in ("s3:PutObject", "s3:AbortMultipartUpload"):
        yield use.may("upload data", action, f"{DATA}/campaign/x")
    for place in (f"{output(INSIDE)}/0123abcd/0/output/model.tar.gz", "arn:aws:s3:::mine-east/x"):
        yield use.may_not(f"write {place[13:]}", "s3:PutObject", place, breaks=RESOURCE)
    yield use.may_not("delete data", "s3:DeleteObject", f"{DATA}/campaign/x")
    yield use.may("read a log", "logs:GetLogEvents", f"{GROUP}:log-stream:traingrid-0123abcd-0-1/algo-1-1700000000")
    yield use.may("list log streams", "logs:DescribeLogStreams", f"{GROUP}:log-stream:")
    others = f"{GROUP}:log-stream:somebody-1/algo-1-1700000000"
    yield use.may_not("read a foreign log", "logs:GetLogEvents", others, breaks=RESOURCE)
    yield use.may("check that an image exists", "ecr:DescribeImages", REPOSITORY)
    yield use.may_not("push an image", "ecr:PutImage", REPOSITORY)
    yield use.may("describe the stack", "cloudformation:DescribeStacks", STACK)
    yield use.may_not(
        "describe others", "cloudformation:DescribeStacks", STACK.replace("traingrid-", "x-"), breaks=RESOURCE
    )
    yield use.may("check that the account is bootstrapped", "ssm:GetParameter", BOOTSTRAP)
    yield use.may_not("read a secret", "ssm:GetParameter", BOOTSTRAP.replace("version", "secret"), breaks=RESOURCE)
    yield use.may("check that the execution role exists", "iam:GetRole", execution_role(INSIDE))
    for action in ("ec2:DescribeRegions", "servicequotas:ListServiceQuotas"):
        yield use.may("check the account", action, "*")
    mine = f"arn:aws:elasticfilesystem:{INSIDE}:{ACCOUNT}:file-system/{EFS}"
    see = "elasticfilesystem:DescribeMountTargets"
    yield use.may("find the mount targets of a file system", see, mine)
    yield use.may_not("find those of another one", see, mine.replace(EFS, "fs-00000000"), breaks=RESOURCE)
    for action in ("fsx:DescribeFileSystems", "ec2:DescribeNetworkInterfaces"):
        yield use.may("check the network of file systems", action, "*")
    for action in ("ec2:DescribeSecurityGroupRules", "ec2:DescribeSubnets"):
        yield use.may("check the network of training jobs", action, "*")
    for action in ("ec2:DescribeSpotPriceHistory", "sagemaker:ListTrainingPlans"):
        yield use.may("read prices and capacity", action, "*")


def _keys() -> Iterator[Case]:
    key, elsewhere = data_key(INSIDE), data_key(INSIDE).replace("DataKey", "Other")
    for caller in (launch, use):
        for action in USES:
            yield caller.may("read and write encrypted objects", action, key, through("s3", INSIDE))
            yield caller.may_not("use the key directly", action, key, breaks=VIA)
            yield caller.may_not("use another key", action, elsewhere, through("s3", INSIDE), breaks=RESOURCE)


def _register_keys() -> Iterator[Case]:
    yield register.may("read an encrypted marker", "kms:Decrypt", data_key(INSIDE), through("s3", INSIDE))
    yield register.may_not("use the key directly", "kms:Decrypt", data_key(INSIDE), breaks=VIA)
    yield register.may_not("encrypt", "kms:GenerateDataKey", data_key(INSIDE), through("s3", INSIDE))
    yield register.may("read a marker that a key of grid.yaml encrypts", "kms:Decrypt", YOUR_KEY, through("s3", INSIDE))


def _taking_on() -> Iterator[Case]:
    """Yield the roles in the other account that each role of the control plane may or may not assume."""
    for part, role in HOME_ROLES.items():
        caller = Caller(role)
        yield caller.may("assume its role there", "sts:AssumeRole", acting_role(part))
        for other in PARTS:
            if other != part:
                yield caller.may_not(f"assume {other}", "sts:AssumeRole", acting_role(other), breaks=RESOURCE)


def _clusters() -> Iterator[Case]:
    for caller in (launch, sweep, use):
        yield from of_a_user(caller)
    for caller in (record, register):
        yield caller.may_not("find the cluster", "eks:DescribeCluster", CLUSTER_ARN)
    eks = CLUSTER_ARN.partition(":cluster/")[0]
    for part in ("launch", "sweep", "use"):
        entry = f"{eks}:access-entry/{CLUSTER}/role/{ACCOUNT}/traingrid-{part}-{INSIDE}/0a1b"
        yield use.may("check that the grid has access", "eks:DescribeAccessEntry", entry)
    for other in (f"{CLUSTER}/role/{ACCOUNT}/Admin/0a1b", f"{CLUSTER}2/role/{ACCOUNT}/traingrid-launch-{INSIDE}/0a1b"):
        yield use.may_not(
            "read another's access", "eks:DescribeAccessEntry", f"{eks}:access-entry/{other}", breaks=RESOURCE
        )
    agent = f"{eks}:addon/{CLUSTER}/eks-pod-identity-agent/0a1b"
    yield use.may("check that the agent is installed", "eks:DescribeAddon", agent)
    others = agent.replace("eks-pod-identity-agent", "coredns")
    yield use.may_not("describe another add-on", "eks:DescribeAddon", others, breaks=RESOURCE)
    listed, seen = "eks:ListPodIdentityAssociations", "eks:DescribePodIdentityAssociation"
    yield use.may("find the pods' role", listed, CLUSTER_ARN)
    yield use.may_not("find those of another cluster", listed, f"{CLUSTER_ARN}2", breaks=RESOURCE)
    association = f"{eks}:podidentityassociation/{CLUSTER}/a-0a1b"
    yield use.may("read the pods' role", seen, association)
    yield use.may_not("read another cluster's", seen, association.replace(CLUSTER, "other"), breaks=RESOURCE)


CASES = (
    *_of_a_child(),
    *_watching(),
    *_using(),
    *_keys(),
    *_registering(),
    *_register_keys(),
    *_taking_on(),
    *_clusters(),
)
