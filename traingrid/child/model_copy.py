"""Model copy: copies the model with which a job begins from another Region, before the training job is created.

It uses the ledger's items of copies, so the jobs that begin with one model in one Region copy it once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from traingrid.aws.s3 import PatientStorage, Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.child.data_copy import CopyOrder, copy_of
from traingrid.errors import UsageError
from traingrid.grid.residency import common_residency, is_resident
from traingrid.job.initial_model import initial_model_uri
from traingrid.models.limits import MAX_COPIED_BYTES
from traingrid.submission.submitted_jobs import last_submitted_job

if TYPE_CHECKING:
    from traingrid.child.attempt import Attempt
    from traingrid.child.data_copy import DataCopy
    from traingrid.grid.deployment import Deployment
    from traingrid.job.initial_model import InitialModel


def model_copy(attempt: Attempt, deployment: Deployment) -> DataCopy:
    """Return the copy of an attempt's initial model, whose calls wait out an outage of AWS.

    Raises:
        UsageError: The grid, or the line of the job that trained the model, does not allow the copy.
    """
    job, grid = attempt.job, deployment.grid
    model = job.init_from
    assert model is not None  # noqa: S101  # for the type checker: only a job with a model needs its copy
    artifact, target = S3Uri.parse(model.artifact), S3Uri.parse(initial_model_uri(job))
    if not grid.moves:
        text = f"The model {artifact} cannot be copied to {job.region}: `moves` is not set."
        raise UsageError(text, "Write `moves: true` in grid.yaml, deploy, and retry the line.")
    areas = () if grid.may_hold(job.region, model.region) else grid.regions[model.region].residency
    areas = areas or _residency(attempt, deployment, model)
    if not is_resident(job.region, areas):
        text = f"The model {artifact} cannot be copied to {job.region}: its data may only be in {', '.join(areas)}."
        raise UsageError(text, f"Submit a line that trains in {model.region}.")
    folder, _, name = artifact.key.rpartition("/")
    order = CopyOrder(
        source=S3Uri(artifact.bucket, folder),
        target=S3Uri(target.bucket, target.key.removesuffix(f"/{name}")),
        from_region=model.region,
        names=frozenset({name}),
        max_bytes=MAX_COPIED_BYTES,
    )
    return copy_of(attempt, deployment, order)


def _residency(attempt: Attempt, deployment: Deployment, model: InitialModel) -> tuple[str, ...]:
    """Return the residency of the job that trained a model, which includes the residency of its initial model."""
    submission_item, item = (
        attempt.ledger.submission(model.submission),
        attempt.ledger.job(model.submission, model.index),
    )
    storage = PatientStorage(partial(Storage, deployment.grid.home), deployment.grid.home)
    if submission_item is None or item is None:
        text = f"The ledger has no job {model} any more, so the residency of its model is not known."
        raise UsageError(text, f"Submit a line that trains in {model.region}.")
    trained = last_submitted_job(storage, deployment.manifest_bucket, submission_item, item)
    return common_residency(item.residency, trained.residency)
