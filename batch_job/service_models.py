"""Service models: writes the part of botocore's models that a child needs.

Usage: `python -m batch_job.service_models FOLDER [--only]`

Before the first call to a service, botocore reads its whole model: all of SageMaker for the few operations on training
jobs, and the endpoints of every AWS service. That is a third of a child's memory. The smaller copies in FOLDER take
precedence if AWS_DATA_PATH names the folder (botocore/loaders.py). botocore's own models serve all other services. Run
this when the image is built, so that the copies have the same version as botocore.

`--only` also deletes from botocore the services that a child does not call: 26 MB that every child would pull. Clients
of those services can then not be created; tests/integration/stacks/test_permissions.py checks that children have
permissions for no other service.
"""

import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import botocore
from botocore.loaders import Loader

OPERATIONS = {
    "dynamodb": ("DeleteItem", "GetItem", "PutItem", "Query", "Scan", "UpdateItem"),
    "logs": ("DescribeLogStreams", "GetLogEvents"),
    "s3": (
        *("CopyObject", "DeleteObject", "GetObject", "HeadObject", "ListObjectVersions", "ListObjectsV2", "PutObject"),
        *("AbortMultipartUpload", "CompleteMultipartUpload", "CreateMultipartUpload", "ListMultipartUploads"),
        *("ListParts", "UploadPartCopy"),
    ),
    "sagemaker": ("CreateTrainingJob", "DescribeTrainingJob", "ListTags", "ListTrainingJobs", "StopTrainingJob"),
    "sts": ("AssumeRole", "GetCallerIdentity"),
    "batch": ("DescribeServiceJob", "ListServiceJobs", "SubmitServiceJob", "TerminateServiceJob"),
    "eks": ("DescribeCluster",),
}
"""The services that a child calls, and the operations that its modules call."""


def write(folder: Path) -> None:
    """Write the models into `folder`, to which AWS_DATA_PATH must then point."""
    loader = Loader()
    for service, names in OPERATIONS.items():
        version = loader.determine_latest_version(service, "service-2")
        model = with_operations(loader.load_service_model(service, "service-2", version), names)
        _dump(model, folder / service / version / "service-2.json")
    _dump(with_services(loader.load_data("endpoints"), OPERATIONS), folder / "endpoints.json")


def keep_only(data: Path) -> None:
    """Delete the services that a child does not call, and all examples, from botocore's `data` folder."""
    for folder in data.iterdir():
        if folder.is_dir() and folder.name not in OPERATIONS:
            shutil.rmtree(folder)
    for examples in data.rglob("examples-1.json"):
        examples.unlink()


def with_operations(model: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a service model reduced to the operations `names`, their shapes, and no prose."""
    operations = {name: model["operations"][name] for name in names}
    shapes: dict[str, Any] = {}
    shape_names = _references(operations)
    while shape_names:
        name = shape_names.pop()
        if name not in shapes:
            shapes[name] = model["shapes"][name]
            shape_names |= _references(shapes[name])
    return {**model, "operations": _without_prose(operations), "shapes": _without_prose(shapes)}


def with_services(endpoints: dict[str, Any], services: Iterable[str]) -> dict[str, Any]:
    """Return the endpoints data reduced to `services`. The Regions and rules of all partitions are kept."""
    kept_services = set(services)
    partitions = [
        {
            **partition,
            "services": {name: service for name, service in partition["services"].items() if name in kept_services},
        }
        for partition in endpoints["partitions"]
    ]
    return {**endpoints, "partitions": partitions}


def _references(part: Any) -> set[str]:
    """Return the names of the shapes that a part of a service model refers to."""
    if isinstance(part, list):
        return set().union(*map(_references, part))
    if not isinstance(part, dict):
        return set()
    named = {part["shape"]} if isinstance(part.get("shape"), str) else set()
    return named.union(*map(_references, part.values()))


def _without_prose(part: Any) -> Any:
    if isinstance(part, list):
        return [_without_prose(one) for one in part]
    if not isinstance(part, dict):
        return part
    prose = "documentation" if isinstance(part.get("documentation"), str) else None  # it may be a member's name, too
    return {name: _without_prose(one) for name, one in part.items() if name != prose}


def _dump(document: dict[str, Any], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
    if "--only" in sys.argv[2:]:
        keep_only(Path(botocore.__file__).with_name("data"))
