"""Stored request: the request of a training job in the pod template of its object, which other programs can write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from traingrid.backends.eks import labels
from traingrid.backends.sagemaker.request import fingerprint
from traingrid.ledger.damage import Damaged
from traingrid.strict_json import JsonError, json_object, member

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.kubernetes.client import Kind


@dataclass(frozen=True, kw_only=True)
class StoredRequest:
    """A request in SageMaker's form.

    Attributes:
        tags: Its tags by key; none without a request.
        fingerprint: Its fingerprint; empty without a request.
        output: The S3 URI below which it stores models; empty without a request.
        problem: The rule that its text breaks; empty if it can be read, or there is none.
    """

    tags: dict[str, str] = field(default_factory=dict)
    fingerprint: str = ""
    output: str = ""
    problem: str = ""


def stored_request(entry: Mapping[str, Any]) -> StoredRequest:
    """Return the request of a Job or MPIJob; without contents if it has none, or one that cannot be read.

    The operator's API does not check the pod template of an MPIJob, so any part of it may have another type.
    """
    spec = _mapping(entry.get("spec"))
    replicas = _mapping(spec.get("mpiReplicaSpecs"))
    owner_of_template = _mapping(replicas.get("Launcher", spec))
    template = _mapping(owner_of_template.get("template"))
    metadata = _mapping(template.get("metadata"))
    text = _mapping(metadata.get("annotations")).get(labels.REQUEST)
    if not text:
        return StoredRequest()
    try:
        request = json_object(str(text))
        return StoredRequest(
            tags={member(tag, "Key", str): member(tag, "Value", str) for tag in request.get("Tags", [])},
            fingerprint=fingerprint(request) if request else "",
            output=str(request.get("OutputDataConfig", {}).get("S3OutputPath", "")),
        )
    except JsonError as error:
        return StoredRequest(problem=error.rule)
    except (KeyError, TypeError, AttributeError):
        return StoredRequest(problem="a request of CreateTrainingJob")


def damaged(kind: Kind, entry: Mapping[str, Any], region: str, problem: str) -> Damaged:
    """Return the report of an object whose request cannot be read, so that nothing shows its grid."""
    name, namespace = entry["metadata"]["name"], entry["metadata"]["namespace"]
    return Damaged(
        place=f"The {kind.kind} {namespace}/{name} in {region}",
        problem=f"must have {problem} as {labels.REQUEST} in its pod template, which shows its grid",
        next_step=f"If its training is not needed, delete it: kubectl delete {kind.plural} {name} -n {namespace}.",
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
