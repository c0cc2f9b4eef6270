"""The ledger: what is known of submissions and jobs, in one DynamoDB table.

There are no locks; only an intake's claim of a submission holds for a time. Every write is conditional, so that any
number of processes may write at any time, in any order and more than once: a submission exists once, an attempt at a
job that has ended never changes again, and a job moves to its next attempt once. A cancel is an item of its own that
is put and never taken away, so that it cannot be lost.
"""

from __future__ import annotations

import calendar
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid.clients import Maker, client
from traingrid.dynamodb import Table

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from traingrid.job import Job

Item = dict[str, Any]
SUBMISSION = "submission"
PENDING = "Pending"
"""A job that has no training job yet; all states but this and the next are SageMaker's own words."""
WAITING = "Waiting"
"""A job that has no training job yet because a quota is used up; `reason` says which."""
FINAL_STATES = frozenset({"Completed", "Failed", "Stopped"})
CANCEL_ALL = "all"
_GRID, _LAUNCHING = "grid", "launching"
"""Where it stands whether anything may be launched: no submission's id, which are hexadecimal, is ever called so."""
_TIME = "%Y-%m-%dT%H:%M:%SZ"
# A retry's items sort before those of the jobs, so that `items` does not give them.
_JOB, _CANCEL, _RETRY = "job#", "cancel#", "array#retry-"
# What belongs to one attempt, and not to the next one.
_OF_AN_ATTEMPT = (
    *("phase", "failure", "training_job", "training_job_arn", "artifact", "metrics", "progress", "progress_at"),
    *("training_seconds", "billable_seconds", "fingerprint", "service_job"),
)


def job_item(index: int) -> str:
    """Return the sort key of a job, padded so that jobs sort by index."""
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
    """Return whether one of the recorded cancels is meant for a job in the Region in which it runs, or would."""
    return any(scope in cancels for scope in (CANCEL_ALL, cancel_of_region(region), cancel_of_job(index)))


def was_seen(item: Item) -> bool:
    """Return whether a job's current attempt is known to have got its training job, whatever became of that."""
    return item["state"] not in (PENDING, WAITING) or bool(item.get("training_job_arn"))


