"""Ledger: the state of submissions and jobs, in one DynamoDB table.

The ledger uses no locks, except that an intake's claim of a submission is valid for a limited time. Every write is
conditional, so that any number of processes may write at any time, in any order and repeatedly: a submission exists
once, an ended attempt never changes, and a job moves to its next attempt once. A cancel is a separate item that is
never removed, so that it cannot be lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from traingrid.aws.clients import ClientFactory, client
from traingrid.aws.dynamodb import Table
from traingrid.aws.outage import Patient
from traingrid.job.backend_traits import DEFAULT_BACKEND, backend_field
from traingrid.job.state import FINAL_STATES, UNLAUNCHED_STATES, JobState
from traingrid.ledger.damage import Damaged
from traingrid.ledger.errors import ItemError, each
from traingrid.ledger.first_item import first_item
from traingrid.ledger.grid_items import GRID, HISTORY, LAUNCHING, HistoryScan, Pause
from traingrid.ledger.items import CHECKPOINT_FIELDS, JOB_PREFIX, SUBMISSION, JobItem, job_item
from traingrid.ledger.job_states import RecordedState
from traingrid.ledger.notices import Notice, NoticeKind, notice_field
from traingrid.ledger.open_marks import OpenMark, new_mark
from traingrid.ledger.preconditions import NO_FURTHER_CONDITIONS, Precondition
from traingrid.ledger.rejections import NOTICE, REJECTIONS, Rejection, first_shown
from traingrid.ledger.shortages import SHORTAGES, Shortage
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.ledger.timestamps import now
from traingrid.ledger.user_requests import CANCEL_ALL, CANCEL_PREFIX, Cancel
from traingrid.names import DATASETS, LEDGER_STATES, LEDGER_SUBMISSIONS, MOVES, OPEN_SUBMISSIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from traingrid.aws.dynamodb import Item
    from traingrid.job.backend_traits import BackendName
    from traingrid.job.facts import JobFacts
    from traingrid.job.job import Job
    from traingrid.ledger.facts import AttemptFacts, Claim, SubmissionFacts
    from traingrid.ledger.items import JobKey
    from traingrid.ledger.shortages import CapacityPool
    from traingrid.ledger.submission_item import Array

NO_MODEL = "The program wrote nothing to its model folder (SM_MODEL_DIR), so there is no model."
LedgerItem = JobItem | SubmissionItem | Cancel
"""An item that `Ledger.everything` yields, unless it is damaged."""
_OTHER_ITEMS = (GRID, DATASETS, MOVES, REJECTIONS, SHORTAGES, OPEN_SUBMISSIONS)
# Submissions that no pass has settled, and open jobs of settled ones, which a version without the index has retried.
_UNSETTLED = "( #item = :submission AND attribute_not_exists ( settled ) ) OR "
_UNSETTLED += "( begins_with ( #item , :job ) AND NOT #state IN ( :final0 , :final1 , :final2 ) )"
# The items of cancels and retries sort before those of jobs, so that `items` does not return them.
_RETRY = "array#retry-"
# See `JobItem.is_unrequested`: a claim names its request and the phase, and a refusal removes both.
_UNREQUESTED = "( attribute_not_exists(training_job) OR ( attribute_not_exists(open_requests) AND #phase = :refused"
_UNREQUESTED += " AND attribute_not_exists(training_job_arn) AND #state IN (:unlaunched0, :unlaunched1) ) )"
# The fields that belong to one attempt, and are removed when the next one begins.
_OF_AN_ATTEMPT = (
    *("phase", "failure", "training_job", "training_job_arn", "artifact", "has_no_model", "metrics", "progress"),
    "progress_at",
    *("epochs", "epoch_seconds", "training_started_at", "training_seconds", "billable_seconds", "fingerprint"),
    *("service_job", "residency", "stopped_for", "next_region", "phase_at", "requested_at", "open_requests"),
    *CHECKPOINT_FIELDS,
)


class Ledger:
    """The ledger of one grid.

    Args:
        region: The table's Region; by default the environment's.
        make_client: Makes the client of DynamoDB.
    """

    def __init__(self, table: str, region: str | None = None, make_client: ClientFactory = client) -> None:
        self._table = Table(table, region, make_client)

    def claim_submission(self, submission: str, owner: str, facts: SubmissionFacts) -> SubmissionItem | None:
        """Create a submission's item, unless it exists.

        Args:
            owner: The claimant: the Lambda request that will submit it, or the Batch job that was submitted by hand.
            facts: The other fields of the item: manifest, jobs and so on.

        Returns:
            None if the caller now owns the submission; otherwise the existing item.
        """
        self.mark_open(submission)
        item: Item = {"submission": submission, "item": SUBMISSION, "state": "Submitting", "owner": owner, **facts}
        item |= {"claimed_at": now()}
        return None if self._table.put_new(item) else self.submission(submission)

    def take_over_submission(self, previous: SubmissionItem, claim: Claim) -> bool:
        """Claim a submission whose previous claim has ended.

        Args:
            previous: The submission's item with the previous claim, as the caller read it.

        Returns:
            False if another process has claimed it first.
        """
        is_taken = self._table.update(
            (previous.submission, SUBMISSION),
            {"owner": claim.owner, "claimed_at": now(), "claim_ends_at": claim.ends_at},
            "#owner = :owner AND #claim_ends_at = :claim_ends_at AND #state = :state",
            {":owner": previous.owner, ":claim_ends_at": previous.claim_ends_at, ":state": previous.state},
        )
        # botocore repeats a write whose reply was lost. The repeated write fails its condition, as the first succeeded.
        if is_taken:
            return True
        current = self.submission(previous.submission)
        return current is not None and current.owner == claim.owner

    def release_submission(self, submission: str, claim: Claim, at: int = 0, *, failed_tries: int = 0) -> None:
        """Change the end of the caller's claim of a submission that was not submitted.

        Args:
            claim: The caller's claim.
            at: The new end, in seconds since 1970, which may be later than before; by default the claim ends at once.
            failed_tries: The number of failed attempts of the request.
        """
        changes: Item = {"claim_ends_at": at}
        if failed_tries:
            changes["failed_tries"] = failed_tries
        condition, values = "#owner = :owner AND #state = :state", {":owner": claim.owner, ":state": "Submitting"}
        self._table.update((submission, SUBMISSION), changes, condition, values)

    def record_submitted(self, submission: str, batch_job: str, arrays: Sequence[Array] = ()) -> None:
        """Record the Batch jobs of a submission.

        Args:
            batch_job: The id of the first Batch job.
            arrays: All Batch jobs.
        """
        changes: Item = {"state": "Submitted", "batch_job": batch_job, "submitted_at": now()}
        if arrays:
            changes["arrays"] = [array.entry() for array in arrays]
        self._table.update((submission, SUBMISSION), changes, "attribute_exists(submission)", {})

    def claim_retry(self, submission: str, facts: Mapping[str, Any]) -> int:
        """Return a number for a new array that retries jobs of a submission. Each call returns another number."""
        self.mark_open(submission)  # before a job is reopened, so that no pass overlooks it
        retries = sum(1 for _ in self._table.query(submission, "begins_with(#item, :value)", _RETRY))
        number = retries + 1
        while not self._table.put_new({"submission": submission, "item": f"{_RETRY}{number}", "at": now(), **facts}):
            number += 1
        return number

    def record_array(self, submission: str, array: Array) -> None:
        """Record an additional Batch job of a submission."""
        key = (submission, SUBMISSION)
        self._table.update(
            key, {"updated_at": now()}, "attribute_exists(arrays)", {}, appended={"arrays": [array.entry()]}
        )

    def replace_notice(self, submission: str, kind: NoticeKind, read: Notice | None, new: Notice) -> bool:
        """Record a notice of a submission.

        Args:
            read: The recorded notice that the caller has read; None if there was none.

        Returns:
            False, without a change, if the recorded notice has changed since.
        """
        return self._replace_notice((submission, SUBMISSION), notice_field(kind), read, new)

    def _replace_notice(self, key: tuple[str, str], field: str, read: Notice | None, new: Notice) -> bool:
        values = {":read": read.stored()} if read else {}
        condition = f"#{field} = :read" if read else f"attribute_exists(manifest) AND attribute_not_exists({field})"
        return self._table.update(key, {field: new.stored()}, condition, values)

    def submission(self, submission: str) -> SubmissionItem | None:
        """Return a submission's item, or None if it does not exist."""
        item = self._table.get(submission, SUBMISSION)
        return None if item is None else SubmissionItem.from_item(item)

    def job(self, submission: str, index: int) -> JobItem | None:
        """Return a job's item, or None if it does not exist."""
        item = self._table.get(submission, job_item(index))
        return None if item is None else JobItem.from_item(item)

    def look_up(self, submission: str, index: int) -> JobItem | Damaged | None:
        """Return a job's item, or None if it does not exist: `job` for a caller to which it is one of many."""
        try:
            return self.job(submission, index)
        except ItemError as error:
            return error.damaged

    def items(self, submission: str, first: int = 0) -> Iterator[LedgerItem | Damaged]:
        """Yield the items of a submission's jobs in the order of their index, then the submission's item if any.

        Args:
            first: The index of the first job to read; DynamoDB does not count the items before it as read.
        """
        yield from _read(self._table.query(submission, "#item >= :value", job_item(first) if first else JOB_PREFIX))

    def jobs(self, submission: str) -> Iterator[JobItem | Damaged]:
        """Yield the items of a submission's jobs in the order of their index."""
        yield from each(JobItem.from_item, self._table.query(submission, "begins_with(#item, :value)", JOB_PREFIX))

    def job_states(self, submission: str) -> Iterator[RecordedState | Damaged]:
        """Yield the state of each job of a submission that a child has opened, in the order of their index.

        It needs about a tenth of the requests of `jobs`, but the states may lack changes of the last moments. If the
        grid was deployed by a version without the index, it reads the items of the jobs.
        """
        condition = "#submission = :submission AND begins_with( #item , :job )"
        values = {":submission": submission, ":job": JOB_PREFIX}
        indexed = self._table.query_index(LEDGER_STATES, condition, values)
        items = (
            indexed if indexed is not None else self._table.query(submission, "begins_with(#item, :value)", JOB_PREFIX)
        )
        yield from each(RecordedState.from_item, items)

    def submissions(self, marks: Mapping[str, OpenMark] | None = None) -> Iterator[SubmissionItem | Damaged]:
        """Yield every submission, newest first, then damaged ones.

        It reads an index, which has only submissions because only their items have `claimed_at`. The index may lack
        submissions of the last moments, and a damaged one; those with open work are read by their marks. If the grid
        was deployed by a version without the index, or the caller may not read it, it reads the whole table.

        Args:
            marks: The result of `open_marks`, if the caller has just read it.
        """
        marks = self.open_marks() if marks is None else marks
        indexed = self._table.query_index(LEDGER_SUBMISSIONS, "#item = :item", {":item": SUBMISSION})
        if indexed is None:
            items = list(self._table.scan(SUBMISSION))
        else:
            items = list(indexed)
            missing = marks.keys() - {item["submission"] for item in items}
            items += [item for name in sorted(missing) if (item := self._table.get(name, SUBMISSION))]
        submissions = each(SubmissionItem.from_item, items)
        for part in sorted(submissions, key=lambda part: getattr(part, "claimed_at", ""), reverse=True):
            if isinstance(part, SubmissionItem) and part.ended and part.submission in marks:
                yield replace(part, ended={})  # a retry has reopened jobs since
            else:
                yield part

    def everything(self) -> Iterator[LedgerItem | Damaged]:
        """Yield every submission, job and cancel of the table. A damaged cancel is also yielded as one in force."""
        yield from _read(item for item in self._table.everything() if item["submission"] not in _OTHER_ITEMS)

    def open_items(self) -> Iterator[LedgerItem | Damaged]:
        """Yield the items of every submission with open work, by consistent reads.

        Before a scan of the whole table has completed the index of open work, it yields everything. Later, the index
        lacks only submissions that a command of a version without it has retried since the last daily scan.
        """
        if not self.history_scan().completed_at:
            yield from self.everything()
            return
        for submission in self.open_marks():
            yield from self.whole(submission)

    def whole(self, submission: str) -> Iterator[LedgerItem | Damaged]:
        """Yield the cancels, jobs and the item of a submission."""
        yield from _read(self._table.query(submission, "#item >= :value", " "))

    def mark_open(self, submission: str) -> None:
        """Add a submission to the index of open work, before its work begins. A new mark keeps it there."""
        self._table.put({**new_mark(submission), "at": now()})

    def mark_unsettled(self, submission: str) -> None:
        """Add a submission to the index of open work that a scan of the whole table has found, unless it is there."""
        self._table.put_new(new_mark(submission))

    def open_marks(self) -> dict[str, OpenMark]:
        """Return the marks of the submissions with open work, which passes read instead of all history."""
        marks = self._table.query(OPEN_SUBMISSIONS, "#item >= :value", " ")
        return {item["item"]: OpenMark.of(item) for item in marks}

    def settle(self, submission: str, mark: OpenMark, ended: Mapping[JobState, int]) -> bool:
        """Remove a submission, all of whose jobs have ended, from the index of open work.

        Args:
            mark: Its mark, which the caller has read before the jobs.
            ended: The number of its jobs in each final state, which the list of submissions shows.

        Returns:
            False if it has a new mark, because a job was reopened since.
        """
        changes: Item = {"settled": mark.mark, "ended": {str(state): count for state, count in ended.items()}}
        self._table.update((submission, SUBMISSION), changes, "attribute_exists(manifest)", {})
        return self._table.delete((OPEN_SUBMISSIONS, submission), "#mark = :mark", {":mark": mark.mark})

    def unsettled(self, after: Item | None) -> tuple[set[str], Item | None]:
        """Return the submissions on a page of the whole table that the index of open work must have.

        Args:
            after: The key after which the page begins; None for the first page.

        Returns:
            The submissions, and the key after which the next page begins; None after the last one.
        """
        values = {":submission": SUBMISSION, ":job": JOB_PREFIX, **_final_states()}
        keys, last_key = self._table.scan_page(_UNSETTLED, values, after)
        return {submission for submission, _ in keys}, last_key

    def history_scan(self) -> HistoryScan:
        """Return the progress of the last scan of the whole table."""
        return HistoryScan.of(self._table.get(GRID, HISTORY))

    def record_history_scan(self, progress: HistoryScan) -> None:
        """Record the progress of a scan of the whole table."""
        self._table.put({"submission": GRID, "item": HISTORY, **progress.stored()})

    def grid_items(self) -> tuple[HistoryScan, Pause | None]:
        """Return `history_scan` and `pause`, by one request."""
        items = {item["item"]: item for item in self._table.query(GRID, "#item >= :value", " ")}
        return HistoryScan.of(items.get(HISTORY)), Pause.of(items.get(LAUNCHING))

    def damaged_grid_items(self) -> list[Damaged]:
        """Return the items that concern more than one submission and cannot be read."""
        damaged = [part for part in (*self.shortages(), *self.rejections()) if isinstance(part, Damaged)]
        parts = (*self.grid_items(), *self.open_marks().values())
        return [*(part.damage for part in parts if part and part.damage), *damaged]

    def open_job(self, submission: str, job: Job, regions: Sequence[str] = (), array_file: str = "") -> JobItem:
        """Create a job's item with its first attempt unless it exists, and return the item.

        Args:
            regions: The Regions in which it may train, in order, beginning with its own; by default only its own.
            array_file: The array file whose children may launch it; by default any array's children.
        """
        item = first_item(submission, job, regions)
        if array_file:
            item["array_file"] = array_file
        existing = None if self._table.put_new(item) else self.job(submission, job.index)
        return existing or JobItem.from_item(item)

    def end_unopened(self, submission: str, job: Job, regions: Sequence[str], facts: JobFacts) -> bool:
        """Create a job's item with a final state, unless it exists.

        Args:
            regions: The Regions, as in `open_job`.
            facts: The final state and its reason.

        Returns:
            False, without a change, if the item exists.
        """
        return self._table.put_new({**first_item(submission, job, regions), **facts, "updated_at": now()})

    def end_unreadable(self, submission: str, index: int, facts: JobFacts) -> bool:
        """Create a final item for a job whose line is lost, so that only its index is known, unless it exists.

        Args:
            facts: The final state and its reason.

        Returns:
            False, without a change, if the item exists.
        """
        item: Item = {"submission": submission, "item": job_item(index), "attempt": 1, "name": f"job {index}"}
        item |= {"region": "", "opened_at": now(), "updated_at": now()}
        return self._table.put_new({**item, **facts})

    def record_job(
        self,
        key: JobKey,
        facts: JobFacts,
        required: Precondition = NO_FURTHER_CONDITIONS,
        *,
        opens: str = "",
        closes: str = "",
    ) -> bool:
        """Record the observed state of a job's attempt.

        Args:
            key: The observed attempt.
            required: Further conditions of the write.
            opens: The name of a request for the training job that the caller is about to send.
            closes: The name of the caller's request that was answered, or that it does not send.

        Returns:
            False, without a change, if the attempt has ended, the job is at another attempt, or one of the conditions
            is not met.
        """
        condition = "#attempt = :attempt AND NOT #state IN (:final0, :final1, :final2)"
        values = _final_states()
        values |= {":attempt": key.attempt}
        further_condition, further_values = required.condition()
        condition += further_condition
        values |= further_values
        changes: Item = {**facts, "updated_at": now()}
        if opens:
            changes["requested_at"] = now()
        added = {"open_requests": opens} if opens else None
        discarded = {"open_requests": closes} if closes else None
        return self._table.update(key.table_key, changes, condition, values, added=added, discarded=discarded)

    def record_description(
        self,
        key: JobKey,
        facts: JobFacts,
        required: Precondition = NO_FURTHER_CONDITIONS,
        *,
        closes: str = "",
    ) -> bool:
        """Record the state of a training job as its service describes it; see `record_job`.

        A description without a reason ends the reason of a wait. The process that decides a stop records its reason
        with the state Stopping, so that one stays.
        """
        if not facts.get("reason"):
            waited: JobFacts = {**facts, "reason": ""}
            if self.record_job(key, waited, replace(required, unless_stopping=True), closes=closes):
                return True
        return self.record_job(key, facts, required, closes=closes)

    def close_request(self, key: JobKey, request: str) -> None:
        """Record that a request for the training job of an attempt was answered or is not sent, also after its end.

        Args:
            request: The name of the request (see `record_job`).
        """
        values, discarded = {":attempt": key.attempt}, {"open_requests": request}
        self._table.update(key.table_key, {}, "#attempt = :attempt", values, discarded=discarded)

    def record_progress(self, key: JobKey, progress: Mapping[str, float], epoch_seconds: float = 0.0) -> bool:
        """Record the last values of an attempt's metrics, also after its end, because progress is not a state.

        Args:
            epoch_seconds: The seconds that an epoch takes; 0 if they are not known.
        """
        changes: dict[str, Any] = {"progress": dict(progress), "progress_at": now()}
        if epoch_seconds:
            changes["epoch_seconds"] = epoch_seconds
        return self._table.update(key.table_key, changes, "#attempt = :attempt", {":attempt": key.attempt})

    def record_missing_model(self, key: JobKey) -> bool:
        """Record that a completed attempt has written no model, after its end, because that does not change it.

        Returns:
            False, without a change, if the attempt is not completed, or the job is at another attempt.
        """
        changes, values = {"has_no_model": True, "reason": NO_MODEL}, {":attempt": key.attempt}
        condition = "#attempt = :attempt AND #state = :completed"
        return self._table.update(key.table_key, changes, condition, values | {":completed": JobState.COMPLETED})

    def next_attempt(  # noqa: PLR0913  # one keyword for each independent option
        self,
        key: JobKey,
        tried: AttemptFacts,
        region: str,
        *,
        reopen: str = "",
        array_file: str = "",
        unrequested: bool = False,
        on_demand: bool | None = None,
        backend: BackendName = DEFAULT_BACKEND,
    ) -> bool:
        """Move a job to its next attempt with one conditional write, which succeeds for one of several callers.

        Args:
            key: The attempt that ends with this write.
            tried: Its outcome, which the caller has seen.
            reopen: A unique value for a person's retry, which requires that the job is recorded as failed or stopped.
                Empty for an automatic retry, which requires that no final state is recorded.
            array_file: The array file whose children launch the next attempt; by default it does not change.
            unrequested: Require that no training job of the previous attempt exists or may still be created
                (`JobItem.is_unrequested`).
            on_demand: Use on-demand instances from this attempt on, although the line has `spot`, or spot instances
                again; by default it does not change. A user's retry begins with spot instances.

        Returns:
            False, without a change, if another process was faster or the requirement is not met.
        """
        condition, values = _end_of_attempt(key.attempt, reopens=bool(reopen), unrequested=unrequested)
        entry: Item = {"attempt": key.attempt, "ended_at": now(), **tried}
        if reopen:
            entry["reopened"] = reopen
        changes: Item = {"attempt": key.attempt + 1, "state": JobState.PENDING, "region": region, "batch_child": ""}
        changes |= {"opened_at": now(), "reason": tried.get("reason", ""), "updated_at": now()}
        if array_file:
            changes["array_file"] = array_file
        if on_demand:
            changes["on_demand"] = True
        changes |= backend_field(backend)
        removed_fields = list(_OF_AN_ATTEMPT)
        if reopen or on_demand is False:
            removed_fields.append("on_demand")
        if backend == DEFAULT_BACKEND:
            removed_fields.append("backend")
        moved = self._table.update(
            key.table_key,
            changes,
            condition,
            values,
            appended={"tried": [entry]},
            removed=removed_fields,
        )
        if moved or not reopen:  # after False, a child reads the ledger again and continues from there
            return moved
        # botocore repeats a write whose reply was lost. The repeated write fails, as the first has moved the job.
        current = self.job(key.submission, key.index)
        return current is not None and any(previous.reopened == reopen for previous in current.tried)

    def request_cancel(self, submission: str, scope: str, facts: Mapping[str, Any]) -> None:
        """Record a cancel of a submission's jobs. Another cancel with the same scope replaces it.

        Args:
            scope: CANCEL_ALL, `cancel_of_region(region)` or `cancel_of_job(index)`.
            facts: The person and the reason: by, reason.
        """
        item = {"submission": submission, "item": f"{CANCEL_PREFIX}{scope}", "at": now(), **facts}
        self._table.put(item)

    def cancel_once(self, submission: str, facts: Mapping[str, Any]) -> Cancel:
        """Record a cancel of a whole submission, unless one is recorded; return it, or the one that was recorded.

        Args:
            facts: The role and the reason: by, reason.
        """
        item = {"submission": submission, "item": f"{CANCEL_PREFIX}{CANCEL_ALL}", "at": now(), **facts}
        self._table.put_new(item)
        return Cancel.from_item(self._table.get(submission, item["item"]) or item)

    def cancels(self, submission: str) -> dict[str, Cancel]:
        """Return the recorded cancels of a submission by scope; `is_cancelled` applies them to a job.

        A damaged cancel is in force: only its time, user and reason are lost.
        """
        cancels = _cancels(self._table.query(submission, "begins_with(#item, :value)", CANCEL_PREFIX))
        return {cancel.scope: cancel for cancel in cancels if isinstance(cancel, Cancel)}

    def set_launching(self, facts: Mapping[str, Any], *, allowed: bool) -> None:
        """Record that a person has paused or resumed the creation of training jobs.

        Args:
            facts: The person and the reason: by, reason.
            allowed: True to resume; False to pause.
        """
        self._table.put({"submission": GRID, "item": LAUNCHING, "allowed": allowed, "at": now(), **facts})

    def pause(self) -> Pause | None:
        """Return the pause of launching; None if launching is not paused. A damaged pause is in force."""
        return Pause.of(self._table.get(GRID, LAUNCHING))

    def shortage(self, pool: CapacityPool) -> Shortage | None:
        """Return the recorded shortage of a capacity pool, which may be over; None if none was ever recorded."""
        item = self._table.get(*pool.key)
        return None if item is None else Shortage.from_item(item)

    def shortages(self) -> list[Shortage | Damaged]:
        """Return the recorded shortages of all pools, including those that are over."""
        return list(each(Shortage.from_item, self._table.query(SHORTAGES, "#item >= :value", " ")))

    def record_rejection(self, rejection: Rejection) -> None:
        """Record a manifest that was not accepted, once for all tries of its event.

        A try that reads the manifest replaces the reason of an earlier one that could not read it.
        """
        if not self._table.put_new(rejection.stored()) and rejection.errors:
            changes: Item = {"errors": rejection.errors, "reason": rejection.reason}
            self._table.update(rejection.key, changes, "#errors = :none", {":none": 0})

    def rejections(self) -> list[Rejection | Damaged]:
        """Return the rejections of the last week, including those of manifests that were corrected since."""
        return list(each(Rejection.from_item, self._table.query(REJECTIONS, "#item >= :value", first_shown())))

    def replace_rejection_notice(self, rejection: Rejection, read: Notice | None, new: Notice) -> bool:
        """Record the notice of a rejection.

        Args:
            read: The recorded notice that the caller has read; None if there was none.

        Returns:
            False, without a change, if the recorded notice has changed since.
        """
        return self._replace_notice(rejection.key, NOTICE, read, new)

    def replace_shortage(self, read: Shortage | None, new: Shortage) -> bool:
        """Record a shortage.

        Args:
            read: The recorded shortage of the same pool that the caller has read.

        Returns:
            False, without a change, if the recorded shortage has changed since.
        """
        if read is None:
            submission, item = new.pool.key
            return self._table.put_new({"submission": submission, "item": item, **new.stored()})
        condition = "#until = :until AND #failed_at = :failed_at AND #probe = :probe"
        values = {":until": read.until, ":failed_at": read.failed_at, ":probe": read.probe}
        return self._table.update(new.pool.key, new.stored(), condition, values)


