"""Live training jobs: what runs in the services at a moment, read from their own state and not through traingrid.

In a cluster, pods and objects are found by the name of the training job in `spec.subdomain`, which cannot change, and
not by labels, which can.
"""

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from moto.sagemaker.models import sagemaker_backends

from localcloud.kubernetes.cluster import RunningCluster
from localcloud.kubernetes.resources import JOB, MPI_JOB_RESOURCE, POD, Resource
from localcloud.sagemaker.backend import TrainingBackend
from traingrid import names
from traingrid.audit.violation import Violation
from traingrid.ledger.items import Line
from verification.faults.account import ACCOUNT
from verification.faults.faulty_grid import FaultyGrid
from verification.faults.submissions import REGIONS

_ENDED_PODS = ("Succeeded", "Failed")
_ENDS = ("Complete", "Succeeded", "Failed")
_STEP_SECONDS = 0.05


def training_job_of(pod: Mapping[str, Any]) -> str:
    """Return the name of the training job of a pod, or of a pod template; empty if it is another person's."""
    return str(pod["spec"].get("subdomain") or "")


def pods_of(cluster: RunningCluster, name: str = "") -> list[dict[str, Any]]:
    """Return the pods of a training job, or of all, that have not ended."""

    def lives(pod: Mapping[str, Any]) -> bool:
        own = training_job_of(pod)
        return bool(own and name in ("", own) and pod["status"].get("phase") not in _ENDED_PODS)

    return list(cluster.store.all(POD, where=lives)[0])


def object_of(cluster: RunningCluster, name: str) -> tuple[Resource, dict[str, Any]] | None:
    """Return the object of a training job with its kind; None if it is gone."""
    for resource in (JOB, MPI_JOB_RESOURCE):
        found, _ = cluster.store.all(resource, where=lambda one: one["metadata"]["name"] == name)
        if found:
            return resource, found[0]
    return None


def names_in(cluster: RunningCluster) -> set[str]:
    """Return the names of the training jobs of a cluster that have pods, or will have some."""

    def will_run(one: Mapping[str, Any]) -> bool:
        conditions = (one.get("status") or {}).get("conditions") or []
        ended = any(each["type"] in _ENDS and each["status"] == "True" for each in conditions)
        is_own = training_job_of(_template(one)) == one["metadata"]["name"]
        return is_own and not ended and "deletionTimestamp" not in one["metadata"]

    found = set(map(training_job_of, pods_of(cluster)))
    for resource in (JOB, MPI_JOB_RESOURCE):
        found |= {one["metadata"]["name"] for one in cluster.store.all(resource, where=will_run)[0]}
    return found


def _template(one: Mapping[str, Any]) -> Mapping[str, Any]:
    replicas = one["spec"].get("mpiReplicaSpecs") or {}
    template: Mapping[str, Any] = replicas.get("Launcher", one["spec"])["template"]
    return template


def names_in_sagemaker(region: str) -> set[str]:
    """Return the names of the training jobs of SageMaker in a Region that have not ended."""
    backend: TrainingBackend = sagemaker_backends[ACCOUNT][region]
    return {name for name, job in list(backend.training_jobs.items()) if not job.progress.is_final}


@dataclass(kw_only=True)
class Monitor:
    """Samples all engines in a thread, and notes lines with two live training jobs.

    Attributes:
        found: The violations, one for each pair of training jobs.
    """

    grid: FaultyGrid
    samples: int = 0
    found: dict[tuple[str, ...], Violation] = field(default_factory=dict)

    @contextmanager
    def watching(self) -> Iterator["Monitor"]:
        """Sample during the block."""
        ended = threading.Event()
        thread = threading.Thread(target=self._run, args=(ended,), name="monitor", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(_STEP_SECONDS):
            self.sample()

    def sample(self) -> None:
        """Note the lines with two training jobs that were live in two reads with the read of the other one between."""
        first, between, last = self._places(), self._places(), self._places()
        self.samples += 1
        for line, places in between.items():
            live = sorted(places & first.get(line, set()) & last.get(line, set()))
            if len(live) > 1:
                what = f"job {line[1]} of {line[0]} has two live training jobs: {', '.join(live)}"
                violation = Violation(invariant="I2", kind="duplicate", submission=line[0], what=what)
                self.found.setdefault(tuple(live), violation)

    def _places(self) -> dict[Line, set[str]]:
        found: dict[Line, set[str]] = defaultdict(set)
        for region in REGIONS:
            engines = {"SageMaker": names_in_sagemaker(region)}
            if self.grid.engine.name == "eks":
                engines["EKS"] = names_in(self.grid.cluster(region))
            for engine, live in engines.items():
                for name in live:
                    identity = names.parse_training_job("grid", name)
                    if identity:
                        found[identity.submission, identity.index].add(f"{name} on {engine} in {region}")
        return found
