"""The orchestrator: what one child of the array does, from its environment to its exit code."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Self

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import manifest
from traingrid.backends.sagemaker import SageMaker
from traingrid.deployment import Deployment
from traingrid.errors import TraingridError, UsageError
from traingrid.ledger import Ledger
from traingrid.s3_uri import ObjectVersion
from traingrid.storage import Storage
from traingrid.submission import jobs_of_lines, read_job, submission_id, submission_of_key
from traingrid.supervisor import LetGoError, Supervisor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from traingrid.job import Job

# Exit codes of a child; the job definition's retry strategy knows them (stacks/orchestrator.py).
TRAINED, JOB_FAILED, LINE_IS_WRONG, TRY_AGAIN, STOPPED = 0, 1, 2, 75, 143
_EXIT_CODES = {"Completed": TRAINED, "Failed": JOB_FAILED, "Stopped": STOPPED}


@dataclass(frozen=True, kw_only=True)
class Child:
    """What AWS Batch tells a child.

    Attributes:
        array_file: The manifest, raw or normalised.
        index: Which job of it; 0 in a plain job, where Batch sets no index.
        batch_job: The id of the whole Batch job, without the child's index.
        attempt: Batch's attempt at this child, from 1.
    """

    array_file: ObjectVersion
    index: int
    batch_job: str
    attempt: int

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read S3_ARRAY_FILE and Batch's own variables
        (https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html).

        Raises:
            UsageError: A variable is missing or wrong.
        """
        try:
            return cls(
                array_file=ObjectVersion.parse(environment["S3_ARRAY_FILE"]),
                index=int(environment.get("AWS_BATCH_JOB_ARRAY_INDEX", "0")),
                batch_job=environment["AWS_BATCH_JOB_ID"].partition(":")[0],
                attempt=int(environment.get("AWS_BATCH_JOB_ATTEMPT", "1")),
            )
        except KeyError as missing:
            message = f"The environment variable {missing.args[0]} is not set."
            next_step = "Submit the job definition to AWS Batch with S3_ARRAY_FILE=s3://bucket/manifest.csv."
            raise UsageError(message, next_step) from None
        except ValueError as error:
            message = f"S3_ARRAY_FILE={environment['S3_ARRAY_FILE']} cannot be used: {error}."
            raise UsageError(message, "Write s3://bucket/manifest.csv.") from None


def find_job(child: Child, deployment: Deployment, storage: Storage, ledger: Ledger) -> tuple[str, Job]:
    """Return the submission and the job of a child.

    A normalised submission is read by byte range. A raw manifest, as somebody gives it in the Batch console, is parsed
    whole, and the Batch job itself is the submission: its retries find the same training jobs again, another Batch job
    means another training. No intake has claimed such a submission, so its children do: `traingrid status` shows it.

    Raises:
        ManifestError: The raw manifest is wrong.
        UsageError: There is no such job in the file.
    """
    submission = submission_of_key(child.array_file.key)
    try:
        if submission and child.array_file.bucket == deployment.manifest_bucket:
            return submission, read_job(storage, child.array_file, child.index)
        lines = manifest.parse(storage.read(child.array_file, limit=manifest.MAX_BYTES), deployment)
        submission = submission_id(child.batch_job)
        job = jobs_of_lines(lines, deployment, submission)[child.index]
    except IndexError:
        message = f"{child.array_file} has no job of index {child.index}."
        raise UsageError(message, "Give the array the size of the manifest.") from None
    facts = {"manifest": str(child.array_file), "version": "", "jobs": len(lines)}
    ledger.claim_submission(submission, child.batch_job, facts | {"state": "Submitted", "batch_job": child.batch_job})
    return submission, job


def run_child(environment: Mapping[str, str]) -> int:
    """Run one child and return its exit code.

    An error that nobody foresaw ends the process with TRY_AGAIN: Python's own exit status 1 would say that the training
    job failed, and it may well go on.
    """
    sys.excepthook = _try_again
    signal.signal(signal.SIGTERM, _let_go)
    try:
        child, deployment = Child.from_environment(environment), Deployment.from_environment(environment)
        storage, ledger = Storage(deployment.grid.home), Ledger(deployment.table, deployment.grid.home)
        submission, job = find_job(child, deployment, storage, ledger)
        _say(f"submission {submission}, index {child.index}, line {job.line}, attempt {child.attempt} of this child")
        supervisor = Supervisor(
            grid=deployment.grid.name,
            submission=submission,
            job=job,
            backend=SageMaker(deployment, job.region),
            ledger=ledger,
            say=_say,
        )
        return _EXIT_CODES[supervisor.run()["state"]]
    except LetGoError:
        _say("told to end: what trains already trains on, and a retry of this child attaches to it")
        return TRY_AGAIN  # Batch does not retry what a user has terminated, and retries everything else that ends so
    except TraingridError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    except (BotoCoreError, ClientError) as error:
        print(f"AWS does not do what is asked: {error}. Batch tries again by itself.", file=sys.stderr, flush=True)
        return TRY_AGAIN


def _let_go(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: a second one must not end the ending
    raise LetGoError


def _try_again(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.__excepthook__(kind, error, trace)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(TRY_AGAIN)


def _say(line: str) -> None:
    print(line, flush=True)
