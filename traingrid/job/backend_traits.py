"""Backend traits: the services that run training jobs, and the properties that the rest of traingrid depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

BackendName = Literal["sagemaker", "eks"]
"""The service that runs a training job: Amazon SageMaker, or a Kubernetes cluster of Amazon EKS."""

DEFAULT_BACKEND: BackendName = "sagemaker"
"""The backend that every Region has. It is not written into items and logs, as in those of older versions."""


@dataclass(frozen=True, kw_only=True)
class BackendTraits:
    """The properties of a backend.

    Attributes:
        service: The name of the service, in messages.
        title: Its short name, in sentences about a place.
        has_events: True if events of the service record changes in the ledger; otherwise children record them.
        has_prices: True if AWS bills each training job by instances and time; otherwise the user pays for nodes.
        keeps_jobs: True if the service keeps ended training jobs, and so their names are taken for ever.
        fails_without_capacity: True if a training job fails when there is no capacity; otherwise it waits.
        archives_each_host: True if each host uploads its own archive of the model; otherwise there is one for all.
    """

    service: str
    title: str
    has_events: bool
    has_prices: bool
    keeps_jobs: bool
    fails_without_capacity: bool
    archives_each_host: bool


TRAITS: Mapping[BackendName, BackendTraits] = {
    "sagemaker": BackendTraits(
        service="SageMaker",
        title="SageMaker",
        has_events=True,
        has_prices=True,
        keeps_jobs=True,
        fails_without_capacity=True,
        archives_each_host=False,
    ),
    "eks": BackendTraits(
        service="Amazon EKS",
        title="EKS",
        has_events=False,
        has_prices=False,
        keeps_jobs=False,
        fails_without_capacity=False,
        archives_each_host=True,
    ),
}


def backend_field(backend: BackendName, name: str = "backend") -> dict[str, BackendName]:
    """Return the field with a backend; empty for the default one.

    Args:
        backend: The backend.
        name: The name of the field.
    """
    return {} if backend == DEFAULT_BACKEND else {name: backend}
