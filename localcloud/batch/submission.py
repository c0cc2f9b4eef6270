"""SubmitJob: checks the request as AWS Batch does, and applies overrides and parameters to the container."""

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from moto.batch.exceptions import ClientException
from moto.batch.models import BatchBackend, JobDefinition, JobQueue
from moto.core.exceptions import AWSError

from localcloud.batch.definition_rules import NAME, problems, resource_problems
from localcloud.batch.jobs import Submission
from localcloud.batch.retries import problem_with

MIN_ARRAY, MAX_ARRAY = 2, 10_000
MIN_TIMEOUT_SECONDS = 60
MAX_PAYLOAD_BYTES = 30 * 1024
"""AWS Batch User Guide, "AWS Batch service quotas": maximum job payload size for SubmitJob, 30 KiB."""
_MAX_TAGS = 50
_TAG = re.compile(r"[\w\s+\-=.:/@]*")
"""Letters and digits of any language, spaces and + - = . _ : / @
(https://docs.aws.amazon.com/batch/latest/userguide/using-tags.html)."""
_PARAMETER = re.compile(r"Ref::([A-Za-z0-9_-]+)")


class InvalidTagError(AWSError):
    """AWS Batch's error for a tag with invalid characters (https://github.com/Netflix/metaflow/issues/1345)."""

    TYPE = "BadRequestException"


def read(backend: BatchBackend, request: Mapping[str, Any]) -> Submission:
    """Check a SubmitJob request against a Region's queues and definitions.

    Args:
        request: The request's body, with the API's member names.

    Raises:
        ClientException: If AWS would refuse the request, or it needs a part of Batch that localcloud lacks.
        InvalidTagError: If a tag has a character that AWS does not allow.
    """
    payload = len(json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode())
    if payload > MAX_PAYLOAD_BYTES:
        _refuse(f"the request has {payload} bytes; SubmitJob accepts at most {MAX_PAYLOAD_BYTES}")
    name = str(request.get("jobName") or "")
    if not NAME.fullmatch(name):
        _refuse(f"jobName {name!r} must begin with a letter or digit and have 1 to 128 letters, digits, _ and -")
    for left_out in ("dependsOn", "nodeOverrides", "eksPropertiesOverride", "ecsPropertiesOverride"):
        if request.get(left_out):
            _refuse(f"{left_out} is not supported by localcloud; submit the job without it")
    definition = _definition(backend, str(request.get("jobDefinition") or ""))
    strategy = request.get("retryStrategy") or definition.retry_strategy or None
    problem = problem_with(strategy)
    if problem:
        _refuse(problem)
    parameters = {**(definition.parameters or {}), **(request.get("parameters") or {})}
    container = _container(definition, request.get("containerOverrides") or {}, parameters)
    propagate = request.get("propagateTags")
    queue = _queue(backend, str(request.get("jobQueue") or ""))
    if bool(request.get("shareIdentifier")) != bool(queue.schedule_policy):  # API reference, SubmitJob, shareIdentifier
        _refuse(f"shareIdentifier must be given for queues with a scheduling policy only; got jobQueue {queue.name}")
    return Submission(
        name=name,
        definition=definition,
        queue=queue,
        container=container,
        retry_strategy=strategy,
        timeout=_timeout(request.get("timeout") or definition.timeout),
        parameters=parameters,
        tags=_tags(request.get("tags")),
        propagate_tags=bool(definition.propagate_tags if propagate is None else propagate),
        size=_size(request.get("arrayProperties") or {}),
        milli_vcpus=_milli_vcpus(container),
        share=str(request.get("shareIdentifier") or ""),
        priority=int(request.get("schedulingPriorityOverride") or 0),
    )


def check_definition(request: Mapping[str, Any]) -> None:
    """Check a RegisterJobDefinition request.

    Raises:
        ClientException: If AWS would refuse the request.
    """
    problem = problem_with(request.get("retryStrategy")) or next(problems(request), None)
    if problem:
        _refuse(problem)
    _timeout(request.get("timeout"))


def _refuse(message: str) -> None:
    raise ClientException(f"Error executing request, Exception : {message}")


