"""Condition keys of requests, for the actions that this grid's policies restrict with conditions.

As in AWS, a key exists only if the request contains its value. The Service Authorization Reference
(https://docs.aws.amazon.com/service-authorization/latest/reference/) lists the keys and their values.
"""

from collections.abc import Callable, Mapping
from typing import Any

Context = dict[str, str | list[str]]


def training_job_keys(request: Mapping[str, Any]) -> Context:
    """Return the keys of CreateTrainingJob; `request` is its arguments."""
    resources, network = request.get("ResourceConfig") or {}, request.get("VpcConfig") or {}
    groups = resources.get("InstanceGroups") or [resources]
    keys = {
        "sagemaker:InstanceTypes": [group["InstanceType"] for group in groups if group.get("InstanceType")],
        "sagemaker:KeepAlivePeriod": resources.get("KeepAlivePeriodInSeconds"),
        "sagemaker:VolumeKmsKeyArn": resources.get("VolumeKmsKeyId"),
        "sagemaker:OutputKmsKeyArn": (request.get("OutputDataConfig") or {}).get("KmsKeyId"),
        "sagemaker:MaxRuntimeInSeconds": (request.get("StoppingCondition") or {}).get("MaxRuntimeInSeconds"),
        "sagemaker:VpcSubnets": network.get("Subnets"),
        "sagemaker:VpcSecurityGroupIds": network.get("SecurityGroupIds"),
        "sagemaker:NetworkIsolation": request.get("EnableNetworkIsolation"),
        "sagemaker:InterContainerTrafficEncryption": request.get("EnableInterContainerTrafficEncryption"),
        "sagemaker:EnableRemoteDebug": (request.get("RemoteDebugConfig") or {}).get("EnableRemoteDebug"),
    }
    return _present_keys(keys) | tag_keys({tag["Key"]: tag["Value"] for tag in request.get("Tags") or []})


def training_job_contexts(request: Mapping[str, Any]) -> list[Context]:
    """Return the keys of CreateTrainingJob for each of its channels on a file system; without one, one context.

    The keys of file systems have one value each ("String" in the Service Authorization Reference), and AWS's example
    for a request with two folders has a statement for each folder
    (https://docs.aws.amazon.com/sagemaker/latest/dg/security_iam_id-based-policy-examples.html). So every channel must
    be allowed separately.
    """
    common = training_job_keys(request)
    sources = [(channel.get("DataSource") or {}) for channel in request.get("InputDataConfig") or []]
    mounted = [source["FileSystemDataSource"] for source in sources if source.get("FileSystemDataSource")]
    return [common | file_system_keys(mounted_channel) for mounted_channel in mounted] or [common]


def file_system_keys(source: Mapping[str, Any]) -> Context:
    """Return the keys of one FileSystemDataSource."""
    names = {
        "FileSystemId": "FileSystemId",
        "FileSystemAccessMode": "FileSystemAccessMode",
        "FileSystemType": "FileSystemType",
        "DirectoryPath": "FileSystemDirectoryPath",
    }
    return _present_keys({f"sagemaker:{key}": source.get(member) for member, key in names.items()})


def tag_keys(tags: Mapping[str, str]) -> Context:
    """Return the keys of a request's tags; empty without tags."""
    return (
        {"aws:TagKeys": list(tags), **{f"aws:RequestTag/{key}": value for key, value in tags.items()}} if tags else {}
    )


def service_job_keys(request: Mapping[str, Any]) -> Context:
    """Return the keys of SubmitServiceJob except its tags; the payload has none."""
    return _present_keys(
        {
            "batch:ShareIdentifier": request.get("shareIdentifier"),
            "batch:SchedulingPriority": request.get("schedulingPriority"),
        }
    )


def metric_keys(request: Mapping[str, Any]) -> Context:
    """Return the keys of CloudWatch's PutMetricData."""
    return _present_keys({"cloudwatch:namespace": request.get("Namespace")})


def event_keys(request: Mapping[str, Any]) -> Context:
    """Return the keys of EventBridge's PutEvents; each contains the values of all entries."""
    entries = request.get("Entries") or []
    return _present_keys(
        {
            "events:source": [entry["Source"] for entry in entries if entry.get("Source")],
            "events:detail-type": [entry["DetailType"] for entry in entries if entry.get("DetailType")],
        }
    )


def object_keys(request: Mapping[str, Any]) -> Context:
    """Return the keys of a request that writes an object: the values of its headers, without any change.

    s3:if-none-match is the header of conditional writes
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html). The pattern of
    s3:x-amz-copy-source, of CopyObject and UploadPartCopy, begins with the bucket
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/amazon-s3-policy-keys.html). S3 also accepts a source with a
    leading slash, or the ARN of an access point; no source states that IAM sees these in the same form.
    """
    headers = {"s3:x-amz-copy-source": "CopySource", "s3:if-none-match": "IfNoneMatch"}
    return _present_keys({key: request.get(member) for key, member in headers.items()})


def session_keys(request: Mapping[str, Any]) -> Context:
    """Return the key of Session Manager's StartSession with a container: its target.

    https://docs.aws.amazon.com/sagemaker/latest/dg/train-remote-debugging.html
    """
    return _present_keys({"ssm:resourceTag/aws:ssmmessages:target-id": request.get("Target")})


KEYS: Mapping[str, Callable[[Mapping[str, Any]], Context]] = {
    "sagemaker:CreateTrainingJob": training_job_keys,
    "batch:SubmitJob": lambda request: tag_keys(request.get("tags") or {}),
    "batch:SubmitServiceJob": lambda request: tag_keys(request.get("tags") or {}) | service_job_keys(request),
    "batch:TagResource": lambda request: tag_keys(request.get("tags") or {}),
    "cloudwatch:PutMetricData": metric_keys,
    "s3:PutObject": object_keys,
    "ssm:StartSession": session_keys,
    "events:PutEvents": event_keys,
}
"""Functions that read an action's condition keys from its request alone; `resource_keys` has those that need more."""


def _present_keys(keys: Mapping[str, Any]) -> Context:
    return {
        key: [str(entry) for entry in value] if isinstance(value, list | tuple) else _text(value)
        for key, value in keys.items()
        if value not in (None, [], ())
    }


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
