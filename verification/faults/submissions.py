"""Submissions of the fault suite: uploads manifests to a deployed grid, and reads and audits their jobs."""

import itertools
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from types import MappingProxyType
from typing import Any

from traingrid import names
from traingrid.audit.audit import audit
from traingrid.audit.calls import created_resource, submission_of
from traingrid.audit.read_snapshot import read_world
from traingrid.audit.snapshot import World
from traingrid.audit.violation import Violation
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.job.state import FINAL_STATES
from traingrid.ledger.damage import intact
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.submission.batch_children import Children
from traingrid.submission.cancel import Canceller, CancelReport, CancelTarget
from traingrid.submission.files import submission_id
from traingrid.submission.intake import ManifestVersion
from verification.deployed_grid import DeployedGrid, until
from verification.faults.account import ACCOUNT

REGIONS = ("us-east-1", "eu-west-1")
_NO_FIELDS: Mapping[str, str] = MappingProxyType({})
_READ_ONE_BY_ONE = 12
"""With more submissions than this, the whole grid is read in one pass, even if most of it belongs to others."""


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A manifest that the deployed intake has submitted.

    Attributes:
        batch_job: Id of its Batch array, or of the first one if it has several.
        batch_jobs: Ids of all its arrays.
        file: S3 URI, with version, of the file that its children read.
    """

    id: str
    batch_job: str
    batch_jobs: tuple[str, ...]
    lines: int
    file: str


@dataclass(kw_only=True)
class SubmittingGrid(DeployedGrid):
    """A deployed grid with operations on submissions."""

    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def manifest(self, lines: int, retries: int = 0, fields: Mapping[str, str] = _NO_FIELDS) -> str:
        """Return a manifest whose lines alternate between the Regions.

        Args:
            retries: Retries per line. If it is not 0, half of the lines also have a replica in the other Region.
            fields: Additional fields, the same in each line.

        In a grid with clusters, every fourth line is an MPIJob.
        """
        replicas = tuple(f"replica.{region}" for region in REGIONS)
        has_clusters = any(region.eks for region in self.plane.deployment.grid.regions.values())
        kind = ("eks_kind",) if has_clusters else ()
        header = ("region", "s3_uri", "name", "retries", *replicas, *kind, *fields)
        rows = [",".join(header)]
        for index in range(lines):
            region, other_region = REGIONS[index % 2], REGIONS[(index + 1) % 2]
            copies = (
                data_folder(name) if retries and index % 4 < 2 and name == other_region else "" for name in REGIONS
            )
            own = (region, data_folder(region), f"job-{index}", str(retries or ""))
            kinds = ("mpijob" if index % 4 == 3 else "job",) if has_clusters else ()
            rows.append(",".join((*own, *copies, *kinds, *fields.values())))
        return "\n".join(rows) + "\n"

    def upload(self, lines: int, retries: int = 0, fields: Mapping[str, str] = _NO_FIELDS) -> str:
        """Upload a manifest (see `manifest`) under a new name, and return the id of its future submission."""
        source = self.put(self.manifest(lines, retries, fields).encode())
        return submission_id(str(source.uri), source.version)

    def put(self, content: bytes) -> ManifestVersion:
        """Upload arbitrary bytes as a manifest under a new name."""
        uri = S3Uri(self.plane.deployment.manifest_bucket, f"{names.MANIFEST_PREFIX}{next(self._numbers)}.csv")
        return ManifestVersion(uri=uri, version=self.plane.storage.write(uri, content, "text/csv"))

    def report(self, source: ManifestVersion) -> dict[str, Any]:
        """Wait for the report that the intake writes next to a manifest, and return it."""
        content = until(
            lambda: self.plane.storage.read_if_exists(source.report), f"the intake has reported on {source.uri}"
        )
        return dict(json.loads(content))

    def submitted(self, submission: str) -> Submission:
        """Wait until the intake has submitted a manifest."""

        def look() -> SubmissionItem | None:
            item = self.plane.ledger.submission(submission)
            return item if item and item.batch_job else None

        item = until(look, f"submission {submission} is submitted")
        return Submission(
            id=submission,
            batch_job=item.batch_job,
            batch_jobs=tuple(array.batch_job for array in item.arrays),
            lines=item.jobs,
            file=self._array_file(item.batch_job),
        )

    def submit(self, lines: int, retries: int = 0, fields: Mapping[str, str] = _NO_FIELDS) -> Submission:
        """Upload a manifest (see `manifest`) and wait until the intake has submitted it."""
        return self.submitted(self.upload(lines, retries, fields))

    def submit_again(self, submission: Submission) -> str:
        """Start a second child for every line of a submission, which users must not do; return the Batch job's id."""
        request: dict[str, Any] = {
            "jobName": f"again-{next(self._numbers)}",
            "jobQueue": self.plane.deployment.job_queue,
            "jobDefinition": self.plane.deployment.job_definition,
            "containerOverrides": {"environment": [{"name": "S3_ARRAY_FILE", "value": submission.file}]},
        }
        if submission.lines > 1:
            request["arrayProperties"] = {"size": submission.lines}
        return str(client("batch", "us-east-1").submit_job(**request)["jobId"])

    def cancel(self, submission: Submission, index: int) -> CancelReport:
        """Cancel a line as `traingrid cancel` does."""
        deployment = self.plane.deployment
        canceller = Canceller(
            deployment=deployment, ledger=self.plane.ledger, children=self.children(), storage=self.plane.storage
        )
        return canceller.cancel(CancelTarget(submission=submission.id, index=index, by="test", reason="it is a test"))

    def states(self, submission: str) -> dict[int, str]:
        """Return the state of each opened job of a submission, by index."""
        return {item.index: item.state for item in intact(self.plane.ledger.jobs(submission))}

    def recorded(self, submission: Submission) -> bool:
        """Return True if the ledger contains a final state for every line."""
        states = self.states(submission.id)
        return len(states) == submission.lines and set(states.values()) <= FINAL_STATES

    def children(self) -> Children:
        """Return the reader of the Batch children of submissions."""
        return Children(self.plane.storage, self.plane.deployment.manifest_bucket, self.plane.deployment.grid.home)

    def world(self, *submissions: str) -> World:
        """Return a snapshot of these submissions, including every create call that localcloud accepted for them."""
        if len(submissions) > _READ_ONE_BY_ONE:
            return self._of(read_world(self.plane.deployment, details=True, at_rest=True), submissions)
        return self._of(
            reduce(
                _together,
                (
                    read_world(self.plane.deployment, submission=submission, details=True, at_rest=True)
                    for submission in submissions
                ),
            ),
            submissions,
        )

    def _of(self, world: World, submissions: Collection[str]) -> World:
        """Return the part of a snapshot that belongs to some submissions, with the create calls made for them."""
        ids = set(submissions)
        calls = self.cloud.record.entries()
        return replace(
            world,
            submissions={k: v for k, v in world.submissions.items() if k in ids},
            lines={k: v for k, v in world.lines.items() if k[0] in ids},
            cancels={k: v for k, v in world.cancels.items() if k in ids},
            training_jobs=[job for job in world.training_jobs if job.identity.submission in ids],
            calls=[call for call in calls if submission_of(world.grid, created_resource(call)) in ids],
            batch_jobs={k: v for k, v in world.batch_jobs.items() if submission_of(world.grid, k) in ids},
        )

    def audit(self, *submissions: str) -> list[Violation]:
        """Return the violations in these submissions, all of whose work should have ended."""
        return audit(self.world(*submissions))

    def _array_file(self, batch_job: str) -> str:
        described = self.plane.batch.describe(batch_job) or {}
        variables = {entry["name"]: entry["value"] for entry in described["container"]["environment"]}
        return str(variables["S3_ARRAY_FILE"])


def data_folder(region: str) -> str:
    """Return the data folder of every line in a Region."""
    return f"s3://{names.data_bucket('grid', ACCOUNT, region)}/campaign"


def _together(first: World, second: World) -> World:
    return replace(
        second,
        submissions={**first.submissions, **second.submissions},
        lines={**first.lines, **second.lines},
        cancels={**first.cancels, **second.cancels},
        children={**first.children, **second.children},
        batch_jobs={**first.batch_jobs, **second.batch_jobs},
        training_jobs=[*first.training_jobs, *second.training_jobs],
    )
