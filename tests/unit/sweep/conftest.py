"""A grid that trains every version of every manifest of sweeps, on a versioned bucket in memory."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from traingrid.api.submit_once import uploaded_once
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.job.state import JobState
from traingrid.submission.files import submission_id
from traingrid.submission.journaled_jobs import ManifestRejectedError
from traingrid.submission.status import JobStatus
from traingrid.sweep.journal import sweep_journal
from traingrid.sweep.spec import SweepSpec
from traingrid.sweep.sweep import Sweep
from verification.model.storage import Bucket

LINES: list[Mapping[str, Any]] = [
    {"region": "us-east-1", "s3_uri": "s3://a/x"},
    {"region": "eu-west-1", "s3_uri": "s3://b/x"},
]
EPOCHS = 4


class KilledError(BaseException):
    """The process of the sweep has ended; no handler of the product may catch it."""


def loss(parameters: Mapping[str, Any]) -> float:
    """A known function, with its optimum 0 at rate 0.01 and depth 5."""
    return float((math.log10(parameters["rate"]) + 2) ** 2 + (parameters["depth"] - 5) ** 2 / 10)


def spec(**changes: Any) -> SweepSpec:
    made: dict[str, Any] = {
        "name": "rates",
        "lines": LINES,
        "search": {"hp.rate": {"log_range": [1e-4, 1.0]}, "hp.depth": {"int": [1, 9]}},
        "objective": {"metric": "loss", "direction": "minimize"},
        "trials": 9,
        "parallel": 3,
    }
    return SweepSpec.model_validate(made | changes)


@dataclass
class FakeGrid:
    """A grid whose jobs end after some reads of their status.

    Attributes:
        bucket: The manifest bucket.
        s3: The client of S3.
        effect: Called before and after each operation; it may raise KilledError.
        reads: The reads of a submission's status until its jobs have ended.
        outcome: Changes the job of a trial when it is read.
        reject: Whether the intake rejects all manifests.
        cancelled: The jobs that were cancelled, with the number of requests.
    """

    bucket: str
    s3: Any = field(default_factory=Bucket)
    effect: Callable[[str], None] = lambda _name: None
    reads: int = 2
    outcome: Callable[[JobStatus], JobStatus] = lambda job: job
    reject: bool = False
    cancelled: Counter[tuple[str, int]] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    most_open: int = 0
    manifests: dict[tuple[str, str], list[Any]] = field(default_factory=dict)

    @property
    def storage(self) -> Storage:
        return Storage(make_client=lambda *_: self.s3)

    def check(self, manifest: bytes) -> None:
        assert manifest

    def submit(self, key: str, manifest: bytes) -> str:
        uri = S3Uri(self.bucket, f"manifests/sweeps/{key}")
        self.effect("upload")
        version = uploaded_once(self.storage, uri, manifest)
        self.effect("uploaded")
        if self.reject:
            raise ManifestRejectedError(TraingridError("rejected"))
        self.most_open = max(self.most_open, sum(not job.ended for job in self.all_jobs()))
        return submission_id(str(uri), version)

    def jobs(self, submission: str) -> list[JobStatus]:
        self.effect("read")
        self.seen[submission] += 1
        return [job for known, job in self._every_job() if known == submission]

    def curves(self, submission: str, indexes: Sequence[int], metric: str) -> dict[int, list[tuple[int, float]]]:
        found = {}
        for job in (job for known, job in self._every_job() if known == submission and job.index in indexes):
            epochs = EPOCHS if job.ended else min(self.seen[submission], EPOCHS)
            value = job.metrics[metric]
            found[job.index] = [(epoch, value + EPOCHS - epoch) for epoch in range(1, epochs + 1)]
        return found

    def cancel(self, submission: str, index: int, reason: str) -> None:
        self.effect("cancel")
        self.cancelled[submission, index] += 1
        self.effect("was cancelled")

    def all_jobs(self) -> list[JobStatus]:
        return [job for _, job in self._every_job()]

    def trained(self) -> Counter[str]:
        """The number of jobs that the intake has created, by the name of the trial."""
        return Counter(job.name for job in self.all_jobs())

    def _every_job(self) -> list[tuple[str, JobStatus]]:
        """Return the jobs of every version of every manifest, as the intake creates them."""
        listed = self.s3.list_object_versions(Bucket=self.bucket, Prefix="manifests/")
        found = []
        for version in () if self.reject else listed.get("Versions", []):
            uri = S3Uri(self.bucket, version["Key"])
            submission = submission_id(str(uri), version["VersionId"])
            identity = (version["Key"], version["VersionId"])
            if identity not in self.manifests:
                lines = self.storage.read(uri, version["VersionId"]).decode().splitlines()[1:]
                self.manifests[identity] = [json.loads(line) for line in lines]
            for index, line in enumerate(reversed(self.manifests[identity])):  # indexes are not in the order of lines
                found.append((submission, self._job(submission, index, line)))
        return found

    def _job(self, submission: str, index: int, line: Mapping[str, Any]) -> JobStatus:
        ended = self.seen[submission] > self.reads
        job = JobStatus(
            index=index,
            region=line["region"],
            name=line["name"],
            state=JobState.COMPLETED if ended else JobState.IN_PROGRESS,
            created=True,
            metrics={"loss": loss(line["hyperparameters"])},
            artifact="s3://output/model.tar.gz" if ended else "",
            cancelled=(submission, index) in self.cancelled,
        )
        job = self.outcome(job)
        return replace(job, state=JobState.STOPPED) if job.cancelled else job


@pytest.fixture
def grid(deployment: Deployment) -> FakeGrid:
    return FakeGrid(deployment.manifest_bucket)


@pytest.fixture
def storage(grid: FakeGrid) -> Storage:
    return grid.storage


class KillableStorage(Storage):
    """S3 that reports each write of the journal."""

    effect: Callable[[str], None]

    def write_if_none(self, uri: S3Uri, content: bytes, content_type: str) -> bool:
        self.effect("write")
        done = super().write_if_none(uri, content, content_type)
        self.effect("written")
        return done


def sweep_of(grid: FakeGrid, wanted: SweepSpec) -> Sweep:
    """Return a sweep as a new process has it."""
    storage = KillableStorage(make_client=lambda *_: grid.s3)
    storage.effect = grid.effect
    return Sweep(spec=wanted, lines=list(LINES), journal=sweep_journal(storage, grid.bucket, wanted.name), grid=grid)


def finished(grid: FakeGrid, wanted: SweepSpec) -> Sweep:
    """Run a sweep to its end."""
    sweep = sweep_of(grid, wanted)
    sweep.begin()
    while not sweep.step().ended:
        pass
    return sweep
