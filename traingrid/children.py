"""Which Batch child answers for which line of a submission, and whether it will ever do anything again."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from traingrid.clients import Maker, gentle
from traingrid.s3_uri import S3Uri
from traingrid.submission import jobs_key
from traingrid.world import GONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from traingrid.dynamodb import Item
    from traingrid.storage import Storage

_DESCRIBED_AT_ONCE = 100  # the most ids that DescribeJobs takes (API reference, jobs)
_LONGEST_REASON = 1024  # Batch cuts nothing and refuses more (API reference, TerminateJob, reason)
UNKNOWN = "UNKNOWN"
RETRY_PREFIX = "retry-"
"""How the files begin that hold only some lines of a submission; those of all other arrays hold all, in order."""


@dataclass(frozen=True, kw_only=True)
class ChildStatus:
    """A Batch child.

    Attributes:
        id: Its Batch job id; empty where no array holds the line.
        status: Batch's status, or UNKNOWN once Batch has forgotten it, seven days after its end. Before its array has
            made it, the array's.
        reason: Why Batch ended it, where Batch says so.
        ended_at: When it ended, in seconds since 1970; 0 where Batch does not say.
    """

    id: str = ""
    status: str = UNKNOWN
    reason: str = ""
    ended_at: float = 0

    @property
    def gone(self) -> bool:
        """Whether it will never do anything again."""
        return self.status in GONE


class Children:
    """The children of submissions.

    Args:
        storage: Where the submissions' files lie.
        bucket: The manifest bucket.
        region: The home Region; the environment's where none is given.
        make: Makes the client of Batch.
    """

    def __init__(self, storage: Storage, bucket: str, region: str | None = None, make: Maker = gentle) -> None:
        self._storage = storage
        self._bucket = bucket
        self._batch: Any = make("batch", region)

    def of(self, head: Item, lines: Mapping[int, Item | None], *, each: bool = False) -> dict[int, ChildStatus]:
        """Return the child that answers for each line: the one that still lives, if any does.

        Args:
            head: The submission's own item.
            lines: What the ledger knows of the lines that are asked for; None of one that no child has opened.
            each: Ask about each child also while its array says that none has ended; else they have the array's status.
        """
        ids = self.ids(head)
        watching = {index: (item or {}).get("batch_child", "") for index, item in lines.items()}
        asked = {index: {child for child in (ids.get(index, ""), watching[index]) if child} for index in lines}
        found = self._statuses({child for ids_of_line in asked.values() for child in ids_of_line}, each=each)
        return {
            index: min((found[child] for child in ids_of_line), key=lambda child: child.gone, default=ChildStatus())
            for index, ids_of_line in asked.items()
        }

    def state(self, head: Item) -> str:
        """Return Batch's status of a submission as a whole: of an array that has not ended, else FAILED if one failed.

        Empty where there is no array yet, or Batch has forgotten them all.
        """
        described = self._described({array["batch_job"] for array in arrays(head)})
        states = {job["status"] for job in described.values()}
        return next((state for state in sorted(states) if state not in GONE), min(states, default=""))

    def ids(self, head: Item) -> dict[int, str]:
        """Return the id of the child of every line: that of the last array which holds the line."""
        ids: dict[int, str] = {}
        start = 0
        for array in arrays(head):
            size = array["count"]
            if is_retry(array):
                indices: Iterable[int] = self._indices(head["submission"], array["file"])
            else:
                indices = range(start, start + size)
                start += size
            job = array["batch_job"]
            ids |= {index: job if size == 1 else f"{job}:{place}" for place, index in enumerate(indices)}
        return ids

    def described(self, child: str) -> dict[str, Any]:
        """Return Batch's own description of a child; empty once Batch has forgotten it, and where there is none."""
        found: dict[str, Any] = self._described({child} if child else set()).get(child, {})
        return found

    def terminate(self, job: str, reason: str) -> None:
        """End a Batch job: a child, or an array with all its children. One that has ended stays as it is.

        Args:
            job: Its id.
            reason: Why; Batch shows it as the job's statusReason.
        """
        self._batch.terminate_job(jobId=job, reason=reason[:_LONGEST_REASON])

    def _indices(self, submission: str, file: str) -> list[int]:
        content = read_file(self._storage, self._bucket, submission, file)
        return [json.loads(line)["index"] for line in content.splitlines()]

    def _statuses(self, ids: set[str], *, each: bool) -> dict[str, ChildStatus]:
        """Ask Batch, about whole arrays first: one that none has left needs no look at each of its children.

        An array makes its children some time after it was submitted: one that Batch does not know yet is as its array.
        """
        parents = self._described({child.partition(":")[0] for child in ids})
        found = {child: ChildStatus(id=child) for child in ids}
        asked = set()
        for child in ids:
            parent = parents.get(child.partition(":")[0])
            if parent is None:
                continue
            summary = parent.get("arrayProperties", {}).get("statusSummary", {})
            if ":" not in child:
                found[child] = _child(parent)
            elif summary and not each and not any(summary.get(status, 0) for status in GONE):
                found[child] = ChildStatus(id=child, status=parent["status"])
            else:
                asked.add(child)
                found[child] = _not_known(child, parent)
        return found | {child: _child(job) for child, job in self._described(asked).items()}

    def _described(self, ids: set[str]) -> dict[str, Any]:
        ordered = sorted(ids)
        described: dict[str, Any] = {}
        for start in range(0, len(ordered), _DESCRIBED_AT_ONCE):
            reply = self._batch.describe_jobs(jobs=ordered[start : start + _DESCRIBED_AT_ONCE])
            described |= {job["jobId"]: job for job in reply["jobs"]}
        return described


def arrays(head: Item) -> list[dict[str, Any]]:
    """Return the Batch jobs of a submission in the order of their submitting: batch_job, file, count of each."""
    if "arrays" in head:
        return list(head["arrays"])
    one = {"batch_job": head.get("batch_job"), "file": "jobs.jsonl", "count": head.get("children", head["jobs"])}
    return [one] if one["batch_job"] else []


def file_uri(bucket: str, submission: str, file: str) -> S3Uri:
    """Return where one of a submission's files lies, by its name, its key, or the URI that its children were given."""
    folder = jobs_key(submission).rpartition("/")[0]
    return S3Uri(bucket, f"{folder}/{file.partition('?')[0].rpartition('/')[2]}")


def read_file(storage: Storage, bucket: str, submission: str, file: str) -> bytes:
    """Return one of a submission's files in the version that its children read, whatever was written there since."""
    return storage.read(file_uri(bucket, submission, file), file.partition("?versionId=")[2] or None)


def is_retry(array: Mapping[str, Any]) -> bool:
    """Return whether an array holds only lines that an array before it has held."""
    return str(array["file"]).rpartition("/")[2].startswith(RETRY_PREFIX)


def _child(job: Mapping[str, Any]) -> ChildStatus:
    return ChildStatus(
        id=job["jobId"],
        status=job["status"],
        reason=job.get("statusReason", ""),
        ended_at=job.get("stoppedAt", 0) / 1000,
    )


def _not_known(child: str, parent: Mapping[str, Any]) -> ChildStatus:
    """Return the status of a child that Batch does not describe though it does describe the array."""
    array = _child(parent)
    return replace(array, id=child, status=UNKNOWN if array.gone else array.status)