def is_of_array(item: Item, array_file: str) -> bool:
    """Return whether a job's current attempt is for the children of an array: not once it was retried as another one.

    Args:
        item: The job's item; one that a version without array files has opened is everybody's.
        array_file: The array's file (`traingrid.submission.array_file`); empty for one of no array.
    """
    return not array_file or item.get("array_file", array_file) == array_file


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A request's hold on a submission that it is about to submit.

    Attributes:
        owner: The request.
        ends_at: When it has ended, whatever becomes of it, in seconds since 1970; until then the claim is its own.
        seconds: How long that was when it began.
    """

    owner: str
    ends_at: int
    seconds: float = 0.0


class Ledger:
    """The ledger of one grid.

    Args:
        table: The table's name.
        region: Its Region; the environment's where none is given.
        make: Makes the client of DynamoDB.
    """

    def __init__(self, table: str, region: str | None = None, make: Maker = client) -> None:
        self._table = Table(table, region, make)

    def claim_submission(self, submission: str, owner: str, facts: Mapping[str, Any]) -> Item | None:
        """Make a submission exist, once.

        Args:
            submission: Its id.
            owner: Who claims it: the Lambda request that will submit it, or the Batch job that it is already.
            facts: What is known of it; source, lines and so on.

        Returns:
            None if it exists from now on and is the caller's; else the item that was there before.
        """
        item = {"submission": submission, "item": SUBMISSION, "state": "Submitting", "owner": owner, **facts}
        item |= {"claimed_at": now()}
        return None if self._table.put_new(item) else self.submission(submission)

    def take_over_submission(self, submission: str, claim: Claim, former: Item) -> bool:
        """Claim a submission anew whose former claim is known to have ended.

        Args:
            submission: Its id.
            claim: The new one.
            former: The submission as it was when that was found out.

        Returns:
            False if another process was faster.
        """
        taken = self._table.update(
            (submission, SUBMISSION),
            {"owner": claim.owner, "claimed_at": now(), "claim_ends_at": claim.ends_at},
            "#owner = :owner AND #claim_ends_at = :claim_ends_at AND #state = :state",
            {f":{field}": former[field] for field in ("owner", "claim_ends_at", "state")},
        )
        # botocore repeats a write whose reply was lost, and the second finds that the first has changed what was there.
        return taken or (self.submission(submission) or {}).get("owner") == claim.owner

    def release_submission(self, submission: str, claim: Claim, at: int = 0, *, failed_tries: int = 0) -> None:
        """Let one's own claim of a submission that was not submitted end at another time; at once where none is given.

        Until then no other process may try; not even if it is later than the claim would have ended. `failed_tries` is
        how often the request of this claim has failed.
        """
        changes: Item = {"claim_ends_at": at} | ({"failed_tries": failed_tries} if failed_tries else {})
        condition, values = "#owner = :owner AND #state = :state", {":owner": claim.owner, ":state": "Submitting"}
        self._table.update((submission, SUBMISSION), changes, condition, values)

    def record_submitted(self, submission: str, batch_job: str, arrays: Sequence[Mapping[str, Any]] = ()) -> None:
        """Record the Batch jobs that a submission became.

        Args:
            submission: Its id.
            batch_job: The id of the first of them.
            arrays: All of them: `batch_job`, the `file` that its children read, and the `count` of jobs in it.
        """
        changes: Item = {"state": "Submitted", "batch_job": batch_job, "submitted_at": now()}
        if arrays:
            changes["arrays"] = [dict(array) for array in arrays]
        self._table.update((submission, SUBMISSION), changes, "attribute_exists(submission)", {})

    def claim_retry(self, submission: str, facts: Mapping[str, Any]) -> int:
        """Take the next number for an array that runs jobs of a submission again; nobody else gets the same one."""
        taken = sum(1 for _ in self._table.query(submission, "begins_with(#item, :value)", _RETRY))
        number = taken + 1
        while not self._table.put_new({"submission": submission, "item": f"{_RETRY}{number}", "at": now(), **facts}):
            number += 1
        return number

    def record_array(self, submission: str, array: Mapping[str, Any]) -> None:
        """Record one more Batch job of a submission: `batch_job`, `file` and `count` as in `record_submitted`."""
        key = (submission, SUBMISSION)
        self._table.update(
            key, {"updated_at": now()}, "attribute_exists(arrays)", {}, appended={"arrays": [dict(array)]}
        )

    def submission(self, submission: str) -> Item | None:
        """Return a submission, or None if there is none of this id."""
        return self._table.get(submission, SUBMISSION)

    def job(self, submission: str, index: int) -> Item | None:
        """Return what is known of a job, or None while nothing is."""
        return self._table.get(submission, job_item(index))

    def items(self, submission: str) -> Iterator[Item]:
        """Yield a submission's own item, if any, and those of its jobs in the order of their index."""
        yield from self._table.query(submission, "#item >= :value", _JOB)

    def jobs(self, submission: str) -> Iterator[Item]:
        """Yield the items of a submission's jobs in the order of their index."""
        yield from (item for item in self.items(submission) if item["item"] != SUBMISSION)

    def submissions(self) -> Iterator[Item]:
        """Yield every submission, newest first. Reads the whole table: for a person's command, not for a loop."""
        found = self._table.scan(SUBMISSION)
        yield from sorted(found, key=lambda item: str(item.get("claimed_at", "")), reverse=True)

    def everything(self) -> Iterator[Item]:
        """Yield every item of every submission: for whoever looks after all of them."""
        yield from (item for item in self._table.everything() if item["submission"] != _GRID)

    def open_job(self, submission: str, job: Job, regions: Sequence[str] = (), array_file: str = "") -> Item:
        """Make a job's item exist, at its first attempt, and return what is known of it now.

        Args:
            submission: The submission's id.
            job: The job.
            regions: Where it may train, in the order to try: its own Region first. Only that one where none are given.
            array_file: Whose children may launch it; any array's where none is given.
        """
        item = _first_item(submission, job, regions) | ({"array_file": array_file} if array_file else {})
        return item if self._table.put_new(item) else self.job(submission, job.index) or item

    def end_unopened(self, submission: str, job: Job, regions: Sequence[str], facts: Mapping[str, Any]) -> bool:
        """Make a job's item exist as one that has ended.

        Args:
            submission: The submission's id.
            job: The job.
            regions: As in `open_job`.
            facts: Its final state, and why.

        Returns:
            False, and nothing is changed, if somebody has opened it meanwhile.
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
        """Record what was seen of a job's attempt.

        Args:
            submission: The submission's id.
            index: The job's index.
            attempt: Which attempt this was seen of.
            facts: Fields of the item.
            fingerprint: Of the training job that this was seen of. Record nothing unless the child that has claimed the
                attempt has asked for just that; empty where the caller knows that.
            array_file: Of the child that records. Record nothing if the attempt is for another array's children; empty
                where no child does.
            unless_watched: Record nothing while a child says (in `batch_child`) that it watches the job.
            as_read: Record nothing if somebody has written into the item since the caller has read it.

        Returns:
            False, and nothing is changed, if the attempt has ended, the job is at another attempt, another array's, or
            watched, or the training job is a stranger's, or the item is not as it was read.
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
        """Record the last values of an attempt's metrics. Its end may have been recorded already: this is no state."""
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
        """Move a job on to its next attempt: one conditional write, which one of many callers wins.

        Args:
            submission: The submission's id.
            index: The job's index.
            tried: What came of the former attempt, whose training job the caller has seen in a final state; kept in the
                list `tried`: attempt (its number), region, state, failure, reason.
            region: Where to train next.
            reopen: Empty while the job goes on, and then one whose end is recorded stays ended. For a person's retry
                something that no other retry has; then only one whose failure or stop is recorded is tried again.
            array_file: Whose children launch it from now on; empty while it stays those that had it.

        Returns:
            False, and nothing is changed, if another process was faster or the job is not one to go on with.
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
        if moved or not reopen:  # a child that is told no looks at the ledger again and goes on from there
            return moved
        # botocore repeats a write whose reply was lost, and the second finds that the first has moved the job on.
        former_ones = (self.job(submission, index) or {}).get("tried", [])
        return any(former_one.get("reopened") == reopen for former_one in former_ones)

    def request_cancel(self, submission: str, scope: str, facts: Mapping[str, Any]) -> None:
        """Record that a person wants jobs of a submission to end; the same scope twice is the same cancel.

        Args:
            submission: The submission's id.
            scope: CANCEL_ALL, `cancel_of_region(region)` or `cancel_of_job(index)`.
            facts: Who and why: by, reason.
        """
        item = {"submission": submission, "item": f"{_CANCEL}{scope}", "at": now(), **facts}
        self._table.put(item)

    def cancels(self, submission: str) -> dict[str, Item]:
        """Return the recorded cancels of a submission by their scope; `is_cancelled` says whom they are meant for."""
        found = self._table.query(submission, "begins_with(#item, :value)", _CANCEL)
        return {str(item["item"]).removeprefix(_CANCEL): item for item in found}

    def set_launching(self, facts: Mapping[str, Any], *, allowed: bool) -> None:
        """Record that a person lets children create training jobs, or no longer.

        Args:
            facts: Who and why: by, reason.
            allowed: Whether they may.
        """
        self._table.put({"submission": _GRID, "item": _LAUNCHING, "allowed": allowed, "at": now(), **facts})

    def pause(self) -> Item | None:
        """Return since when (`at`), by whom and why nothing may be launched; None while everything may."""
        item = self._table.get(_GRID, _LAUNCHING)
        return None if item is None or item["allowed"] else item


def now() -> str:
    """Return the time as the ledger writes it: UTC, ISO 8601, whole seconds."""
    return time.strftime(_TIME, time.gmtime())


def epoch_seconds(timestamp: str) -> int:
    """Return a time of the ledger as seconds since 1970."""
    return calendar.timegm(time.strptime(timestamp, _TIME))


def _first_item(submission: str, job: Job, regions: Sequence[str]) -> Item:
    facts = {"region": job.region, "name": job.name, "line": job.line, "ranks": job.ranks}
    item = {"submission": submission, "item": job_item(job.index), "state": PENDING, "attempt": 1, **facts}
    return item | {"regions": list(regions) or [job.region], "opened_at": now()}


def _final_states() -> Item:
    return {f":final{number}": state for number, state in enumerate(sorted(FINAL_STATES))}
