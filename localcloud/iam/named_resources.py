"""Resources of a request: maps the parameters of a call to ARNs, by resource type.

Types are those of the Service Authorization Reference, with the service's prefix: "batch:job-queue".
`required_permissions` decides which of them a call needs permissions on.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from localcloud.iam.encryption_keys import key_arn, keys_of


class Asked(NamedTuple):
    """A call: the signing name of the service, the operation, its parameters, its Region and account."""

    service: str
    operation: str
    parameters: Mapping[str, Any]
    region: str
    account: str

    def arn(self, resource: str) -> str:
        """Return the ARN of a resource of the call's service, in its Region and account."""
        return f"arn:aws:{self.service}:{self.region}:{self.account}:{resource}"

    def text(self, name: str) -> str:
        """Return a parameter as text; empty if it is missing."""
        return str(self.parameters.get(name) or "")


Named = Iterator[tuple[str, str]]


def named_resources(asked: Asked) -> dict[str, list[str]]:
    """Return the ARNs of the resources that a request uses or creates, by type."""
    found: dict[str, list[str]] = defaultdict(list)
    for kind, arn in (*_BY_SERVICE.get(asked.service, _nothing)(asked), *_keys(asked)):
        found[kind].append(arn)
    return found


def _keys(asked: Asked) -> Named:
    if asked.service == "kms":
        return
    for key in keys_of(asked.service, asked.operation, asked.parameters, asked.region, asked.account):
        yield "kms:key", key


def _nothing(_asked: Asked) -> Named:
    return iter(())


def _sagemaker(asked: Asked) -> Named:
    job = asked.text("TrainingJobName")
    if job or asked.text("ResourceArn"):
        yield "sagemaker:training-job", asked.arn(f"training-job/{job}") if job else asked.text("ResourceArn")
    if asked.text("RoleArn"):
        yield "iam:role", asked.text("RoleArn")
    resources = asked.parameters.get("ResourceConfig")
    if plan := resources.get("TrainingPlanArn") if isinstance(resources, dict) else None:
        yield "sagemaker:training-plan", plan
        yield "sagemaker:reserved-capacity", str(plan).replace(":training-plan/", ":reserved-capacity/")
    elif plan := asked.text("TrainingPlanName"):
        yield "sagemaker:training-plan", asked.arn(f"training-plan/{plan}")


def _dynamodb(asked: Asked) -> Named:
    names = {asked.text("TableName"), *(asked.parameters.get("RequestItems") or {})} - {""}
    for name in names:
        table = name if name.startswith("arn:") else asked.arn(f"table/{name}")
        yield "dynamodb:table", table
        if index := asked.text("IndexName"):
            yield "dynamodb:index", f"{table}/index/{index}"


def _s3(asked: Asked) -> Named:
    bucket, key = f"arn:aws:s3:::{asked.text('Bucket')}", asked.text("Key")
    yield "s3:bucket", bucket
    if key or asked.operation == "DeleteObjects":
        yield "s3:object", f"{bucket}/{key or '*'}"


def _batch(asked: Asked) -> Named:
    queue, definition, job = (asked.text(name) for name in ("jobQueue", "jobDefinition", "jobId"))
    if queue:
        yield "batch:job-queue", (arn := _called(asked, "job-queue", queue))
        if share := asked.text("quotaShareName"):
            yield "batch:quota-share", f"{arn}/quota-share/{share}"
    if definition:
        # A name without a revision is authorized without one: https://github.com/aws/aws-sdk-js/issues/4280.
        revision = "-revision" * (":" in definition.rpartition("/")[2])
        yield f"batch:job-definition{revision}", _called(asked, "job-definition", definition)
    kind = "service-job" if "ServiceJob" in asked.operation else "job"
    if job or asked.operation.startswith("Submit"):
        yield f"batch:{kind}", _called(asked, kind, job or "new")
    if payload := asked.text("serviceRequestPayload"):
        yield "iam:role", _passed(payload)


def _passed(payload: str) -> str:
    """Return the execution role in the payload of a service job."""
    try:
        return str(json.loads(payload)["RoleArn"])
    except (ValueError, KeyError, TypeError):
        return "*"


def _called(asked: Asked, kind: str, named: str) -> str:
    return named if named.startswith("arn:") else asked.arn(f"{kind}/{named}")


def _logs(asked: Asked) -> Named:
    group = asked.text("logGroupName")
    if group:
        # IAM's errors for a log group contain an empty stream name (tests/integration/policies/refusals/logs.yaml).
        yield "logs:log-group", asked.arn(f"log-group:{group}:log-stream:")
        yield "logs:log-stream", asked.arn(f"log-group:{group}:log-stream:{asked.text('logStreamName')}")