def _definition(backend: BatchBackend, identifier: str) -> JobDefinition:
    definition = backend.get_job_definition(identifier)
    if definition is None or definition.status != "ACTIVE":
        raise ClientException(f"JobDefinition {identifier!r} does not exist or is not ACTIVE in {backend.region_name}")
    if definition.container_properties is None:
        raise ClientException(f"localcloud runs only container jobs; {definition.arn} has no containerProperties")
    return definition


def _queue(backend: BatchBackend, identifier: str) -> JobQueue:
    queue = backend.get_job_queue(identifier)
    if queue is None:
        raise ClientException(f"JobQueue {identifier!r} does not exist in {backend.region_name}")
    if queue.state != "ENABLED" or queue.status != "VALID":
        _refuse(f"JobQueue {queue.name} is {queue.state} and {queue.status}; it must be ENABLED and VALID")
    return queue


def _size(array: Mapping[str, Any]) -> int | None:
    size = array.get("size")
    if size is not None and not MIN_ARRAY <= int(size) <= MAX_ARRAY:
        _refuse(f"arrayProperties.size must be between {MIN_ARRAY} and {MAX_ARRAY}; got {size}")
    return None if size is None else int(size)


def _timeout(timeout: Mapping[str, Any] | None) -> dict[str, int] | None:
    if not timeout or timeout.get("attemptDurationSeconds") is None:
        return None
    seconds = int(timeout["attemptDurationSeconds"])
    if seconds < MIN_TIMEOUT_SECONDS:
        _refuse(f"timeout.attemptDurationSeconds must be at least {MIN_TIMEOUT_SECONDS}; got {seconds}")
    return {"attemptDurationSeconds": seconds}


def _tags(tags: Mapping[str, str] | None) -> dict[str, str]:
    # AWS's API reference requires one tag. Not checked, because Airflow's BatchOperator sends an empty map without any:
    # https://github.com/apache/airflow/blob/main/providers/amazon/src/airflow/providers/amazon/aws/operators/batch.py
    if len(tags or {}) > _MAX_TAGS:
        _refuse(f"tags must have at most {_MAX_TAGS} entries; got {len(tags or {})}")
    for key, value in (tags or {}).items():
        for kind, text in (("TagKey", key), ("TagValue", value)):
            if not _TAG.fullmatch(text):
                raise InvalidTagError(f"'{text}' is not a valid value for {kind} - it contains illegal characters")
    return dict(tags or {})


def _container(
    definition: JobDefinition, overrides: Mapping[str, Any], parameters: Mapping[str, str]
) -> dict[str, Any]:
    """Apply containerOverrides to containerProperties: merge environment and resources by name, replace the rest."""
    container: dict[str, Any] = dict(definition.container_properties or {})
    for field_name in ("command", "instanceType", "vcpus", "memory"):
        if overrides.get(field_name) is not None:
            container[field_name] = overrides[field_name]
    container["environment"] = _merge("name", container.get("environment") or [], overrides.get("environment") or [])
    container["resourceRequirements"] = _merge(
        "type", container.get("resourceRequirements") or [], overrides.get("resourceRequirements") or []
    )
    container["command"] = [_with_parameters(part, parameters) for part in container.get("command") or []]
    on_fargate = "FARGATE" in (definition.platform_capabilities or ())
    if on_fargate and (problem := next(resource_problems(container), None)):
        _refuse(problem)
    return container


def _merge(key: str, first: Iterable[Mapping[str, str]], second: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    merged = {entry[key]: dict(entry) for entry in (*first, *second)}
    return list(merged.values())


def _with_parameters(part: str, parameters: Mapping[str, str]) -> str:
    """Replace `Ref::name` with the parameter's value; keep an unknown one (User Guide, job parameters)."""
    return _PARAMETER.sub(lambda match: parameters.get(match[1], match[0]), str(part))


def _milli_vcpus(container: Mapping[str, Any]) -> int:
    values = [entry["value"] for entry in container["resourceRequirements"] if entry["type"].upper() == "VCPU"]
    value = values[-1] if values else container.get("vcpus", 1)
    try:
        milli = int(Decimal(str(value)) * 1000)
    except InvalidOperation:
        milli = 0
    if milli <= 0:
        _refuse(f"VCPU must be a positive number; got {value!r}")
    return milli
