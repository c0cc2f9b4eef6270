"""Batch children: maps each line of a submission to its Batch child, and reports if that child has ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from traingrid.aws.clients import ClientFactory, background_client
from traingrid.aws.s3_uri import S3Uri
from traingrid.strict_json import JsonError, json_object, member
from traingrid.submission.files import jobs_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from traingrid.aws.s3 import Storage
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.submission_item import Array, SubmissionItem

_DESCRIBED_AT_ONCE = 100  # maximum number of ids in a DescribeJobs request (API reference, jobs)
_MAX_REASON_LENGTH = 1024  # Batch rejects a longer reason (API reference, TerminateJob, reason)
UNKNOWN = "UNKNOWN"
GONE = frozenset({"SUCCEEDED", "FAILED", UNKNOWN})
"""Batch's statuses of a terminated child, and UNKNOWN for a child that Batch does not know."""
RETRY_PREFIX = "retry-"
"""Prefix of the names of files with only some lines of a submission. Files without it contain all lines in order."""


@dataclass(frozen=True, kw_only=True)
class ChildStatus:
    """A Batch child.

    Attributes:
        id: The Batch job id; empty if no array contains the line.
        status: Batch's status; the array's status until Batch creates the child; UNKNOWN when Batch no longer has the
            child, seven days after its end.
        reason: Batch's status reason; empty if it has none.
        ended_at: The time of its end in seconds since 1970; 0 if Batch does not report it.
    """

    id: str = ""
    status: str = UNKNOWN
    reason: str = ""
    ended_at: float = 0

    @property
    def is_gone(self) -> bool:
        """True if the child has ended."""
        return self.status in GONE


