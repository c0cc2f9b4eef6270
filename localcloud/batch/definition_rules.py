"""Definition rules: job definitions that AWS Batch does not register for Fargate.

https://docs.aws.amazon.com/batch/latest/userguide/fargate-job-definitions.html lists the exceptions of Fargate,
https://docs.aws.amazon.com/batch/latest/APIReference/API_ResourceRequirement.html the vCPUs with their memory.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
"""API reference, SubmitJob: "up to 128 letters (uppercase and lowercase), numbers, hyphens, and underscores"; "The
first character must be alphanumeric"."""
_MEMORY = {
    "0.25": (512, 1024, 2048),
    "0.5": range(1024, 4096 + 1, 1024),
    "1": range(2048, 8192 + 1, 1024),
    "2": range(4096, 16384 + 1, 1024),
    "4": range(8192, 30720 + 1, 1024),
    "8": range(16384, 61440 + 1, 4096),
    "16": range(32768, 122880 + 1, 8192),
    "32": (61440, 122880, 249856),
}
"""The MiB of memory that a number of vCPUs may have."""
_LOG_DRIVERS = ("awslogs", "splunk")
_PLATFORMS = ("1.3.0", "1.4.0", "LATEST")
MAX_PRIORITY = 9999
"""The greatest `schedulingPriority` (API reference, RegisterJobDefinition)."""


def problems(request: Mapping[str, Any]) -> Iterator[str]:
    """Yield why AWS Batch would refuse a request of RegisterJobDefinition, in its words where they are known."""
    name = str(request.get("jobDefinitionName") or "")
    if not NAME.fullmatch(name):
        yield f"jobDefinitionName {name!r} must begin with a letter or digit and have 1 to 128 letters, digits, _ and -"
    if not 0 <= int(request.get("schedulingPriority") or 0) <= MAX_PRIORITY:
        yield f"schedulingPriority must be from 0 to {MAX_PRIORITY}"
    if "FARGATE" in (request.get("platformCapabilities") or ()):
        yield from _problems_on_fargate(request.get("containerProperties") or {})


def _problems_on_fargate(container: Mapping[str, Any]) -> Iterator[str]:
    if not container.get("executionRoleArn"):
        yield "executionRoleArn is required for Fargate"
    linux = container.get("linuxParameters") or {}
    unsupported_fields = [
        name for name in ("vcpus", "memory", "instanceType", "ulimits", "privileged") if container.get(name)
    ]
    unsupported_fields += [
        name for name in ("devices", "maxSwap", "sharedMemorySize", "swappiness", "tmpfs") if linux.get(name)
    ]
    unsupported_fields += [
        "volumes.host" for volume in container.get("volumes") or () if (volume.get("host") or {}).get("sourcePath")
    ]
    if unsupported_fields:  # https://github.com/insitro/redun/pull/95
        yield f"{unsupported_fields[0]} is not applicable for Fargate."
    driver = (container.get("logConfiguration") or {}).get("logDriver") or "awslogs"
    if driver not in _LOG_DRIVERS:
        yield f"log driver {driver} is not supported on Fargate; it supports {' and '.join(_LOG_DRIVERS)}"
    platform = (container.get("fargatePlatformConfiguration") or {}).get("platformVersion") or "LATEST"
    if platform not in _PLATFORMS:
        yield f"Fargate platform version {platform} is none of {', '.join(_PLATFORMS)}"
    if not 20 < int((container.get("ephemeralStorage") or {}).get("sizeInGiB") or 21) <= 200:
        yield "ephemeralStorage.sizeInGiB must be from 21 to 200"
    yield from resource_problems(container)


def resource_problems(container: Mapping[str, Any]) -> Iterator[str]:
    """Yield why Fargate has no task with the `resourceRequirements` of a container."""
    value_by_kind = {
        requirement["type"]: str(requirement["value"]) for requirement in container.get("resourceRequirements") or ()
    }
    if "GPU" in value_by_kind:
        yield "GPU is not applicable for Fargate."
    for kind, label in (("VCPU", "vCPU"), ("MEMORY", "Memory")):
        if kind not in value_by_kind:  # https://github.com/ASFHyP3/hyp3/pull/586
            yield f"{label} is not provided."
            return
    try:
        vcpus, memory = Decimal(value_by_kind["VCPU"]), int(value_by_kind["MEMORY"])
    except (InvalidOperation, ValueError):
        yield f"Fargate resource requirements ({value_by_kind['VCPU']} vCPU, {value_by_kind['MEMORY']} MiB) not valid."
        return
    if memory not in next((sizes for number, sizes in _MEMORY.items() if Decimal(number) == vcpus), ()):
        # https://github.com/Netflix/metaflow/issues/749
        yield f"Fargate resource requirements ({vcpus:.2f} vCPU, {memory} MiB) not valid."
