"""Orchestrator: runs one child of the array, from its environment to its exit code.

A child ends before its job only in three cases: it receives SIGTERM, its line cannot be run, or an error is permanent.
The child waits out temporary errors itself (traingrid/aws/outage.py), because Batch makes at most ten attempts per
child.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.outage import code_of, patient
from traingrid.aws.s3 import Storage
from traingrid.backends import launching
from traingrid.child.cost import dollars
from traingrid.child.cost import sentence as cost_sentence
from traingrid.child.environment import Child, find_job
from traingrid.child.pace import Pace
from traingrid.child.supervisor import LetGoError, Supervisor
from traingrid.errors import TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.job.failures import FAILURES, JOB_FAILED, STOPPED, TRAINED, TRY_AGAIN
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.log_lines import log_line
from traingrid.submission.files import array_file, submission_of_key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType, TracebackType

    from traingrid.backends.base import Backend
    from traingrid.grid.orchestrator import Orchestrator
    from traingrid.ledger.items import JobItem
    from traingrid.log_lines import Say

FAREWELL_SECONDS = 4.0
"""The time in which a child that receives SIGTERM checks for a cancellation and stops its training job if cancelled.
SIGKILL follows SIGTERM after 30 s (https://docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html), but Fargate
may reclaim the host sooner. Correctness does not depend on this: the cancel command and the reconciler also stop
training jobs."""

_AGAIN_SECONDS = 0.5


def run_child(environment: Mapping[str, str]) -> int:
    """Run one child and return its exit code.

    An unexpected error ends the process with TRY_AGAIN. Python's exit status 1 would mean that the training job
    failed, but it may still be running.
    """
    sys.excepthook = _try_again
    signal.signal(signal.SIGTERM, _let_go)
    started, supervisor = time.monotonic(), None
    say: Say = partial(_say, batch_child=environment.get("AWS_BATCH_JOB_ID", ""))
    try:
        child, deployment = Child.from_environment(environment), Deployment.from_environment(environment, "launch")
        say = partial(say, submission=submission_of_key(child.array_file.key), child_attempt=child.attempt)
        try:
            supervisor = _supervisor(child, deployment, say)
            say = supervisor.say
            return exit_code(supervisor.run(), supervisor.array_file)
        finally:
            _say_cost(deployment.grid.orchestrator, time.monotonic() - started, say)
    except LetGoError:
        return _farewell(supervisor, say)
    except TraingridError as error:
        return _give_up(error, str(error), error.exit_code, say)
    except (BotoCoreError, ClientError) as error:
        said = f"AWS request failed: {error}. Batch will retry this child automatically."
        return _give_up(error, said, TRY_AGAIN, say)


def exit_code(item: JobItem, array_file: str = "") -> int:
    """Return a child's exit code: TRAINED also for a job that needs no more watching or belongs to another array.

    Args:
        item: The job's item.
        array_file: The file of the child's array.
    """
    if item.state in (JobState.COMPLETED, JobState.IN_PROGRESS) or not item.is_of_array(array_file):
        return TRAINED
    failure = FAILURES.get(item.failure)
    if failure:
        return failure.exit_code
    return STOPPED if item.state == JobState.STOPPED else JOB_FAILED


def _supervisor(child: Child, deployment: Deployment, say: Say) -> Supervisor:
    storage = patient(lambda: Storage(deployment.grid.home), say)
    ledger = patient(lambda: Ledger(deployment.table, deployment.grid.home), say)
    submission, job = find_job(child, deployment, storage, ledger)
    say = partial(say, submission=submission, index=job.index)
    said = f"submission {submission}, index {job.index}, line {job.line}, attempt {child.attempt} of this child"
    say(said, event="begun", name=job.name, line=job.line)

    def backend_in(region: str) -> Backend:
        return patient(lambda: launching(deployment, region, job.launch), partial(say, region=region))

    return Supervisor(
        grid=deployment.grid.name,
        submission=submission,
        job=job,
        backend_in=backend_in,
        ledger=ledger,
        say=say,
        batch_child=child.id,
        array_file=array_file(child.array_file.key),
        until_started=deployment.grid.orchestrator.watch == "until_started",
        pace=Pace.of_array(child.size, deployment.grid.orchestrator),
    )


def _farewell(supervisor: Supervisor | None, say: Say) -> int:
    """Stop the training job if it is cancelled; take at most FAREWELL_SECONDS in any case."""
    signal.setitimer(signal.ITIMER_REAL, FAREWELL_SECONDS, _AGAIN_SECONDS)  # interrupts a call that waits for AWS
    try:
        if supervisor and supervisor.let_go():
            say("received SIGTERM; the job is cancelled", event="told_to_end")
            return STOPPED
    except (LetGoError, TraingridError, BotoCoreError, ClientError):
        say("received SIGTERM; AWS did not answer in time whether the job is cancelled", event="told_to_end")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    say("received SIGTERM; the training job continues, and a retry of this child attaches to it", event="told_to_end")
    return TRY_AGAIN  # Batch retries a child with this exit code unless a user has terminated it


def _let_go(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second SIGTERM must not interrupt the shutdown
    # Python discards an exception raised in a finalizer or a weak reference's callback, so the timer raises it again.
    signal.signal(signal.SIGALRM, _let_go)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS, _AGAIN_SECONDS)
    raise LetGoError


def _try_again(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    said, where = "".join(traceback.format_exception_only(kind, error)).strip(), traceback.format_tb(trace)
    _say(said, level="ERROR", event="error", failure=kind.__name__, stack_trace=where, exit_code=TRY_AGAIN)
    os._exit(TRY_AGAIN)


def _give_up(error: Exception, said: str, code: int, say: Say) -> int:
    say(said, level="ERROR", event="error", failure=code_of(error), exit_code=code)
    return code


def _say_cost(size: Orchestrator, seconds: float, say: Say) -> None:
    say(cost_sentence(size, seconds), event="cost", seconds=round(seconds, 1), dollars=round(dollars(size, seconds), 6))


def _say(sentence: str, **facts: Any) -> None:
    """Write a log line; both streams of the container form one log."""
    print(log_line(sentence, **facts), file=sys.stderr if facts.get("level") == "ERROR" else sys.stdout, flush=True)
