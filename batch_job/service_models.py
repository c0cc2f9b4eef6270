"""`python -m batch_job.service_models FOLDER [--only]`: the part of botocore's service models that a child needs.

botocore reads a whole service before its first call: all of SageMaker for the few operations that handle training jobs,
and the endpoints of every service of AWS. That is a third of a child's memory. This writes smaller copies, which
botocore prefers where AWS_DATA_PATH names the folder (botocore/loaders.py); a service that is not in it is read from
botocore itself. Run when the image is built, so that copies and botocore are of one version.

`--only` also takes out of botocore the services that a child does not call: 26 MB, which every child would pull. Then a
client of another service cannot be made; tests/stacks/test_permissions.py holds the roles of children to this list.
"""

import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import botocore
from botocore.loaders import Loader

_ALL = ("",)
OPERATIONS = {
    "dynamodb": _ALL,
    "logs": _ALL,
    "s3": _ALL,
    "sagemaker": ("TrainingJob", "ListTags"),
    "sts": ("AssumeRole",),
    "batch": ("ServiceJob",),
}
"""The services that a child calls, and what the names of the operations have that it may call: one of these words."""


def write(folder: Path) -> None:
    """Write the models into a folder, which AWS_DATA_PATH then names."""
    loader = Loader()
    for service, words in OPERATIONS.items():
        version = loader.determine_latest_version(service, "service-2")
        model = with_operations(loader.load_service_model(service, "service-2", version), words)
        _dump(model, folder / service / version / "service-2.json")
    _dump(with_services(loader.load_data("endpoints"), OPERATIONS), folder / "endpoints.json")


def keep_only(data: Path) -> None:
    """Remove from a `data` folder of botocore the services that a child does not call, and all examples."""
    for folder in data.iterdir():
        if folder.is_dir() and folder.name not in OPERATIONS:
            shutil.rmtree(folder)
    for examples in data.rglob("examples-1.json"):
        examples.unlink()


def with_operations(model: dict[str, Any], words: Iterable[str]) -> dict[str, Any]:
    """Return a service model with the operations whose names have one of `words`, the shapes they use, and no prose."""
    operations = {name: found for name, found in model["operations"].items() if any(word in name for word in words)}
    shapes: dict[str, Any] = {}
    wanted = _references(operations)
    while wanted:
        name = wanted.pop()
        if name not in shapes:
            shapes[name] = model["shapes"][name]
            wanted |= _references(shapes[name])
    return {**model, "operations": _without_prose(operations), "shapes": _without_prose(shapes)}


def with_services(endpoints: dict[str, Any], services: Iterable[str]) -> dict[str, Any]:
    """Return the list of endpoints with these services only; Regions and rules of all partitions stay."""
    kept = set(services)
    partitions = [
        {**partition, "services": {name: found for name, found in partition["services"].items() if name in kept}}
        for partition in endpoints["partitions"]
    ]
    return {**endpoints, "partitions": partitions}


def _references(part: Any) -> set[str]:
    """Return the names of the shapes that a part of a model refers to."""
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
    prose = "documentation" if isinstance(part.get("documentation"), str) else None  # a member may be called so
    return {name: _without_prose(one) for name, one in part.items() if name != prose}


def _dump(document: dict[str, Any], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
    if "--only" in sys.argv[2:]:
        keep_only(Path(botocore.__file__).with_name("data"))
