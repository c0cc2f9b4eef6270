"""Grid rounds: the operations of a deployed grid that rounds need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.api.merge import prepare_merge
from traingrid.api.submit import parsed, with_initial_models
from traingrid.api.sweep_jobs import SweepJobs
from traingrid.aws.s3_copy import CopyStore
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.merge.line import MergeRequest, RoundStep
from traingrid.rounds.journal import Contribution, RoundMerge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.api.merge import PreparedMerge
    from traingrid.merge.models import Method
    from traingrid.rounds.journal import LeftOut
    from traingrid.rounds.spec import RoundsSpec
    from traingrid.rounds.state import Round
    from traingrid.submission.status import JobStatus

_RESTORE = "If it has just ended, run the same command again; otherwise restore its last version."


@dataclass(frozen=True, kw_only=True)
class GridRounds(SweepJobs):
    """The rounds of a specification in a deployed grid (`traingrid.rounds.round_jobs.RoundJobs`).

    Attributes:
        method: "average" for networks of the image's trainer; "weights" for those of scripts.
        image: The alias of the image that merges; empty for the grid's default.
    """

    spec: RoundsSpec
    method: Method = "average"
    image: str = ""
    prefix: str = names.ROUNDS_PREFIX
    noun: str = "a round"

    def check(self, manifest: bytes) -> None:
        """Validate the manifest of a round as the intake does, with its initial model.

        Raises:
            TraingridError: It is invalid, or the initial model cannot be used.
        """
        name, deployment = Path(self.noun), self.plane.deployment
        with_initial_models(name, parsed(name, manifest, deployment), deployment)

    def decide_merge(self, part: Round, indexes: Sequence[int], left_out: Sequence[LeftOut], start: str) -> RoundMerge:
        """Return the merge of the models of some jobs of a round; write nothing.

        Raises:
            TraingridError: A model cannot be merged, or must not be copied.
        """
        prepared = self._prepared(part, indexes, start)
        return RoundMerge(
            number=part.number,
            contributions=_contributions(prepared, len(indexes)),
            left_out=tuple(left_out),
            manifest=prepared.manifest,
            key=prepared.key,
        )

    def submit_merge(self, part: Round, merge: RoundMerge, start: str) -> str:
        """Copy the models of a merge and submit it, unless an earlier call did, and return the submission's id.

        Raises:
            TraingridError: A model is not that of the recorded contribution any more, or the intake rejects the merge.
        """
        prepared = self._prepared(part, [contribution.index for contribution in merge.contributions], start)
        contributions = _contributions(prepared, len(merge.contributions))
        for recorded, contribution in zip(merge.contributions, contributions, strict=True):
            if recorded != contribution:
                text = f"The model of {recorded.region} in round {part.number} is not the recorded {recorded.artifact}"
                step = "Restore the version with that ETag, or begin again with another `name:`."
                raise TraingridError(f"{text} with the ETag {recorded.etag} any more.", step)
        # The manifest is the recorded one, also if grid.yaml has changed since the decision.
        recorded_merge = replace(prepared, manifest=merge.manifest, key=merge.key)
        submission = recorded_merge.run(self.announce)
        self.announce(f"submission {submission}: merges round {part.number}")
        return submission

    def contribution(self, job: JobStatus) -> Contribution:
        """Return the model of a completed job, as its archive is now.

        Raises:
            TraingridError: The archive does not exist any more.
        """
        archive = S3Uri.parse(job.artifact)
        object_head = CopyStore(job.region).head(archive)
        if object_head is None:
            raise TraingridError(f"There is no model of {job.name} in {archive}.", _RESTORE)
        return Contribution(
            region=job.region, index=job.index, artifact=job.artifact, etag=object_head.etag, size=object_head.size
        )

    def request(self, number: int, start: str) -> MergeRequest:
        """Return the merge of a round.

        Args:
            start: The job with whose model the round begins, SUBMISSION/INDEX, or empty.
        """
        learning_rate, momentum = self.spec.outer.rate_and_momentum
        place = self.spec.merge
        step = RoundStep(
            rounds=self.spec.name,
            number=number,
            weight_by=self.spec.outer.weight_by,
            statistics=place.statistics,
            learning_rate=learning_rate,
            momentum=momentum,
            start=start,
        )
        return MergeRequest(
            method=self.method,
            region=place.region,
            data=place.data,
            instance_type=place.instance_type,
            image=self.image,
            step=step,
        )

    def _prepared(self, part: Round, indexes: Sequence[int], start: str) -> PreparedMerge:
        return prepare_merge(self.plane, part.submission, indexes, self.request(part.number, start))


def _contributions(prepared: PreparedMerge, count: int) -> tuple[Contribution, ...]:
    """Return the models of a merge; behind them are the copies of the start and of the velocity."""
    return tuple(
        Contribution(
            region=copy.model.job.region,
            index=copy.model.job.index,
            artifact=str(copy.model.archive),
            etag=copy.head.etag,
            size=copy.head.size,
        )
        for copy in prepared.copies[:count]
    )
