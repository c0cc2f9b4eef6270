"""Orchestrator: runs one child of the array, from its environment to its exit code.

A child ends before its job only in three cases: it receives SIGTERM, its line cannot be run, or an error is permanent.
The child waits out temporary errors itself (traingrid/aws/outage.py), because Batch makes at most ten attempts per
child.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.outage import code_of
from traingrid.aws.s3 import PatientStorage, Storage
from traingrid.backends import launching
from traingrid.child.capacity import CAPACITY_CALLS
from traingrid.child.cost import dollars
from traingrid.child.cost import sentence as cost_sentence
from traingrid.child.environment import Child, find_job, with_stored_jobs
from traingrid.child.folder_channels import with_folder_channels
from traingrid.child.missing_model import record_missing_model
from traingrid.child.patient_backend import PatientBackend
from traingrid.child.polling_pace import PollingPace
from traingrid.child.sigterm import AGAIN_SECONDS, Sigterm
from traingrid.child.supervisor import LetGoError, Supervisor, needs_checkpoint
from traingrid.errors import CallError, TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.job.failures import FAILURES, JOB_FAILED, STOPPED, TRAINED, TRY_AGAIN
from traingrid.job.initial_model import needs_model_copy
from traingrid.job.job import job_in_region
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger, PatientLedger
from traingrid.log import configure_child, extend_log_context, log_context
from traingrid.submission.files import array_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from traingrid.backends.base import Backend
    from traingrid.child.attempt import Attempt
    from traingrid.child.checkpoint_copy import CheckpointCopy
    from traingrid.child.data_copy import DataCopy
    from traingrid.child.spot_policy import Transfer
    from traingrid.grid.orchestrator import Orchestrator
    from traingrid.job.backend_traits import BackendName
    from traingrid.ledger.items import JobItem

logger = logging.getLogger(__name__)
FAREWELL_SECONDS = 4.0
"""The time in which a child that receives SIGTERM checks for a cancellation and stops its training job if cancelled.
SIGKILL follows SIGTERM after 30 s (https://docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html), but Fargate
may reclaim the host sooner. Correctness does not depend on this: the cancel command and the reconciler also stop
training jobs."""


def run_child(environment: Mapping[str, str]) -> int:
    """Run one child and return its exit code.

    An unexpected error ends the process with TRY_AGAIN. Python's exit status 1 would mean that the training job
    failed, but it may still be running.
    """
    sys.excepthook = _try_again
    sigterm = Sigterm()
    sigterm.install()
    with log_context(batch_child=environment.get("AWS_BATCH_JOB_ID", "")):
        return _run(environment, sigterm)


def _run(environment: Mapping[str, str], sigterm: Sigterm) -> int:
    started, supervisor = time.monotonic(), None
    try:
        configure_child(environment)
        with sigterm.held():
            child, deployment = Child.from_environment(environment), Deployment.from_environment(environment, "launch")
        extend_log_context(submission=child.submission or None, child_attempt=child.attempt)
        try:
            supervisor = _supervisor(child, deployment)
            item = supervisor.run()
            record_missing_model(item, deployment, supervisor.ledger)
            _prune_checkpoints(item, deployment, child)
            return exit_code(item, supervisor.array_file)
        finally:
            _log_cost(deployment.grid.orchestrator, time.monotonic() - started)
    except LetGoError:
        return _farewell(supervisor)
    except TraingridError as error:
        if sigterm.received:
            return _farewell(supervisor)
        return _give_up(error, str(error), TRY_AGAIN if isinstance(error, CallError) else error.exit_code)
    except (BotoCoreError, ClientError) as error:
        return _give_up(error, f"AWS request failed: {error}. Batch will retry this child automatically.", TRY_AGAIN)


def _prune_checkpoints(item: JobItem, deployment: Deployment, child: Child) -> None:
    """Remove the copies of a completed job's checkpoints. An earlier try of this child may have been killed before."""
    if item.state == JobState.COMPLETED and any(attempt.checkpoint_from for attempt in item.attempts().values()):
        from traingrid.child.checkpoint_prune import copied_folders, prune_checkpoints  # noqa: PLC0415  # few jobs move

        prune_checkpoints(copied_folders(item, deployment), deployment, child.id)


def exit_code(item: JobItem, array_file: str = "") -> int:
    """Return a child's exit code: TRAINED also for a job that needs no more watching or belongs to another array."""
    if item.state in (JobState.COMPLETED, JobState.IN_PROGRESS) or not item.is_of_array(array_file):
        return TRAINED
    failure = FAILURES.get(item.failure)
    if failure:
        return failure.exit_code
    return STOPPED if item.state == JobState.STOPPED else JOB_FAILED


def _supervisor(child: Child, deployment: Deployment) -> Supervisor:
    home = deployment.grid.home
    storage = PatientStorage(lambda: Storage(home), home)
    ledger = PatientLedger(lambda: Ledger(deployment.table, home), home, optional=CAPACITY_CALLS)
    child = with_stored_jobs(child, deployment, storage, ledger)
    job = find_job(child, storage)
    extend_log_context(submission=child.submission, index=job.index)
    job_text = f"submission {child.submission}, index {job.index}, line {job.line}"
    message = f"{job_text}, attempt {child.attempt} of this child"
    logger.info(message, extra={"event": "begun", "job_name": job.name, "line": job.line})

    def backend_in(region: str, backend: BackendName) -> Backend:
        return PatientBackend(lambda: launching(deployment, region, backend, job.launch), region)

    copies = Copies(deployment=deployment)
    return Supervisor(
        grid=deployment.grid.name,
        submission=child.submission,
        job=job,
        backend_in=backend_in,
        ledger=ledger,
        batch_child=child.id,
        array_file=array_file(child.array_file.key),
        until_started=deployment.grid.orchestrator.watch == "until_started",
        copy_data=copies.run,
        release_copy=copies.release,
        find_transfer=copies.transfer,
        find_channels=partial(with_folder_channels, deployment=deployment),
        pace=PollingPace.of_array(child.size, deployment.grid.orchestrator),
    )


@dataclass(kw_only=True)
class Copies:
    """The copies of a line: of its data, of its initial model, and of its newest checkpoint."""

    deployment: Deployment
    _last: DataCopy | CheckpointCopy | None = field(default=None, init=False)

    def run(self, attempt: Attempt) -> bool:
        """Copy the parts that an attempt needs; see `Supervisor.copy_data`."""
        from traingrid.child.checkpoint_copy import CheckpointCopy  # noqa: PLC0415  # most children copy nothing
        from traingrid.child.data_copy import data_copy  # noqa: PLC0415  # as above
        from traingrid.child.model_copy import model_copy  # noqa: PLC0415  # as above

        if attempt.job.copy_from:
            self._last = data_copy(attempt, self.deployment)
            if not self._last.run():
                return False
        if needs_model_copy(attempt.job):
            self._last = model_copy(attempt, self.deployment)
            if not self._last.run():
                return False
        if needs_checkpoint(attempt.job, item := attempt.item()):
            self._last = CheckpointCopy(attempt=attempt, deployment=self.deployment, item=item)
            return self._last.run()
        return True

    def transfer(self, attempt: Attempt, region: str) -> Transfer | None:
        """Return the transfer of the newest checkpoint to another Region; see `Supervisor.find_transfer`."""
        from traingrid.child.checkpoint_copy import CheckpointCopy  # noqa: PLC0415  # as above

        item = attempt.item()
        if item.may_have_trained:
            item = replace(item, tried=tuple(item.attempts().values()))  # as the next attempt will have it
        next_attempt = replace(attempt, job=job_in_region(attempt.job, region))
        return CheckpointCopy(attempt=next_attempt, deployment=self.deployment, item=item, waits=False).transfer()

    def release(self) -> None:
        """Let another child continue the last copy; see `Supervisor.release_copy`."""
        if self._last:
            self._last.release()


def _farewell(supervisor: Supervisor | None) -> int:
    """Stop the training job if it is cancelled; take at most FAREWELL_SECONDS in any case."""
    signal.setitimer(signal.ITIMER_REAL, FAREWELL_SECONDS, AGAIN_SECONDS)  # interrupts a call that waits for AWS
    try:
        if supervisor and supervisor.let_go():
            _log_end("the job is cancelled")
            return STOPPED
    except (LetGoError, TraingridError, BotoCoreError, ClientError):
        _log_end("AWS did not answer in time whether the job is cancelled")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    _log_end("the training job continues, and a retry of this child attaches to it")
    return TRY_AGAIN  # Batch retries a child with this exit code unless a user has terminated it


def _log_end(consequence: str) -> None:
    logger.info("received SIGTERM; %s", consequence, extra={"event": "told_to_end"})


def _try_again(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    message, frames = "".join(traceback.format_exception_only(kind, error)).strip(), traceback.format_tb(trace)
    fields = {"event": "error", "failure": kind.__name__, "stack_trace": frames, "exit_code": TRY_AGAIN}
    logger.error(message, extra=fields)
    os._exit(TRY_AGAIN)


def _give_up(error: Exception, message: str, code: int) -> int:
    logger.error(message, extra={"event": "error", "failure": code_of(error), "exit_code": code})
    return code


def _log_cost(size: Orchestrator, seconds: float) -> None:
    fields = {"event": "cost", "seconds": round(seconds, 1), "dollars": round(dollars(size, seconds), 6)}
    logger.info(cost_sentence(size, seconds), extra=fields)
