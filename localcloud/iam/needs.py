"""What permissions an AWS call takes: actions, resources and condition keys, as IAM is asked.

From the Service Authorization Reference (https://docs.aws.amazon.com/service-authorization/latest/reference/), for what
the programs of a grid call. Any other call takes the action of its name on "*", so a role is refused it unless its
policy says just that.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from localcloud.iam.request_keys import KEYS, Context
from localcloud.iam.resource_tags import of_batch


class Need(NamedTuple):
    """One permission: `context` are the condition keys with which it is asked for."""

    action: str
    resource: str
    context: Context


class Asked(NamedTuple):
    """A call: the signing name of the service, the operation, its parameters, and where it goes."""

    service: str
    operation: str
    parameters: Mapping[str, Any]
    region: str
    account: str

    def arn(self, resource: str) -> str:
        """The ARN of a resource of the call's service, in its Region and account."""
        return f"arn:aws:{self.service}:{self.region}:{self.account}:{resource}"

    def text(self, name: str) -> str:
        """A parameter as a text; empty where it is not given."""
        return str(self.parameters.get(name) or "")


def needs(asked: Asked) -> list[Need]:
    """Return every permission that a call takes; none for a call that anybody may make."""
    if (asked.service, asked.operation) == ("sts", "GetCallerIdentity"):
        return []
    read = _SERVICES.get(asked.service, _by_name)
    return [Need(action, on, _keys(action, asked) | _tags_of(action, on, asked)) for action, on in read(asked)] + _also(
        asked
    )


def _tags_of(action: str, resource: str, asked: Asked) -> Context:
    """The tags of what is to be changed, where a policy of the grid has conditions on them."""
    return of_batch(asked.account, asked.region, resource) if action == "batch:TerminateServiceJob" else {}


def _keys(action: str, asked: Asked) -> Context:
    """The condition keys of the call's own action; what else it takes is asked with keys of its own, see `_also`."""
    return KEYS[action](asked.parameters) if action in KEYS else {}


def _by_name(asked: Asked) -> Iterator[tuple[str, str]]:
    yield f"{_PREFIXES.get(asked.service, asked.service)}:{asked.operation}", "*"


_PREFIXES = {"monitoring": "cloudwatch"}
"""The prefixes of actions, by signing name, where the two differ."""


def _also(asked: Asked) -> list[Need]:
    """What a call takes beside its own action, because it does more than one thing."""
    if (asked.service, asked.operation) == ("batch", "SubmitServiceJob"):
        return [Need("iam:PassRole", _passed(asked), {"iam:PassedToService": "sagemaker.amazonaws.com"})]
    if (asked.service, asked.operation) != ("sagemaker", "CreateTrainingJob"):
        return []
    passed = Need("iam:PassRole", asked.text("RoleArn"), {"iam:PassedToService": "sagemaker.amazonaws.com"})
    if not asked.parameters.get("Tags"):
        return [passed]
    job = asked.arn(f"training-job/{asked.text('TrainingJobName')}")
    return [passed, Need("sagemaker:AddTags", job, {"sagemaker:TaggingAction": "CreateTrainingJob"})]


def _passed(asked: Asked) -> str:
    """The execution role in the payload of a service job."""
    try:
        return str(json.loads(asked.text("serviceRequestPayload"))["RoleArn"])
    except (ValueError, KeyError, TypeError):
        return "*"


def _sagemaker(asked: Asked) -> Iterator[tuple[str, str]]:
    job, arn = asked.text("TrainingJobName"), asked.text("ResourceArn")
    resource = asked.arn(f"training-job/{job}") if job else arn
    yield f"sagemaker:{asked.operation}", resource or "*"


def _dynamodb(asked: Asked) -> Iterator[tuple[str, str]]:
    if asked.operation.startswith("Transact"):
        for item in asked.parameters.get("TransactItems") or []:
            for kind, said in item.items():
                action = "ConditionCheckItem" if kind == "ConditionCheck" else f"{kind}Item"
                yield f"dynamodb:{action}", _table(asked, said["TableName"])
    elif asked.operation.startswith("Batch"):
        for table in asked.parameters.get("RequestItems") or {}:
            yield f"dynamodb:{asked.operation}", _table(asked, table)
    else:
        name = asked.text("TableName")
        yield f"dynamodb:{asked.operation}", _table(asked, name) if name else "*"


def _table(asked: Asked, name: str) -> str:
    return name if name.startswith("arn:") else asked.arn(f"table/{name}")