class PatientLedger(Patient[Ledger], Ledger):
    """The ledger of one grid, whose requests wait out an outage."""


def _read(items: Iterable[Item]) -> Iterator[LedgerItem | Damaged]:
    """Yield the submissions, jobs and cancels among stored items, and omit other kinds."""
    for item in items:
        key = item["item"]
        if key.startswith(JOB_PREFIX):
            yield from each(JobItem.from_item, [item])
        elif key == SUBMISSION:
            yield from each(SubmissionItem.from_item, [item])
        elif key.startswith(CANCEL_PREFIX):
            yield from _cancels([item])


def _cancels(items: Iterable[Item]) -> Iterator[Cancel | Damaged]:
    """Yield cancels, and a damaged one twice: as damage, and as a cancel in force, because no cancel is ever lost."""
    for item in items:
        for cancel in each(Cancel.from_item, [item]):
            yield cancel
            if not isinstance(cancel, Cancel):
                yield Cancel.of_key(item)


def _end_of_attempt(attempt: int, *, reopens: bool, unrequested: bool) -> tuple[str, Item]:
    """Return the condition under which an attempt may end, and the values of its placeholders; see `next_attempt`."""
    condition = "#attempt = :attempt"
    values: Item = {":attempt": attempt}
    if reopens:
        condition += " AND #state IN (:failed, :stopped)"
        values |= {":failed": JobState.FAILED, ":stopped": JobState.STOPPED}
    else:
        condition += " AND NOT #state IN (:final0, :final1, :final2)"
        values |= _final_states()
    if unrequested:
        condition += f" AND {_UNREQUESTED}"
        values |= {":refused": ""} | _placeholders("unlaunched", UNLAUNCHED_STATES)
    return condition, values


def _final_states() -> Item:
    return _placeholders("final", FINAL_STATES)


def _placeholders(prefix: str, states: Iterable[JobState]) -> Item:
    return {f":{prefix}{number}": state for number, state in enumerate(sorted(states))}
