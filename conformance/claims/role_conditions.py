"""IAM: condition keys that the product's policies use."""

from typing import Any

from botocore.exceptions import ClientError

from conformance.aws import TAG, Aws, refused
from conformance.claim import claim
from conformance.claims.permissions import Creating
from conformance.resources.identity import acting_with, allow, role
from conformance.resources.product import creation_conditions, denied_creations, one_of, tags
from conformance.resources.storage import shared_bucket
from conformance.resources.training import INSTANCE_TYPE, MAX_MINUTES
from conformance.sources import page

_DENIED = ("AccessDeniedException", "AccessDenied")
_KEYS = "https://docs.aws.amazon.com/service-authorization/latest/reference/list_sagemaker.html"
VPC = {"Subnets": ["subnet-0123456789abcdef0"], "SecurityGroupIds": ["sg-0123456789abcdef0"]}
FILE_SYSTEM = "fs-0123456789abcdef0"
_CONDITIONS = "stacks/child_permissions.py stacks/training_job_permissions.py"


def _create_if(aws: Aws, statement: Any, *, allowed: bool, **members: Any) -> None:
    it = Creating(aws)
    if allowed:
        assert it.by(statement, it.add_tags, it.pass_role, **members)
        return
    request = it.training.request(**members)
    with refused(*_DENIED, text="sagemaker:CreateTrainingJob"):
        acting_with(aws, statement, it.add_tags, it.pass_role)("sagemaker").create_training_job(**request)


def _on(aws: Aws, **conditions: Any) -> Any:
    return allow("sagemaker:CreateTrainingJob", f"arn:aws:sagemaker:*:{aws.account}:training-job/tgc-*", **conditions)


@claim(
    page(_KEYS, "list of all instance types associated with the resource in the request"),
    used_by=_CONDITIONS,
    trainings=1,
)
def instance_types_may_be_limited(aws: Aws) -> None:
    """sagemaker:InstanceTypes restricts the instance types of CreateTrainingJob."""
    mine = {"ForAllValues:StringEquals": {"sagemaker:InstanceTypes": [INSTANCE_TYPE]}}
    other = {"ForAllValues:StringEquals": {"sagemaker:InstanceTypes": ["ml.c5.xlarge"]}}
    given = {"Null": {"sagemaker:InstanceTypes": "false"}}
    _create_if(aws, _on(aws, **mine, **given), allowed=True)
    _create_if(aws, _on(aws, **other, **given), allowed=False)


@claim(
    page(_KEYS, "max runtime in seconds associated with the resource in the request"), used_by=_CONDITIONS, trainings=1
)
def runtime_may_be_limited(aws: Aws) -> None:
    """sagemaker:MaxRuntimeInSeconds restricts the maximum runtime of a new training job."""
    for seconds, allowed in ((MAX_MINUTES * 60, True), (60, False)):
        limited = _on(aws, NumericLessThanEquals={"sagemaker:MaxRuntimeInSeconds": str(seconds)})
        _create_if(aws, limited, allowed=allowed)


@claim(
    page(_KEYS, "inter container traffic encryption associated with the resource in the request"),
    used_by=_CONDITIONS,
    trainings=1,
)
def traffic_encryption_may_be_demanded(aws: Aws) -> None:
    """sagemaker:InterContainerTrafficEncryption can refuse a training job that does not request encryption."""
    encrypted = _on(aws, Bool={"sagemaker:InterContainerTrafficEncryption": "true"})
    _create_if(aws, encrypted, allowed=True, EnableInterContainerTrafficEncryption=True)
    _create_if(aws, encrypted, allowed=False)


@claim(page(_KEYS, "network isolation associated with the resource in the request"), used_by=_CONDITIONS, trainings=1)
def network_isolation_may_be_demanded(aws: Aws) -> None:
    """sagemaker:NetworkIsolation can refuse a training job that does not request isolation."""
    isolated = _on(aws, Bool={"sagemaker:NetworkIsolation": "true"})
    _create_if(aws, isolated, allowed=True, EnableNetworkIsolation=True)
    _create_if(aws, isolated, allowed=False)


