"""Ledger: the state of submissions and jobs, in one DynamoDB table.

The ledger uses no locks, except that an intake's claim of a submission is valid for a limited time. Every write is
conditional, so that any number of processes may write at any time, in any order and repeatedly: a submission exists
once, an ended attempt never changes, and a job moves to its next attempt once. A cancel is a separate item that is
never removed, so that it cannot be lost.
"""

from __future__ import annotations

import calendar
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid.aws.clients import Maker, client
from traingrid.aws.dynamodb import Table

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from traingrid.job.job import Job

Item = dict[str, Any]
SUBMISSION = "submission"
PENDING = "Pending"
"""The state of a job without training job. All states except this and `WAITING` are SageMaker's."""
WAITING = "Waiting"
"""The state of a job without training job because a quota is used up, or launching is paused; see its `reason`."""
FINAL_STATES = frozenset({"Completed", "Failed", "Stopped"})
CANCEL_ALL = "all"
_GRID, _LAUNCHING = "grid", "launching"
"""The key of the item that records if launching is paused. It never collides with a submission id, which is
hexadecimal."""
_TIME = "%Y-%m-%dT%H:%M:%SZ"
# The items of cancels and retries sort before those of jobs, so that `items` does not return them.
_JOB, _CANCEL, _RETRY = "job#", "cancel#", "array#retry-"
# The fields that belong to one attempt, and are removed when the next one begins.
_OF_AN_ATTEMPT = (
    *("phase", "failure", "training_job", "training_job_arn", "artifact", "metrics", "progress", "progress_at"),
    *("training_seconds", "billable_seconds", "fingerprint", "service_job"),
)


def job_item(index: int) -> str:
    """Return the sort key of a job, padded with zeros so that jobs sort by index."""
    return f"{_JOB}{index:05d}"


def index_of(item: Item) -> int:
    """Return the index of a job's item."""
    return int(str(item["item"]).removeprefix(_JOB))


def cancel_of_region(region: str) -> str:
    """Return the scope of a cancel of a submission's jobs in one Region."""
    return f"region#{region}"


def cancel_of_job(index: int) -> str:
    """Return the scope of a cancel of one job."""
    return job_item(index)


def is_cancelled(cancels: Container[str], index: int, region: str) -> bool:
    """Return True if a recorded cancel includes a job that runs, or would run next, in a Region."""
    return any(scope in cancels for scope in (CANCEL_ALL, cancel_of_region(region), cancel_of_job(index)))


def was_seen(item: Item) -> bool:
    """Return True if the ledger has recorded the training job of the current attempt, even if it was deleted since."""
    return item["state"] not in (PENDING, WAITING) or bool(item.get("training_job_arn"))