def _sqs(asked: Asked) -> Named:
    queue = asked.text("QueueName") or asked.text("QueueUrl").rpartition("/")[2]
    if queue:
        yield "sqs:queue", asked.arn(queue)


def _sns(asked: Asked) -> Named:
    if topic := asked.text("TopicArn"):
        yield "sns:topic", topic


def _ssm(asked: Asked) -> Named:
    if asked.operation.endswith("Session"):
        return  # a container of a training job is no resource of IAM
    for name in asked.parameters.get("Names") or [asked.text("Name")]:
        yield "ssm:parameter", asked.arn(f"parameter/{str(name).removeprefix('/')}")


def _sts(asked: Asked) -> Named:
    if asked.text("RoleArn"):
        yield "sts:role", asked.text("RoleArn")


def _ecr(asked: Asked) -> Named:
    if name := asked.text("repositoryName"):
        registry = asked._replace(account=asked.text("registryId") or asked.account)
        yield "ecr:repository", registry.arn(f"repository/{name}")


def _codebuild(asked: Asked) -> Named:
    if project := asked.text("projectName"):
        yield "codebuild:project", asked.arn(f"project/{project}")
    for identifier in asked.parameters.get("ids") or []:  # a build's id begins with the name of its project
        yield "codebuild:project", asked.arn(f"project/{identifier.partition(':')[0]}")


def _events(asked: Asked) -> Named:
    for bus in {entry.get("EventBusName") or "default" for entry in asked.parameters.get("Entries") or []}:
        yield "events:event-bus", bus if bus.startswith("arn:") else asked.arn(f"event-bus/{bus}")


def _ec2(asked: Asked) -> Named:
    """Yield the resources of calls about network interfaces; a new interface has no id yet."""
    if asked.operation == "CreateNetworkInterface":
        yield "ec2:network-interface", asked.arn("network-interface/*")
        yield "ec2:subnet", asked.arn(f"subnet/{asked.text('SubnetId')}")
    elif interface := asked.text("NetworkInterfaceId"):
        yield "ec2:network-interface", asked.arn(f"network-interface/{interface}")
    for name, group in asked.parameters.items():
        if name.startswith("SecurityGroupId"):
            yield "ec2:security-group", asked.arn(f"security-group/{group}")


def _cloudformation(asked: Asked) -> Named:
    if name := asked.text("StackName"):
        yield "cloudformation:stack", name if name.startswith("arn:") else asked.arn(f"stack/{name}/*")


def _iam(asked: Asked) -> Named:
    if name := asked.text("RoleName"):
        yield "iam:role", f"arn:aws:iam::{asked.account}:role/{name}"


def _kms(asked: Asked) -> Named:
    if key := key_arn(asked.text("KeyId"), asked.region, asked.account):
        yield "kms:key", key


def _eks(asked: Asked) -> Named:
    """Yield the resources of a call; a path names a cluster "name" (https://docs.aws.amazon.com/eks/latest/APIReference).

    Calls on an access entry name its principal, and calls on an add-on its name. The UUID in their ARNs is not in the
    request; a policy has a wildcard.
    """
    name, principal, association = (asked.text(one) for one in ("name", "principalArn", "associationId"))
    if addon := asked.text("addonName"):
        yield "eks:addon", asked.arn(f"addon/{name}/{addon}/*")
    elif association:
        yield "eks:podidentityassociation", asked.arn(f"podidentityassociation/{name}/{association}")
    elif principal and asked.operation != "CreateAccessEntry":
        _, _, _, _, account, named = f"{principal}:::::".split(":")[:6]
        kind, _, path = named.partition("/")
        yield "eks:access-entry", asked.arn(f"access-entry/{name}/{kind}/{account}/{path.rpartition('/')[2]}/*")
    elif name and asked.operation != "CreateCluster":
        yield "eks:cluster", asked.arn(f"cluster/{name}")
    if asked.text("roleArn"):
        yield "iam:role", asked.text("roleArn")


_BY_SERVICE: Mapping[str, Callable[[Asked], Named]] = {
    "sagemaker": _sagemaker,
    "dynamodb": _dynamodb,
    "s3": _s3,
    "batch": _batch,
    "logs": _logs,
    "sns": _sns,
    "sqs": _sqs,
    "ssm": _ssm,
    "sts": _sts,
    "cloudformation": _cloudformation,
    "iam": _iam,
    "kms": _kms,
    "ecr": _ecr,
    "codebuild": _codebuild,
    "events": _events,
    "ec2": _ec2,
    "eks": _eks,
}