@claim(
    page(_KEYS, "list of all VPC subnets associated with the resource in the request"), used_by=_CONDITIONS, trainings=1
)
def network_may_be_excluded(aws: Aws) -> None:
    """Null excludes training jobs in a VPC by each of its two keys, and those with a file system."""
    requests = {"sagemaker:FileSystemId": _mounting(aws, FILE_SYSTEM, "ro")}
    requests |= {key: {"VpcConfig": VPC} for key in ("sagemaker:VpcSubnets", "sagemaker:VpcSecurityGroupIds")}
    for key, members in requests.items():
        _create_if(aws, _on(aws, Null={key: "true"}), allowed=False, **members)
    _create_if(aws, _on(aws, Null=dict.fromkeys(requests, "true")), allowed=True)


@claim(
    page(_KEYS, "VPC security group ids associated with the resource in the request"), used_by=_CONDITIONS, trainings=1
)
def network_may_be_limited(aws: Aws) -> None:
    """sagemaker:VpcSubnets and sagemaker:VpcSecurityGroupIds limit training jobs to some subnets and groups."""
    for key, member in (("sagemaker:VpcSubnets", "Subnets"), ("sagemaker:VpcSecurityGroupIds", "SecurityGroupIds")):
        limited = _on(aws, **one_of(key, *VPC[member]))
        _pass(aws, limited, VpcConfig=VPC)
        _create_if(aws, limited, allowed=False, VpcConfig={**VPC, member: [f"{VPC[member][0][:-1]}f"]})
        _create_if(aws, limited, allowed=False)


@claim(
    page(
        "https://docs.aws.amazon.com/sagemaker/latest/dg/security_iam_id-based-policy-examples.html",
        "File System Condition Keys",
    ),
    used_by=_CONDITIONS,
    trainings=1,
)
def file_systems_may_be_limited(aws: Aws) -> None:
    """sagemaker:FileSystemId and FileSystemAccessMode limit the file systems of a training job, which may have none."""
    mounted = {"sagemaker:FileSystemId": [FILE_SYSTEM], "sagemaker:FileSystemAccessMode": "ro"}
    limited = _on(aws, StringEqualsIfExists=mounted)
    _create_if(aws, limited, allowed=True)
    _pass(aws, limited, **_mounting(aws, FILE_SYSTEM, "ro"))
    _create_if(aws, limited, allowed=False, **_mounting(aws, f"{FILE_SYSTEM[:-1]}f", "ro"))
    _create_if(aws, limited, allowed=False, **_mounting(aws, FILE_SYSTEM, "rw"))


def _mounting(aws: Aws, file_system: str, mode: str) -> dict[str, Any]:
    """Return the members of a request with a file system, which need not exist: IAM decides before SageMaker."""
    source = {
        "FileSystemId": file_system,
        "FileSystemAccessMode": mode,
        "FileSystemType": "EFS",
        "DirectoryPath": "/data",
    }
    program = Creating(aws).training.request()["InputDataConfig"]
    channel = {"ChannelName": "mounted", "DataSource": {"FileSystemDataSource": source}}
    return {"InputDataConfig": [*program, channel], "VpcConfig": VPC}


def _pass(aws: Aws, statement: Any, **members: Any) -> None:
    """Assert that IAM allows a training job in a network that does not exist, so that SageMaker may refuse it."""
    try:
        _create_if(aws, statement, allowed=True, **members)
    except ClientError as error:
        if error.response["Error"]["Code"] in _DENIED:
            raise


