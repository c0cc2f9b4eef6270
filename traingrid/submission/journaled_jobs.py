"""Journaled jobs: the operations of a grid that a command with a journal needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.errors import TraingridError
    from traingrid.submission.status import JobStatus


class ManifestRejectedError(Exception):
    """The intake has rejected a manifest; `error` is its text for the user."""

    def __init__(self, error: TraingridError) -> None:
        super().__init__(str(error))
        self.error = error


class JournaledJobs(Protocol):
    """The operations of a grid that a command with a journal needs. All can be repeated."""

    def check(self, manifest: bytes) -> None:
        """Validate a manifest as the intake does, and raise the TraingridError of an invalid one."""

    def submit(self, key: str, manifest: bytes) -> str:
        """Upload a manifest unless its key exists, wait until its jobs are submitted, and return the submission's id.

        Raises:
            ManifestRejectedError: The intake has rejected it, so that it has no jobs.
        """

    def jobs(self, submission: str) -> Sequence[JobStatus]:
        """Return the jobs of a submission; none if it cannot be read."""

    def cancel(self, submission: str, index: int, reason: str) -> None:
        """Cancel a job."""
