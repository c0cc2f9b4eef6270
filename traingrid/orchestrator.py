"""The orchestrator: what one child of the array does, from its environment to its exit code.

A child ends before its job does in three cases only: it is told to (SIGTERM), the line cannot be run, or an error that
waiting does not mend. What waiting mends is waited for in this process (traingrid/outage.py), because Batch tries a
child ten times and no more.
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

from traingrid.backends.queued import launching
from traingrid.child import Child, find_job
from traingrid.deployment import Deployment
from traingrid.errors import TraingridError
from traingrid.failures import FAILURES, JOB_FAILED, STOPPED, TRAINED, TRY_AGAIN
from traingrid.ledger import Ledger, is_of_array
from traingrid.log_lines import log_line
from traingrid.orchestration_cost import dollars
from traingrid.orchestration_cost import sentence as cost_sentence
from traingrid.outage import code_of, patient
from traingrid.pace import Pace
from traingrid.storage import Storage
from traingrid.submission import array_file, submission_of_key
from traingrid.supervisor import LetGoError, Supervisor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType, TracebackType

    from traingrid.backends.base import Backend
    from traingrid.grid_orchestrator import Orchestrator
    from traingrid.ledger import Item
    from traingrid.log_lines import Say

FAREWELL_SECONDS = 4.0
"""What a child that is told to end may take to see whether it is cancelled, and to stop its training job if so. SIGKILL
follows SIGTERM after 30 s (https://docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html), but Fargate may take
its host away sooner, and nothing depends on this: whoever cancels stops what runs, and so does the reconciler."""

_AGAIN_SECONDS = 0.5


def run_child(environment: Mapping[str, str]) -> int:
    """Run one child and return its exit code.

    An error that nobody foresaw ends the process with TRY_AGAIN: Python's own exit status 1 would say that the training
    job failed, and it may well go on.
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
        said = f"AWS does not do what is asked: {error}. Batch tries again by itself."
        return _give_up(error, said, TRY_AGAIN, say)


def exit_code(item: Item, array_file: str = "") -> int:
    """Return what a child ends with: TRAINED also if its job runs and nobody needs to watch it, or is another array's.

    Args:
        item: The job's item.
        array_file: The file of the child's array.
    """
    if item["state"] in ("Completed", "InProgress") or not is_of_array(item, array_file):
        return TRAINED
    failure = FAILURES.get(item.get("failure", ""))
    if failure:
        return failure.exit_code
    return STOPPED if item["state"] == "Stopped" else JOB_FAILED


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
    """Stop the training job if it is cancelled, else leave it alone; in either case within FAREWELL_SECONDS."""
    signal.setitimer(signal.ITIMER_REAL, FAREWELL_SECONDS, _AGAIN_SECONDS)  # ends a call that waits for AWS
    try:
        if supervisor and supervisor.let_go():
            say("told to end, and the job is cancelled", event="told_to_end")
            return STOPPED
    except (LetGoError, TraingridError, BotoCoreError, ClientError):
        say("told to end, and AWS does not say in time whether the job is cancelled", event="told_to_end")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    say("told to end: what trains already trains on, and a retry of this child attaches to it", event="told_to_end")
    return TRY_AGAIN  # Batch does not retry what a user has terminated, and retries everything else that ends so


def _let_go(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: a second one must not end the ending
    # Python drops what is raised while it runs a finalizer or a callback of a weak reference: so it is raised again.
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
    """Say something in a line of the log, which is both streams of the container together."""
    print(log_line(sentence, **facts), file=sys.stderr if facts.get("level") == "ERROR" else sys.stdout, flush=True)