@claim(
    page(
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-single-vs-multi-valued-context-keys.html",
        "It also returns true if there are no context keys",
    ),
    used_by="stacks/child_permissions.py stacks/intake_permissions.py",
    trainings=1,
)
def for_all_values_is_true_without_values(aws: Aws) -> None:
    """ForAllValues matches a request without the key, so each such condition is combined with Null."""
    subnets = {"ForAllValues:StringEquals": {"sagemaker:VpcSubnets": ["subnet-0123456789abcdef0"]}}
    _create_if(aws, _on(aws, **subnets), allowed=True)
    elsewhere = {"Subnets": ["subnet-0fedcba9876543210"], "SecurityGroupIds": ["sg-0fedcba9876543210"]}
    _create_if(aws, _on(aws, **subnets), allowed=False, VpcConfig=elsewhere)
    _create_if(aws, _on(aws, **subnets, Null={"sagemaker:VpcSubnets": "false"}), allowed=False)


@claim(
    page(
        "https://docs.aws.amazon.com/sagemaker/latest/dg/security_iam_id-based-policy-examples.html",
        "specific tag values by using RequestTag condition keys",
    ),
    used_by=_CONDITIONS,
    trainings=1,
)
def tags_of_the_request_may_be_demanded(aws: Aws) -> None:
    """aws:RequestTag refuses a training job whose tag has another value."""
    for value, allowed in ((aws.run, True), ("another", False)):
        _create_if(aws, _on(aws, StringEquals={f"aws:RequestTag/{TAG}": value}), allowed=allowed)


@claim(page(_KEYS, "Filters access by the remote debug config in the request"), used_by=_CONDITIONS, trainings=1)
def training_job_is_created_under_all_conditions_of_a_child(aws: Aws) -> None:
    """The product's conditions and denials together allow its request, but not kept instances or remote debugging."""
    it, denials = Creating(aws), denied_creations()
    create = _on(aws, **creation_conditions(INSTANCE_TYPE, MAX_MINUTES * 60))
    request = it.training.request(Tags=[*aws.tags(), *tags()], EnableInterContainerTrafficEncryption=True)
    child = acting_with(aws, create, *denials, it.add_tags, it.pass_role)("sagemaker")
    for more in (
        {"RemoteDebugConfig": {"EnableRemoteDebug": True}},
        {"ResourceConfig": {**request["ResourceConfig"], "KeepAlivePeriodInSeconds": 60}},
        {"Tags": aws.tags()},
    ):
        with refused(*_DENIED, text="sagemaker:CreateTrainingJob"):
            child.create_training_job(**request | more)
    name = str(request["TrainingJobName"])
    aws.undo.later(f"training job {name}", lambda: it.training.ended(name))
    child.create_training_job(**request)


@claim(
    page(
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html",
        "An explicit deny in any policy overrides any allows",
    ),
    used_by="stacks/grants.py docs/security.md",
)
def explicit_deny_wins(aws: Aws) -> None:
    """A Deny statement overrides every Allow."""
    bucket, key = shared_bucket(aws), aws.name("denied")
    everything = allow("s3:*", "*")
    deny = {"Effect": "Deny", "Action": "s3:PutObject", "Resource": "*"}
    acting_with(aws, everything)("s3").put_object(Bucket=bucket, Key=key, Body=b"x")
    with refused("AccessDenied", text="explicit deny"):
        acting_with(aws, everything, deny)("s3").put_object(Bucket=bucket, Key=key, Body=b"x")


@claim(
    page(
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles.html#iam-term-role-chaining",
        "specifies which trusted account members are allowed to assume the role",
    ),
    used_by="traingrid/aws/clients.py stacks/accounts.py",
)
def role_is_assumed_only_by_whom_it_trusts(aws: Aws) -> None:
    """AssumeRole requires the caller's permission and the role's trust; a role that trusts only services is refused."""
    target = role(aws, "target", {"Service": "ec2.amazonaws.com"})
    actor = acting_with(aws, allow("sts:AssumeRole", target))
    with refused("AccessDenied"):
        actor("sts").assume_role(RoleArn=target, RoleSessionName="conformance")
