"""Merge API: checks the models of a merge, copies them to one Region, and submits the line that merges them."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.api.submit import parsed, raise_unless_submitted
from traingrid.api.submit_once import submit_once
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_copy import CopyStore
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.job.data_layout import layout_as_trained
from traingrid.job.job import job_in_region
from traingrid.ledger.errors import ItemError
from traingrid.ledger.moves import Moves
from traingrid.manifest.json_lines import json_lines
from traingrid.manifest.line import NO_SUBMISSION, job_of_line
from traingrid.merge.copies import MergeCopies, ModelCopy
from traingrid.merge.line import check_copy, check_options, copy_uri, merge_line, models_folder, region_of
from traingrid.merge.models import Model, check_method, model_of, models_of
from traingrid.transfers.object_copy import ObjectCopy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from traingrid.api.control_plane import ControlPlane
    from traingrid.aws.s3_copy import ObjectHead
    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.ledger.damage import Damaged
    from traingrid.merge.line import MergeRequest, RoundStep

logger = logging.getLogger(__name__)
_NAME = Path("the merge")
"""Stands for the manifest in errors."""
_NO_ARCHIVE = S3Uri("no-model", "model.tar.gz")
"""Stands for the archive of a job of which only the data is read."""


@dataclass(frozen=True, kw_only=True)
class PreparedMerge:
    """A valid merge, of which nothing is written yet.

    Attributes:
        copies: The copies of the models, in the order of the models.
        job: The job that merges them, as it would be in the submission.
        key: The key of its manifest, which follows from the manifest's content.
    """

    copies: tuple[ModelCopy, ...]
    job: Job
    key: str
    manifest: str
    plane: ControlPlane

    @property
    def transferred(self) -> int:
        """The bytes that are copied from other Regions."""
        return sum(copy.head.size for copy in self.copies if copy.model.job.region != self.job.region)

    def run(self, announce: Callable[[str], None] = logger.info) -> str:
        """Copy the models and submit the merge, unless an earlier call did; return the submission's id.

        Args:
            announce: Receives a sentence for each copy.

        Raises:
            TraingridError: A copy fails, the manifest is rejected, or AWS Batch does not accept its job.
        """
        deployment = self.plane.deployment
        recorded = MergeCopies(moves=Moves(deployment.table, deployment.grid.home), region=self.job.region)
        damaged: list[Damaged] = []
        for copy in self.copies:
            try:
                self._copy(copy, recorded, announce)
            except ItemError as error:
                damaged.append(error.damaged)
        if damaged:
            text = " ".join(part.sentence for part in damaged)
            raise TraingridError(f"{text} The other models are copied.", damaged[0].next_step)
        for copy in self.copies:
            recorded.hold(copy)
        submission_result = submit_once(self.plane, self.key, self.manifest.encode())
        if submission_result.report is not None:
            raise_unless_submitted(_NAME, submission_result.report)
        for copy in self.copies:
            recorded.finish(copy, submission_result.submission)
        return submission_result.submission

    def _copy(self, copy: ModelCopy, recorded: MergeCopies, announce: Callable[[str], None]) -> None:
        deployment, target_store = self.plane.deployment, CopyStore(self.job.region)
        is_missing = target_store.head(copy.target) is None
        recorded.begin(copy, is_missing=is_missing)
        if is_missing:
            announce(f"copies {copy.model.archive} to {copy.target}")
        objects = ObjectCopy(
            source_store=CopyStore(copy.model.job.region),
            target_store=target_store,
            target_has_kms=deployment.grid.encryption.kind != "s3",
        )
        objects.copy(copy.model.archive, copy.head.etag, copy.target, stopped=lambda: False)


def prepare_merge(plane: ControlPlane, submission: str, indexes: Iterable[int], request: MergeRequest) -> PreparedMerge:
    """Check a merge, and prepare the copies and the manifest for it; write nothing.

    Args:
        indexes: The indexes of the jobs whose models are merged; none for all jobs.

    Raises:
        TraingridError: The models cannot be merged, or must not be copied; the text names the job and the reason. Or an
            option does not belong to the method.
    """
    check_options(request)
    deployment = plane.deployment
    statuses = plane.status(submission).jobs
    selected = models_of(submission, statuses, plane.last_submitted_jobs(submission), indexes)
    check_method(selected, request.method)
    region = region_of(selected, request, deployment.grid)
    training_jobs = {status.index: status.training_job for status in statuses}
    models = _replace_inputs_by_trained(selected, training_jobs, region)
    step_inputs = _inputs_of_step(plane, request.step, region) if request.step else {}
    heads = [_head(model) for model in (*models, *step_inputs.values())]
    folder = models_folder([*models, *step_inputs.values()], heads, region, deployment)
    targets = [copy_uri(model, number, folder) for number, model in enumerate(models)]
    copies = tuple(
        ModelCopy(model=model, head=object_head, target=target)
        for model, object_head, target in zip(
            (*models, *step_inputs.values()), heads, (*targets, *(folder / name for name in step_inputs)), strict=True
        )
    )
    size = sum(object_head.size for object_head in heads)
    local = next(
        (model for model in (*models, *_of_region(plane, submission, request, region)) if model.job.region == region),
        None,
    )
    line = merge_line(models, request, folder, size, region=region, local=local, deployment=deployment)
    manifest = json_lines([line])
    digest = hashlib.sha256(manifest.encode()).hexdigest()[:12]
    key = f"{_key_prefix(submission, request)}-{digest}.jsonl"
    return PreparedMerge(copies=copies, job=_job(manifest, deployment), key=key, manifest=manifest, plane=plane)


def _key_prefix(submission: str, request: MergeRequest) -> str:
    """Return the beginning of the manifest's key; that of a round is in the folder of its rounds."""
    if step := request.step:
        return f"{names.ROUNDS_PREFIX}{step.rounds}/merge-{step.number:03d}"
    return f"{names.MERGE_PREFIX}{submission}-{request.method}"


