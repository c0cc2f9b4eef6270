"""A grid that trains every version of every manifest of rounds, on a versioned bucket in memory."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from traingrid.api.submit_once import uploaded_once
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.job.state import JobState
from traingrid.manifest.json_lines import json_lines
from traingrid.rounds.journal import Contribution, LeftOut, RoundMerge, rounds_journal
from traingrid.rounds.rounds import Rounds
from traingrid.rounds.spec import RoundsSpec
from traingrid.rounds.state import Round, RoundsState
from traingrid.submission.files import submission_id
from traingrid.submission.journaled_jobs import ManifestRejectedError
from traingrid.submission.status import JobStatus
from verification.model.storage import Bucket

LINES: list[dict[str, Any]] = [
    {"region": "us-east-1", "s3_uri": "s3://a/x"},
    {"region": "us-west-2", "s3_uri": "s3://b/x"},
    {"region": "eu-west-1", "s3_uri": "s3://c/x"},
]
MERGE_REGION = "eu-west-1"


class KilledError(BaseException):
    """The process of the rounds has ended; no handler of the product may catch it."""


def spec(**changes: Any) -> RoundsSpec:
    content: dict[str, Any] = {
        "name": "cells",
        "lines": LINES,
        "epochs": 2,
        "rounds": 3,
        "outer": "diloco",
        "merge": {"region": MERGE_REGION},
    }
    return RoundsSpec.model_validate(content | changes)


@dataclass
class FakeRounds:
    """A grid whose jobs end after some reads of their status.

    Attributes:
        bucket: The manifest bucket.
        s3: The client of S3.
        effect: Called before and after each operation; it may raise KilledError.
        outcome: Changes a job when it is read.
        reject: Whether the intake rejects all manifests.
        cancelled: The names of the jobs that were cancelled.
    """

    bucket: str
    s3: Any = field(default_factory=Bucket)
    effect: Callable[[str], None] = lambda _name: None
    outcome: Callable[[JobStatus], JobStatus] = lambda job: job
    reject: bool = False
    cancelled: list[tuple[str, int]] = field(default_factory=list)
    reads: Counter[str] = field(default_factory=Counter)

    @property
    def storage(self) -> Storage:
        return Storage(make_client=lambda *_: self.s3)

    def check(self, manifest: bytes) -> None:
        assert manifest

    def submit(self, key: str, manifest: bytes) -> str:
        return self._submit(f"rounds/{key}", manifest)

    def _submit(self, key: str, manifest: bytes) -> str:
        uri = S3Uri(self.bucket, f"manifests/{key}")
        self.effect("upload")
        version = uploaded_once(self.storage, uri, manifest)
        self.effect("uploaded")
        if self.reject:
            raise ManifestRejectedError(TraingridError("rejected"))
        return submission_id(str(uri), version)

    def jobs(self, submission: str) -> list[JobStatus]:
        self.effect("read")
        self.reads[submission] += 1
        lines = next(lines for known, lines in self.submissions() if known == submission)
        return [self._job(submission, index, line) for index, line in enumerate(lines)]

    def cancel(self, submission: str, index: int, reason: str) -> None:
        self.effect("cancel")
        self.cancelled.append((submission, index))

    def decide_merge(self, part: Round, indexes: Sequence[int], left_out: Sequence[LeftOut], start: str) -> RoundMerge:
        contributions = tuple(self.contribution(job) for job in self.jobs(part.submission) if job.index in indexes)
        etags = [contribution.etag for contribution in contributions]
        name = f"{part.number}-merge"
        manifest = json_lines([{"region": MERGE_REGION, "name": name, "etags": etags, "start": start}])
        key = f"merges/{hashlib.sha256(manifest.encode()).hexdigest()[:12]}.jsonl"
        return RoundMerge(
            number=part.number, contributions=contributions, left_out=tuple(left_out), manifest=manifest, key=key
        )

    def submit_merge(self, part: Round, merge: RoundMerge, start: str) -> str:
        assert self.decide_merge(part, [each.index for each in merge.contributions], (), start).key == merge.key
        self.effect("copy")
        return self._submit(merge.key, merge.manifest.encode())

    def contribution(self, job: JobStatus) -> Contribution:
        return Contribution(region=job.region, index=job.index, artifact=job.artifact, etag=job.artifact, size=100)

    def submissions(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Yield the submission and the lines of every version of every manifest, as the intake submits them."""
        listed = self.s3.list_object_versions(Bucket=self.bucket, Prefix="manifests/")
        for version in () if self.reject else listed.get("Versions", []):
            uri = S3Uri(self.bucket, version["Key"])
            lines = self.storage.read(uri, version["VersionId"]).decode().splitlines()[1:]
            yield submission_id(str(uri), version["VersionId"]), [json.loads(line) for line in lines]

    def trained(self) -> Counter[str]:
        """The number of jobs that the intake has created, by name."""
        return Counter(line["name"] for _, lines in self.submissions() for line in lines)

    def _job(self, submission: str, index: int, line: dict[str, Any]) -> JobStatus:
        ended = self.reads[submission] > 1
        job = JobStatus(
            index=index,
            region=line["region"],
            name=line["name"],
            state=JobState.COMPLETED if ended else JobState.IN_PROGRESS,
            metrics={"validation_top1": 0.5},
            artifact=f"s3://output/{submission}/{index}/model.tar.gz" if ended else "",
            cancelled=(submission, index) in self.cancelled,
        )
        return self.outcome(job)


def failing(name: str, reason: str = "no capacity") -> Callable[[JobStatus], JobStatus]:
    """Return an outcome that fails the job of a name."""

    def outcome(job: JobStatus) -> JobStatus:
        failed = job.ended and job.name == name
        return replace(job, state=JobState.FAILED, reason=reason, artifact="") if failed else job

    return outcome


@pytest.fixture
def grid(deployment: Deployment) -> FakeRounds:
    return FakeRounds(deployment.manifest_bucket)


class KillableStorage(Storage):
    """S3 that reports each write of the journal."""

    effect: Callable[[str], None]

    def write_if_none(self, uri: S3Uri, content: bytes, content_type: str) -> bool:
        self.effect("write")
        done = super().write_if_none(uri, content, content_type)
        self.effect("written")
        return done


def rounds_of(grid: FakeRounds, wanted: RoundsSpec, clock: Callable[[], float] = lambda: 0.0) -> Rounds:
    """Return rounds as a new process has them."""
    storage = KillableStorage(make_client=lambda *_: grid.s3)
    storage.effect = grid.effect
    journal = rounds_journal(storage, grid.bucket, wanted.name)
    return Rounds(spec=wanted, lines=list(LINES), journal=journal, grid=grid, clock=clock)


def finished(grid: FakeRounds, wanted: RoundsSpec, clock: Callable[[], float] = lambda: 0.0) -> RoundsState:
    """Run rounds to their end, and return their state."""
    rounds = rounds_of(grid, wanted, clock)
    rounds.begin()
    while not (progress := rounds.step()).ended:
        pass
    return progress.state
