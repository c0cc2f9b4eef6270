"""Control plane: the home Region's services, as the Python API and commands use them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from traingrid.api.deployed import find_deployment
from traingrid.aws.batch import Batch
from traingrid.aws.clients import client
from traingrid.aws.s3 import Storage
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.ledger.damage import warn
from traingrid.ledger.errors import UnknownSubmissionError
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.submission.batch_children import Children
from traingrid.submission.cancel import Canceller
from traingrid.submission.files import SUBMISSION_ID_LENGTH
from traingrid.submission.overview import SubmissionOverview, submission_overview
from traingrid.submission.prefixes import matching_id
from traingrid.submission.retry import Retrier
from traingrid.submission.status import JobStatus, SubmissionStatus, submission_status
from traingrid.submission.submitted_jobs import last_submitted_jobs


@dataclass(frozen=True, kw_only=True)
class ControlPlane:
    """The home Region's services that the Python API and the CLI use."""

    deployment: Deployment
    ledger: Ledger
    batch: Batch
    storage: Storage

    @property
    def children(self) -> Children:
        """The children of the submissions."""
        return Children(self.storage, self.deployment.manifest_bucket, self.deployment.grid.home)

    @property
    def canceller(self) -> Canceller:
        """Cancels jobs."""
        return Canceller(deployment=self.deployment, ledger=self.ledger, children=self.children, storage=self.storage)

    @property
    def retrier(self) -> Retrier:
        """Retries jobs."""
        return Retrier(
            deployment=self.deployment,
            ledger=self.ledger,
            storage=self.storage,
            batch=self.batch,
            children=self.children,
        )

    def caller(self) -> str:
        """Return the ARN of the caller, which the ledger records with a cancel, a retry and a pause."""
        arn: str = client("sts", self.deployment.grid.home).get_caller_identity()["Arn"]
        return arn

    @classmethod
    def of(cls, grid_file: Path) -> Self:
        """Return the control plane of the grid that a file describes."""
        return cls.with_clients(find_deployment(grid_file))

    @classmethod
    def with_clients(cls, deployment: Deployment) -> Self:
        """Return the control plane of a deployment, with new clients."""
        home = deployment.grid.home
        return cls(
            deployment=deployment,
            ledger=Ledger(deployment.table, home),
            batch=Batch(deployment, home),
            storage=Storage(home),
        )

    def submission_id(self, prefix: str) -> str:
        """Return the id of the submission that a user means by an id, or by the first characters of an id.

        Raises:
            UsageError: No submission has this id, or several start with it.
        """
        if not prefix:
            raise UsageError("The submission's id is empty.", "`traingrid status` lists the submissions.")
        if len(prefix) == SUBMISSION_ID_LENGTH:  # then its item is read, and no other
            return prefix
        return matching_id(prefix, (item.submission for item in self.ledger.submissions()))

    def head(self, submission: str) -> SubmissionItem:
        """Return the ledger's item of a submission.

        Raises:
            UsageError: The submission does not exist.
        """
        item = self.ledger.submission(submission)
        if item is None:
            raise UnknownSubmissionError(submission)
        return item

    def last_submitted_jobs(self, submission: str) -> dict[int, Job]:
        """Return the jobs of a submission by index, each as it was last submitted, if it can be read.

        Raises:
            UsageError: The submission does not exist.
        """
        return last_submitted_jobs(self.storage, self.deployment.manifest_bucket, self.head(submission), warn)

    def status(self, submission: str) -> SubmissionStatus:
        """Return the current status of a submission."""
        return submission_status(submission, self.deployment.manifest_bucket, self.ledger, self.children, self.storage)

    def overview(self, submission: str) -> SubmissionOverview:
        """Return the overview of a submission.

        Raises:
            UsageError: The submission does not exist.
        """
        return submission_overview(self.head(submission), self.ledger)

    def job(self, submission: str, index: int) -> JobStatus:
        """Return one job of a submission.

        Raises:
            UsageError: The submission or job does not exist.
        """
        jobs = self.status(submission).jobs
        if index >= len(jobs):
            message = f"Submission {submission} has no job with index {index}."
            raise UsageError(message, f"Its indexes are 0 to {len(jobs) - 1}.")
        return jobs[index]