def _of_region(plane: ControlPlane, submission: str, request: MergeRequest, region: str) -> list[Model]:
    """Return the jobs of a round in a Region, also those without a model: a merge evaluates with their data."""
    if request.step is None:
        return []
    jobs = (job_in_region(job, job.region) for job in plane.last_submitted_jobs(submission).values())
    return [Model(submission=submission, job=job, archive=_NO_ARCHIVE) for job in jobs if job.region == region]


def _inputs_of_step(plane: ControlPlane, step: RoundStep, region: str) -> dict[str, Model]:
    """Return the archives that a step of rounds reads beside the models, by the names that the merge expects.

    They are the model with which the round began, and the velocity, which the merge of the round before has put into
    its output.tar.gz (training_container/merge/velocity.py).
    """
    inputs: dict[str, Model] = {}
    if step.needs_start:
        submission, _, index = step.start.partition("/")
        statuses = {status.index: status for status in plane.status(submission).jobs}
        start = model_of(submission, int(index), statuses, plane.last_submitted_jobs(submission))
        check_copy(start, region, plane.deployment.grid)
        inputs[names.MERGE_START] = start
        if step.needs_velocity:
            output = S3Uri(start.archive.bucket, f"{start.archive.key.rpartition('/')[0]}/{names.OUTPUT_ARCHIVE}")
            inputs[names.MERGE_VELOCITY] = replace(start, archive=output)
    return inputs


def _replace_inputs_by_trained(models: Sequence[Model], training_jobs: Mapping[int, str], region: str) -> list[Model]:
    """Return the models, the first one of the Region with the channels of its training: the merge reads its data."""
    first = next((model for model in models if model.job.region == region), None)
    if first is None:
        return [*models]
    layout = layout_as_trained(Storage(region), first.job, training_jobs[first.job.index])
    inputs = layout.inputs(first.job.inputs) if layout else first.job.inputs
    as_trained = replace(first, job=first.job.model_copy(update={"inputs": inputs}))
    return [as_trained if model is first else model for model in models]


def _job(manifest: str, deployment: Deployment) -> Job:
    """Return the job of a manifest with one line, validated as by the intake."""
    (line,) = parsed(_NAME, manifest.encode(), deployment)
    return job_of_line(line, 0, deployment, NO_SUBMISSION)


def _head(model: Model) -> ObjectHead:
    """Return the facts about a model's archive.

    Raises:
        TraingridError: It does not exist any more.
    """
    object_head = CopyStore(model.job.region).head(model.archive)
    if object_head is None:
        raise TraingridError(f"There is no model of {model} in {model.archive}.", "Leave it out, or train it again.")
    return object_head