_S3_WRITES = ("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "PutObject")
_S3_READS = ("GetObject", "HeadObject")
_S3_LISTS = ("ListObjects", "ListObjectsV2", "HeadBucket")


def _s3(asked: Asked) -> Iterator[tuple[str, str]]:
    """https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html."""
    bucket = f"arn:aws:s3:::{asked.text('Bucket')}"
    place = f"{bucket}/{asked.text('Key')}" if asked.text("Key") else bucket
    if asked.operation in _S3_READS:
        yield "s3:GetObjectVersion" if "versionId" in asked.parameters else "s3:GetObject", place
    elif asked.operation in (*_S3_WRITES, "CopyObject", "UploadPartCopy"):
        yield "s3:PutObject", place
    elif asked.operation in _S3_LISTS:
        yield "s3:ListBucket", bucket
    elif asked.operation == "DeleteObjects":
        yield "s3:DeleteObject", f"{bucket}/*"
    else:
        yield f"s3:{asked.operation}", place


def _batch(asked: Asked) -> Iterator[tuple[str, str]]:
    if asked.operation in ("SubmitJob", "SubmitServiceJob"):
        kind = "service-job" if asked.operation == "SubmitServiceJob" else "job"
        resources = [_called(asked, "job-queue", asked.text("jobQueue"))]
        if share := asked.text("quotaShareName"):
            resources.append(f"{resources[0]}/quota-share/{share}")
        if kind == "job":
            resources.append(_called(asked, "job-definition", asked.text("jobDefinition")))
        resources.append(asked.arn(f"{kind}/new"))
        actions = [f"batch:{asked.operation}", *["batch:TagResource"] * bool(asked.parameters.get("tags"))]
        yield from ((action, resource) for action in actions for resource in resources)
    elif asked.operation == "DescribeServiceJob":
        yield "batch:DescribeServiceJob", "*"
    elif asked.text("jobId"):
        kind = "service-job" if "ServiceJob" in asked.operation else "job"
        yield f"batch:{asked.operation}", _called(asked, kind, asked.text("jobId"))
    else:
        yield f"batch:{asked.operation}", "*"


def _called(asked: Asked, kind: str, named: str) -> str:
    return named if named.startswith("arn:") else asked.arn(f"{kind}/{named}")


def _logs(asked: Asked) -> Iterator[tuple[str, str]]:
    group, stream = asked.text("logGroupName"), asked.text("logStreamName")
    yield f"logs:{asked.operation}", asked.arn(f"log-group:{group}:log-stream:{stream}") if group else "*"


def _sqs(asked: Asked) -> Iterator[tuple[str, str]]:
    queue = asked.text("QueueName") or asked.text("QueueUrl").rpartition("/")[2]
    yield f"sqs:{asked.operation}", asked.arn(queue) if queue else "*"


def _ssm(asked: Asked) -> Iterator[tuple[str, str]]:
    names = asked.parameters.get("Names") or [asked.text("Name")]
    for name in names:
        yield f"ssm:{asked.operation}", asked.arn(f"parameter/{str(name).removeprefix('/')}")


def _sts(asked: Asked) -> Iterator[tuple[str, str]]:
    yield f"sts:{asked.operation}", asked.text("RoleArn") or "*"


def _ecr(asked: Asked) -> Iterator[tuple[str, str]]:
    name, registry = asked.text("repositoryName"), asked._replace(account=asked.text("registryId") or asked.account)
    yield f"ecr:{asked.operation}", registry.arn(f"repository/{name}") if name else "*"


def _codebuild(asked: Asked) -> Iterator[tuple[str, str]]:
    project = asked.text("projectName")
    yield f"codebuild:{asked.operation}", asked.arn(f"project/{project}") if project else "*"


def _cloudformation(asked: Asked) -> Iterator[tuple[str, str]]:
    name = asked.text("StackName")
    stack = name if name.startswith("arn:") else asked.arn(f"stack/{name}/id")
    yield f"cloudformation:{asked.operation}", stack if name else "*"


def _iam(asked: Asked) -> Iterator[tuple[str, str]]:
    name = asked.text("RoleName")
    yield f"iam:{asked.operation}", f"arn:aws:iam::{asked.account}:role/{name}" if name else "*"


_SERVICES: Mapping[str, Callable[[Asked], Iterator[tuple[str, str]]]] = {
    "sagemaker": _sagemaker,
    "dynamodb": _dynamodb,
    "s3": _s3,
    "batch": _batch,
    "logs": _logs,
    "sqs": _sqs,
    "ssm": _ssm,
    "sts": _sts,
    "cloudformation": _cloudformation,
    "iam": _iam,
    "ecr": _ecr,
    "codebuild": _codebuild,
}