def is_of_array(item: Item, array_file: str) -> bool:
    """Return True if the children of an array may launch the job's current attempt; a retry assigns another array.

    Args:
        item: The job's ledger item; if it has no array file, as in older versions, any array's children may launch it.
        array_file: The array's file (`traingrid.submission.files.array_file`); empty for a caller without array.
    """
    return not array_file or item.get("array_file", array_file) == array_file


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A request's claim of a submission that it is submitting.

    Attributes:
        owner: The name of the request.
        ends_at: The time in seconds since 1970 at which the request has certainly ended and its claim expires.
        seconds: The duration of the claim.
    """

    owner: str
    ends_at: int
    seconds: float = 0.0


class Ledger:
    """The ledger of one grid.

    Args:
        table: The table's name.
        region: The table's Region; by default the environment's.
        make: Makes the client of DynamoDB.
    """

    def __init__(self, table: str, region: str | None = None, make: Maker = client) -> None:
        self._table = Table(table, region, make)

    def claim_submission(self, submission: str, owner: str, facts: Mapping[str, Any]) -> Item | None:
        """Create a submission's item, unless it exists.

        Args:
            submission: The submission's id.
            owner: The claimant: the Lambda request that will submit it, or the Batch job that was submitted by hand.
            facts: The other fields of the item: manifest, jobs and so on.

        Returns:
            None if the caller now owns the submission; otherwise the existing item.
        """
        item = {"submission": submission, "item": SUBMISSION, "state": "Submitting", "owner": owner, **facts}
        item |= {"claimed_at": now()}
        return None if self._table.put_new(item) else self.submission(submission)

    def take_over_submission(self, submission: str, claim: Claim, former: Item) -> bool:
        """Claim a submission whose previous claim has ended.

        Args:
            submission: The submission's id.
            claim: The new claim.
            former: The submission's item with the previous claim, as the caller read it.

        Returns:
            False if another process has claimed it first.
        """
        taken = self._table.update(
            (submission, SUBMISSION),
            {"owner": claim.owner, "claimed_at": now(), "claim_ends_at": claim.ends_at},
            "#owner = :owner AND #claim_ends_at = :claim_ends_at AND #state = :state",
            {f":{field}": former[field] for field in ("owner", "claim_ends_at", "state")},
        )
        # botocore repeats a write whose reply was lost. The repeated write fails its condition, as the first succeeded.
        return taken or (self.submission(submission) or {}).get("owner") == claim.owner

    def release_submission(self, submission: str, claim: Claim, at: int = 0, *, failed_tries: int = 0) -> None:
        """Change the end of the caller's claim of a submission that was not submitted.

        Args:
            submission: The submission's id.
            claim: The caller's claim.
            at: The new end, in seconds since 1970, which may be later than before; by default the claim ends at once.
            failed_tries: The number of failed attempts of the request.
        """
        changes: Item = {"claim_ends_at": at} | ({"failed_tries": failed_tries} if failed_tries else {})
        condition, values = "#owner = :owner AND #state = :state", {":owner": claim.owner, ":state": "Submitting"}
        self._table.update((submission, SUBMISSION), changes, condition, values)

    def record_submitted(self, submission: str, batch_job: str, arrays: Sequence[Mapping[str, Any]] = ()) -> None:
        """Record the Batch jobs of a submission.

        Args:
            submission: The submission's id.
            batch_job: The id of the first Batch job.
            arrays: All Batch jobs, each with its `batch_job` id, the `file` that its children read, and its `count` of
                jobs.
        """
        changes: Item = {"state": "Submitted", "batch_job": batch_job, "submitted_at": now()}
        if arrays:
            changes["arrays"] = [dict(array) for array in arrays]
        self._table.update((submission, SUBMISSION), changes, "attribute_exists(submission)", {})

    def claim_retry(self, submission: str, facts: Mapping[str, Any]) -> int:
        """Return a number for a new array that retries jobs of a submission. Each call returns another number."""
        taken = sum(1 for _ in self._table.query(submission, "begins_with(#item, :value)", _RETRY))
        number = taken + 1
        while not self._table.put_new({"submission": submission, "item": f"{_RETRY}{number}", "at": now(), **facts}):
            number += 1
        return number

    def record_array(self, submission: str, array: Mapping[str, Any]) -> None:
        """Record an additional Batch job of a submission: `batch_job`, `file` and `count` as in `record_submitted`."""
        key = (submission, SUBMISSION)
        self._table.update(
            key, {"updated_at": now()}, "attribute_exists(arrays)", {}, appended={"arrays": [dict(array)]}
        )

    def submission(self, submission: str) -> Item | None:
        """Return a submission's item, or None if it does not exist."""
        return self._table.get(submission, SUBMISSION)

    def job(self, submission: str, index: int) -> Item | None:
        """Return a job's item, or None if it does not exist."""
        return self._table.get(submission, job_item(index))

    def items(self, submission: str) -> Iterator[Item]:
        """Yield the items of a submission's jobs in the order of their index, then the submission's item if any."""
        yield from self._table.query(submission, "#item >= :value", _JOB)

    def jobs(self, submission: str) -> Iterator[Item]:
        """Yield the items of a submission's jobs in the order of their index."""
        yield from (item for item in self.items(submission) if item["item"] != SUBMISSION)

    def submissions(self) -> Iterator[Item]:
        """Yield every submission, newest first. It reads the whole table, so do not call it in a loop."""
        found = self._table.scan(SUBMISSION)
        yield from sorted(found, key=lambda item: str(item.get("claimed_at", "")), reverse=True)

    def everything(self) -> Iterator[Item]:
        """Yield every item of every submission."""
        yield from (item for item in self._table.everything() if item["submission"] != _GRID)

    def open_job(self, submission: str, job: Job, regions: Sequence[str] = (), array_file: str = "") -> Item:
        """Create a job's item with its first attempt unless it exists, and return the item.

        Args:
            submission: The submission's id.
            job: The job.
            regions: The Regions in which it may train, in order, beginning with its own; by default only its own.
            array_file: The array file whose children may launch it; by default any array's children.
        """
        item = _first_item(submission, job, regions) | ({"array_file": array_file} if array_file else {})
        return item if self._table.put_new(item) else self.job(submission, job.index) or item

    def end_unopened(self, submission: str, job: Job, regions: Sequence[str], facts: Mapping[str, Any]) -> bool:
        """Create a job's item with a final state, unless it exists.

        Args:
            submission: The submission's id.
            job: The job.
            regions: The Regions, as in `open_job`.
            facts: The final state and its reason.

        Returns:
            False, without a change, if the item exists.
        """
        return self._table.put_new({**_first_item(submission, job, regions), **facts, "updated_at": now()})

    def record_job(  # noqa: PLR0913  # the fields of one conditional write
        self,
        submission: str,
        index: int,
        attempt: int,
        facts: Mapping[str, Any],
        *,
        fingerprint: str = "",
        array_file: str = "",
        unless_watched: bool = False,
        as_read: Item | None = None,
    ) -> bool:
        """Record the observed state of a job's attempt.

        Args:
            submission: The submission's id.
            index: The job's index.
            attempt: The number of the observed attempt.
            facts: The fields to record.
            fingerprint: The fingerprint of the observed training job. The write requires that the child that claimed
                the attempt recorded the same one. Empty if the caller has checked that.
            array_file: The array file of the recording child. The write requires that the attempt is not assigned to
                another array. Empty if no child records.
            unless_watched: The write requires that no child watches the job (`batch_child` is empty).
            as_read: The write requires that the item has not changed since the caller read it.

        Returns:
            False, without a change, if the attempt has ended, the job is at another attempt, or one of the requirements
            is not met.
        """
        condition, values = "#attempt = :attempt AND NOT #state IN (:final0, :final1, :final2)", _final_states()
        values |= {":attempt": attempt}
        if fingerprint:
            condition += " AND #fingerprint = :fingerprint"
            values |= {":fingerprint": fingerprint}
        if array_file:
            condition += " AND ( attribute_not_exists(array_file) OR array_file = :array_file )"
            values |= {":array_file": array_file}
        if unless_watched:
            condition += " AND ( attribute_not_exists(batch_child) OR batch_child = :nobody )"
            values |= {":nobody": ""}
        if as_read:
            condition += " AND #state = :read_state AND "
            condition += "#updated_at = :read_at" if "updated_at" in as_read else "attribute_not_exists(updated_at)"
            read = {":read_state": as_read["state"], ":read_at": as_read.get("updated_at")}
            values |= {name: value for name, value in read.items() if value is not None}
        return self._table.update((submission, job_item(index)), {**facts, "updated_at": now()}, condition, values)

    def record_progress(self, submission: str, index: int, attempt: int, progress: Mapping[str, float]) -> bool:
        """Record the last values of an attempt's metrics, also after its end, because progress is not a state."""
        changes = {"progress": dict(progress), "progress_at": now()}
        key, condition = (submission, job_item(index)), "#attempt = :attempt"
        return self._table.update(key, changes, condition, {":attempt": attempt})

    def next_attempt(  # noqa: PLR0913  # the fields of one conditional write
        self,
        submission: str,
        index: int,
        tried: Mapping[str, Any],
        region: str,
        *,
        reopen: str = "",
        array_file: str = "",
    ) -> bool:
        """Move a job to its next attempt with one conditional write, which succeeds for one of several callers.

        Args:
            submission: The submission's id.
            index: The job's index.
            tried: The outcome of the previous attempt, whose training job the caller has seen in a final state. The
                list `tried` keeps it: attempt (its number), region, state, failure, reason.
            region: The Region of the next attempt.
            reopen: A unique value for a person's retry, which requires that the job is recorded as failed or stopped.
                Empty for an automatic retry, which requires that no final state is recorded.
            array_file: The array file whose children launch the next attempt; by default it does not change.

        Returns:
            False, without a change, if another process was faster or the requirement is not met.
        """
        condition, values = "#attempt = :attempt AND NOT #state IN (:final0, :final1, :final2)", _final_states()
        if reopen:
            condition, values = "#attempt = :attempt AND #state IN (:failed, :stopped)", {}
            values |= {":failed": "Failed", ":stopped": "Stopped"}
        former, entry = tried["attempt"], dict(tried) | ({"reopened": reopen} if reopen else {})
        changes = {"attempt": former + 1, "state": PENDING, "region": region, "batch_child": "", "opened_at": now()}
        changes |= {"reason": tried.get("reason", ""), "updated_at": now()}
        changes |= {"array_file": array_file} if array_file else {}
        moved = self._table.update(
            (submission, job_item(index)),
            changes,
            condition,
            {":attempt": former} | values,
            appended={"tried": [entry]},
            removed=_OF_AN_ATTEMPT,
        )
        if moved or not reopen:  # after False, a child reads the ledger again and continues from there
            return moved
        # botocore repeats a write whose reply was lost. The repeated write fails, as the first has moved the job.
        former_ones = (self.job(submission, index) or {}).get("tried", [])
        return any(former_one.get("reopened") == reopen for former_one in former_ones)

    def request_cancel(self, submission: str, scope: str, facts: Mapping[str, Any]) -> None:
        """Record a cancel of a submission's jobs. Another cancel with the same scope replaces it.

        Args:
            submission: The submission's id.
            scope: CANCEL_ALL, `cancel_of_region(region)` or `cancel_of_job(index)`.
            facts: The person and the reason: by, reason.
        """
        item = {"submission": submission, "item": f"{_CANCEL}{scope}", "at": now(), **facts}
        self._table.put(item)

    def cancels(self, submission: str) -> dict[str, Item]:
        """Return the recorded cancels of a submission by scope; `is_cancelled` applies them to a job."""
        found = self._table.query(submission, "begins_with(#item, :value)", _CANCEL)
        return {str(item["item"]).removeprefix(_CANCEL): item for item in found}

    def set_launching(self, facts: Mapping[str, Any], *, allowed: bool) -> None:
        """Record that a person has paused or resumed the creation of training jobs.

        Args:
            facts: The person and the reason: by, reason.
            allowed: True to resume; False to pause.
        """
        self._table.put({"submission": _GRID, "item": _LAUNCHING, "allowed": allowed, "at": now(), **facts})

    def pause(self) -> Item | None:
        """Return the pause of launching, with its `at`, `by` and `reason`; None if launching is not paused."""
        item = self._table.get(_GRID, _LAUNCHING)
        return None if item is None or item["allowed"] else item


def now() -> str:
    """Return the current time in the ledger's format: UTC, ISO 8601, whole seconds."""
    return time.strftime(_TIME, time.gmtime())


def epoch_seconds(timestamp: str) -> int:
    """Return a timestamp of the ledger as seconds since 1970."""
    return calendar.timegm(time.strptime(timestamp, _TIME))


def _first_item(submission: str, job: Job, regions: Sequence[str]) -> Item:
    facts = {"region": job.region, "name": job.name, "line": job.line, "ranks": job.ranks}
    item = {"submission": submission, "item": job_item(job.index), "state": PENDING, "attempt": 1, **facts}
    return item | {"regions": list(regions) or [job.region], "opened_at": now()}


def _final_states() -> Item:
    return {f":final{number}": state for number, state in enumerate(sorted(FINAL_STATES))}
