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


def named_resources(call: Asked) -> dict[str, list[str]]:
    """Return the ARNs of the resources that a request uses or creates, by type."""
    arns_by_kind: dict[str, list[str]] = defaultdict(list)
    for kind, arn in (*_BY_SERVICE.get(call.service, _no_resources)(call), *_keys(call)):
        arns_by_kind[kind].append(arn)
    return arns_by_kind


def _keys(call: Asked) -> Named:
    if call.service == "kms":
        return
    for key in keys_of(call.service, call.operation, call.parameters, call.region, call.account):
        yield "kms:key", key


def _no_resources(_call: Asked) -> Named:
    return iter(())


def _sagemaker(call: Asked) -> Named:
    job = call.text("TrainingJobName")
    if job or call.text("ResourceArn"):
        yield "sagemaker:training-job", call.arn(f"training-job/{job}") if job else call.text("ResourceArn")
    if call.text("RoleArn"):
        yield "iam:role", call.text("RoleArn")
    resources = call.parameters.get("ResourceConfig")
    plan = resources.get("TrainingPlanArn") if isinstance(resources, dict) else None
    if plan:
        yield "sagemaker:training-plan", plan
        yield "sagemaker:reserved-capacity", str(plan).replace(":training-plan/", ":reserved-capacity/")
    elif plan := call.text("TrainingPlanName"):
        yield "sagemaker:training-plan", call.arn(f"training-plan/{plan}")


def _dynamodb(call: Asked) -> Named:
    names = {call.text("TableName"), *(call.parameters.get("RequestItems") or {})} - {""}
    for name in names:
        table = name if name.startswith("arn:") else call.arn(f"table/{name}")
        yield "dynamodb:table", table
        if index := call.text("IndexName"):
            yield "dynamodb:index", f"{table}/index/{index}"


def _s3(call: Asked) -> Named:
    bucket = f"arn:aws:s3:::{call.text('Bucket')}"
    key = call.text("Key")
    yield "s3:bucket", bucket
    if key or call.operation == "DeleteObjects":
        yield "s3:object", f"{bucket}/{key or '*'}"


def _batch(call: Asked) -> Named:
    queue = call.text("jobQueue")
    definition = call.text("jobDefinition")
    job = call.text("jobId")
    if queue:
        arn = _arn_of(call, "job-queue", queue)
        yield "batch:job-queue", arn
        share = call.text("quotaShareName")
        if share:
            yield "batch:quota-share", f"{arn}/quota-share/{share}"
    if definition:
        # A name without a revision is authorized without one: https://github.com/aws/aws-sdk-js/issues/4280.
        has_revision = ":" in definition.rpartition("/")[2]
        resource = "batch:job-definition-revision" if has_revision else "batch:job-definition"
        yield resource, _arn_of(call, "job-definition", definition)
    kind = "service-job" if "ServiceJob" in call.operation else "job"
    if job or call.operation.startswith("Submit"):
        yield f"batch:{kind}", _arn_of(call, kind, job or "new")
    if payload := call.text("serviceRequestPayload"):
        yield "iam:role", _passed_role(payload)


def _passed_role(payload: str) -> str:
    """Return the execution role in the payload of a service job."""
    try:
        return str(json.loads(payload)["RoleArn"])
    except (ValueError, KeyError, TypeError):
        return "*"


def _arn_of(call: Asked, kind: str, name_or_arn: str) -> str:
    return name_or_arn if name_or_arn.startswith("arn:") else call.arn(f"{kind}/{name_or_arn}")


def _logs(call: Asked) -> Named:
    group = call.text("logGroupName")
    if group:
        # IAM's errors for a log group contain an empty stream name (tests/integration/policies/refusals/logs.yaml).
        yield "logs:log-group", call.arn(f"log-group:{group}:log-stream:")
        yield "logs:log-stream", call.arn(f"log-group:{group}:log-stream:{call.text('logStreamName')}")


def _sqs(call: Asked) -> Named:
    queue = call.text("QueueName") or call.text("QueueUrl").rpartition("/")[2]
    if queue:
        yield "sqs:queue", call.arn(queue)


def _sns(call: Asked) -> Named:
    if topic := call.text("TopicArn"):
        yield "sns:topic", topic


def _ssm(call: Asked) -> Named:
    if call.operation.endswith("Session"):
        return  # a container of a training job is no resource of IAM
    for name in call.parameters.get("Names") or [call.text("Name")]:
        yield "ssm:parameter", call.arn(f"parameter/{str(name).removeprefix('/')}")


def _sts(call: Asked) -> Named:
    if call.text("RoleArn"):
        yield "sts:role", call.text("RoleArn")


def _ecr(call: Asked) -> Named:
    if name := call.text("repositoryName"):
        registry = call._replace(account=call.text("registryId") or call.account)
        yield "ecr:repository", registry.arn(f"repository/{name}")


def _codebuild(call: Asked) -> Named:
    if project := call.text("projectName"):
        yield "codebuild:project", call.arn(f"project/{project}")
    for identifier in call.parameters.get("ids") or []:  # a build's id begins with the name of its project
        yield "codebuild:project", call.arn(f"project/{identifier.partition(':')[0]}")


def _events(call: Asked) -> Named:
    for bus in {entry.get("EventBusName") or "default" for entry in call.parameters.get("Entries") or []}:
        yield "events:event-bus", bus if bus.startswith("arn:") else call.arn(f"event-bus/{bus}")


def _ec2(call: Asked) -> Named:
    """Yield the resources of calls about network interfaces; a new interface has no id yet."""
    if call.operation == "CreateNetworkInterface":
        yield "ec2:network-interface", call.arn("network-interface/*")
        yield "ec2:subnet", call.arn(f"subnet/{call.text('SubnetId')}")
    elif interface := call.text("NetworkInterfaceId"):
        yield "ec2:network-interface", call.arn(f"network-interface/{interface}")
    for name, group in call.parameters.items():
        if name.startswith("SecurityGroupId"):
            yield "ec2:security-group", call.arn(f"security-group/{group}")


def _cloudformation(call: Asked) -> Named:
    if name := call.text("StackName"):
        yield "cloudformation:stack", name if name.startswith("arn:") else call.arn(f"stack/{name}/*")


def _iam(call: Asked) -> Named:
    if name := call.text("RoleName"):
        yield "iam:role", f"arn:aws:iam::{call.account}:role/{name}"


def _kms(call: Asked) -> Named:
    if key := key_arn(call.text("KeyId"), call.region, call.account):
        yield "kms:key", key


def _eks(call: Asked) -> Named:
    """Yield the resources of a call; a path names a cluster "name" (https://docs.aws.amazon.com/eks/latest/APIReference).

    Calls on an access entry name its principal, and calls on an add-on its name. The UUID in their ARNs is not in the
    request; a policy has a wildcard.
    """
    name = call.text("name")
    principal = call.text("principalArn")
    association = call.text("associationId")
    if addon := call.text("addonName"):
        yield "eks:addon", call.arn(f"addon/{name}/{addon}/*")
    elif association:
        yield "eks:podidentityassociation", call.arn(f"podidentityassociation/{name}/{association}")
    elif principal and call.operation != "CreateAccessEntry":
        _, _, _, _, account, resource = f"{principal}:::::".split(":")[:6]
        kind, _, path = resource.partition("/")
        yield "eks:access-entry", call.arn(f"access-entry/{name}/{kind}/{account}/{path.rpartition('/')[2]}/*")
    elif name and call.operation != "CreateCluster":
        yield "eks:cluster", call.arn(f"cluster/{name}")
    if call.text("roleArn"):
        yield "iam:role", call.text("roleArn")


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
