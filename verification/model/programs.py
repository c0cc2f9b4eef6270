"""traingrid's programs as actors run them: its own classes, composed as its entry points compose them."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.batch import Batch
from traingrid.aws.s3 import PatientStorage, Storage
from traingrid.backends import launching
from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.child.attempt import Clock
from traingrid.child.capacity import CAPACITY_CALLS
from traingrid.child.environment import Child, find_job
from traingrid.child.main import exit_code
from traingrid.child.patient_backend import PatientBackend
from traingrid.child.supervisor import LetGoError, Supervisor
from traingrid.errors import TraingridError
from traingrid.job.failures import STOPPED, TRY_AGAIN
from traingrid.ledger.ledger import Ledger, PatientLedger
from traingrid.ledger.record_outcome import record_seen
from traingrid.manifest import parse as manifest
from traingrid.reconciler.reconciler import Reconciler
from traingrid.submission.batch_children import Children
from traingrid.submission.cancel import Canceller, CancelTarget
from traingrid.submission.files import array_file
from traingrid.submission.intake import Intake, ManifestVersion
from traingrid.submission.retry import Retrier

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.grid.deployment import Deployment
    from verification.model.actors import Turns
    from verification.model.batch import BatchChild

FUNCTION_SECONDS = 60.0
"""Timeout of a function (stacks/event_function.py)."""


class Programs:
    """The programs of a grid.

    Args:
        turns: The clock that they use to sleep.

    Attributes:
        ledger: Makes the ledger of the children.
    """

    def __init__(self, deployment: Deployment, turns: Turns) -> None:
        self._deployment, self._turns, self._runs = deployment, turns, count()
        self.ledger: Callable[[str, str], Ledger] = Ledger

    def child(self, child: BatchChild, *, until_started: bool) -> int:
        """Run a child as `traingrid.child.main.run_child` does, and return its exit code."""
        supervisor = None
        try:
            supervisor = self._supervisor(child, until_started=until_started)
            return exit_code(supervisor.run(), supervisor.array_file)
        except LetGoError:
            return STOPPED if supervisor and self._lets_go(supervisor) else TRY_AGAIN
        except TraingridError as error:
            return error.exit_code
        except (BotoCoreError, ClientError):
            return TRY_AGAIN

    def _lets_go(self, supervisor: Supervisor) -> bool:
        try:
            return supervisor.let_go()
        except (TraingridError, BotoCoreError, ClientError):
            return False

    def _supervisor(self, child: BatchChild, *, until_started: bool) -> Supervisor:
        deployment, home = self._deployment, self._deployment.grid.home
        storage = PatientStorage(lambda: Storage(home), home, self._turns.sleep)
        ledger = PatientLedger(lambda: self.ledger(deployment.table, home), home, self._turns.sleep, CAPACITY_CALLS)
        environment = {"S3_ARRAY_FILE": child.file, "AWS_BATCH_JOB_ID": child.id}
        environment |= {} if child.index is None else {"AWS_BATCH_JOB_ARRAY_INDEX": str(child.index)}
        parsed = Child.from_environment(environment)
        job = find_job(parsed, storage)
        return Supervisor(
            grid=deployment.grid.name,
            submission=parsed.submission,
            job=job,
            backend_in=lambda region, name: PatientBackend(
                lambda: launching(deployment, region, name, "direct"), region, self._turns.sleep
            ),
            ledger=ledger,
            batch_child=child.id,
            array_file=array_file(parsed.array_file.key),
            until_started=until_started,
            clock=Clock(now=lambda: self._turns.now, sleep=self._turns.sleep, wall=lambda: self._turns.now),
        )

    def intake(self, source: ManifestVersion) -> None:
        """Run the function lambda/accept_manifest; each run claims the submission as a different owner."""
        deployment, home = self._deployment, self._deployment.grid.home
        intake = Intake(
            deployment=deployment,
            storage=Storage(home),
            ledger=Ledger(deployment.table, home),
            batch=Batch(deployment, home),
        )
        intake.accept(source, f"run {next(self._runs)}", within=FUNCTION_SECONDS)

    def record_event(self, training_job: str, region: str) -> None:
        """Run the function lambda/record_job_event."""
        deployment = self._deployment
        backend, ledger = SageMaker(deployment, region), Ledger(deployment.table, deployment.grid.home)
        record_seen(deployment.grid.name, ledger, backend, training_job)

    def run_pass(self) -> bool:
        """Run the function lambda/reconcile; return True if it has changed anything."""
        reconciler = Reconciler.of(self._deployment)
        reconciler.map_regions = map  # an actor makes one call at a time
        done = reconciler.run_pass()
        return bool(done.recorded or done.closed or done.stopped)

    def cancel(self, submission: str, index: int | None, region: str) -> None:
        """Run `traingrid cancel`."""
        deployment, home = self._deployment, self._deployment.grid.home
        storage = Storage(home)
        canceller = Canceller(
            deployment=deployment,
            ledger=Ledger(deployment.table, home),
            children=Children(storage, deployment.manifest_bucket, home),
            storage=storage,
        )
        canceller.cancel(
            CancelTarget(submission=submission, index=index, region=region, by="somebody", reason="a reason")
        )

    def retry(self, submission: str, corrected: bytes | None = None) -> None:
        """Run `traingrid retry`, optionally with a corrected manifest."""
        deployment, home = self._deployment, self._deployment.grid.home
        storage = Storage(home)
        retrier = Retrier(
            deployment=deployment,
            ledger=Ledger(deployment.table, home),
            storage=storage,
            batch=Batch(deployment, home),
            children=Children(storage, deployment.manifest_bucket, home),
            at_once=1,  # an actor makes one call at a time
        )
        lines = None if corrected is None else manifest.parse(corrected, deployment)
        retrier.retry(submission, by="somebody", lines=lines)