class Children:
    """The children of submissions.

    Args:
        storage: The storage with the submissions' files.
        bucket: The manifest bucket.
        region: The home Region; by default the environment's.
        make_client: Makes the client of Batch.
    """

    def __init__(
        self, storage: Storage, bucket: str, region: str | None = None, make_client: ClientFactory = background_client
    ) -> None:
        self._storage = storage
        self._bucket = bucket
        self._batch: Any = make_client("batch", region)

    def of(
        self, submission_item: SubmissionItem, lines: Mapping[int, JobItem | None], *, is_exact: bool = False
    ) -> dict[int, ChildStatus]:
        """Return the child that is responsible for each line, preferring one that has not ended.

        Args:
            lines: The ledger items of the requested lines; None for a line that has no item yet.
            is_exact: Describe each child even if no child of its array has ended; otherwise it has the array's status.
        """
        ids = self.ids(submission_item)
        watching = {index: item.batch_child if item else "" for index, item in lines.items()}
        ids_by_line = {index: {child for child in (ids.get(index, ""), watching[index]) if child} for index in lines}
        status_by_child = self._statuses(
            {child for ids_of_line in ids_by_line.values() for child in ids_of_line}, is_exact=is_exact
        )
        return {
            index: min(
                (status_by_child[child] for child in ids_of_line),
                key=lambda child: child.is_gone,
                default=ChildStatus(),
            )
            for index, ids_of_line in ids_by_line.items()
        }

    def state(self, submission_item: SubmissionItem) -> str:
        """Return Batch's status of a submission: that of an array that has not ended, otherwise FAILED if one failed.

        It is empty if the submission has no array yet, or Batch no longer has any of its arrays.
        """
        description_by_id = self._describe({array.batch_job for array in submission_item.arrays})
        states = {job["status"] for job in description_by_id.values()}
        return next((state for state in sorted(states) if state not in GONE), min(states, default=""))

    def ids(self, submission_item: SubmissionItem) -> dict[int, str]:
        """Return the id of each line's child, which belongs to the last array that contains the line."""
        ids: dict[int, str] = {}
        start = 0
        for array in submission_item.arrays:
            if is_retry(array):
                indices: Iterable[int | None] = self._indices(submission_item.submission, array.file)
            else:
                indices = range(start, start + array.count)
                start += array.count
            job = array.batch_job
            for position, index in enumerate(indices):
                if index is not None:
                    ids[index] = job if array.count == 1 else f"{job}:{position}"
        return ids

    def described(self, child: str) -> dict[str, Any]:
        """Return Batch's description of a child; empty if Batch does not have it (any longer)."""
        description: dict[str, Any] = self._describe({child} if child else set()).get(child, {})
        return description

    def terminate(self, job: str, reason: str) -> None:
        """Terminate a Batch job: a child, or an array with all its children. An ended job does not change.

        Args:
            job: The id of the Batch job.
            reason: The reason, which Batch shows as the job's statusReason.
        """
        self._batch.terminate_job(jobId=job, reason=reason[:_MAX_REASON_LENGTH])

    def _indices(self, submission: str, file: str) -> list[int | None]:
        """Return the index on each line of a retry's file; None for a damaged one, which its child cannot read either.

        Without the file, its lines belong to the children that watch them, or to those of earlier arrays.
        """
        content = read_file(self._storage, self._bucket, submission, file) or b""
        return [_index_on(line) for line in content.splitlines()]

    def _statuses(self, ids: set[str], *, is_exact: bool) -> dict[str, ChildStatus]:
        """Return the status of each child. Arrays are described first: if no child has ended, children are skipped.

        Batch creates children some time after their array was submitted. Until then a child has its array's status.
        """
        parent_ids = {child: child.partition(":")[0] for child in ids}  # the id of a child is ARRAY:INDEX
        parents = self._describe(set(parent_ids.values()))
        statuses = {child: ChildStatus(id=child) for child in ids}
        children = set()
        for child, parent_id in parent_ids.items():
            parent = parents.get(parent_id)
            if parent is None:
                continue
            summary = parent.get("arrayProperties", {}).get("statusSummary", {})
            if ":" not in child:
                statuses[child] = _child(parent)
            elif summary and not is_exact and not any(summary.get(status, 0) for status in GONE):
                statuses[child] = ChildStatus(id=child, status=parent["status"])
            else:
                children.add(child)
                statuses[child] = _unknown_child(child, parent)
        return statuses | {child: _child(job) for child, job in self._describe(children).items()}

    def _describe(self, ids: set[str]) -> dict[str, Any]:
        ordered = sorted(ids)
        description_by_id: dict[str, Any] = {}
        for start in range(0, len(ordered), _DESCRIBED_AT_ONCE):
            reply = self._batch.describe_jobs(jobs=ordered[start : start + _DESCRIBED_AT_ONCE])
            description_by_id |= {job["jobId"]: job for job in reply["jobs"]}
        return description_by_id


def file_uri(bucket: str, submission: str, file: str) -> S3Uri:
    """Return the URI of a submission's file, given its name, its key, or the URI passed to children."""
    folder = jobs_key(submission).rpartition("/")[0]
    return S3Uri(bucket, f"{folder}/{file.partition('?')[0].rpartition('/')[2]}")


def read_file(storage: Storage, bucket: str, submission: str, file: str) -> bytes | None:
    """Return the content of a submission's file in the version that its children read; None if it does not exist."""
    return storage.read_pinned(file_uri(bucket, submission, file), version_in(file))


def version_in(file: str) -> str:
    """Return the version that the name of an array's file contains, or an empty text."""
    return file.partition("?versionId=")[2]


def _index_on(line: bytes) -> int | None:
    try:
        return member(json_object(line), "index", int)
    except JsonError:
        return None


def is_retry(array: Array) -> bool:
    """Return True if the array retries lines of an earlier array."""
    return array.file.rpartition("/")[2].startswith(RETRY_PREFIX)


def _child(job: Mapping[str, Any]) -> ChildStatus:
    return ChildStatus(
        id=job["jobId"],
        status=job["status"],
        reason=job.get("statusReason", ""),
        ended_at=job.get("stoppedAt", 0) / 1000,
    )


def _unknown_child(child: str, parent: Mapping[str, Any]) -> ChildStatus:
    """Return the status of a child that DescribeJobs does not return although it returns the array."""
    array = _child(parent)
    return replace(array, id=child, status=UNKNOWN if array.is_gone else array.status)
