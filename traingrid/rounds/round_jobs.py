"""Round jobs: the operations of a grid that rounds need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from traingrid.submission.journaled_jobs import JournaledJobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.rounds.journal import Contribution, LeftOut, RoundMerge
    from traingrid.rounds.state import Round
    from traingrid.submission.status import JobStatus


class RoundJobs(JournaledJobs, Protocol):
    """The operations of a grid that rounds need. All can be repeated."""

    def decide_merge(self, part: Round, indexes: Sequence[int], left_out: Sequence[LeftOut], start: str) -> RoundMerge:
        """Return the merge of the models of some jobs of a round; write nothing.

        Args:
            start: The job with whose model the round began, SUBMISSION/INDEX; empty if it began with random weights.

        Raises:
            TraingridError: A model cannot be merged, or must not be copied.
        """

    def submit_merge(self, part: Round, merge: RoundMerge, start: str) -> str:
        """Copy the models of a merge and submit it, unless an earlier call did, and return the submission's id.

        Raises:
            TraingridError: A model is not that of the recorded contribution any more, or the intake rejects the merge.
        """

    def contribution(self, job: JobStatus) -> Contribution:
        """Return the model of a completed job, as its archive is now."""
