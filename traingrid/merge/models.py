"""Models to merge: the models of some jobs of a submission, and the reasons that prevent a merge, before any cost.

The training image checks the same facts again in the models themselves (training_container/merge/reports.py), because
the ledger does not have all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from traingrid.algorithms.trainer_config import Config
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import UsageError
from traingrid.job.job import job_in_region
from traingrid.job.state import JobState
from traingrid.submission.status import UNREADABLE
from traingrid.text import canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traingrid.job.job import Job
    from traingrid.submission.status import JobStatus

Method = Literal["average", "ensemble", "parts", "weights"]
_DEFAULTS = Config()
_SHAPE = {name: str(getattr(_DEFAULTS, name)) for name in ("model", "classes", "image_size")}
"""The trainer's hyperparameters that determine the shapes of the weights, with their defaults."""
_OUTPUT = {name: str(getattr(_DEFAULTS, name)) for name in ("classes", "first_label", "image_size")}
"""Those that networks with a common input and output share."""
_SEED = {"seed": str(_DEFAULTS.seed)}


@dataclass(frozen=True, kw_only=True)
class Model:
    """The model of a job.

    Attributes:
        job: The job in the Region in which it was trained.
        label: The name of the job in errors; empty for its index.
    """

    submission: str
    job: Job
    archive: S3Uri
    label: str = ""

    def __str__(self) -> str:
        return self.label or f"job {self.job.index}"


def models_of(
    submission: str, statuses: Sequence[JobStatus], jobs: Mapping[int, Job], indexes: Iterable[int]
) -> list[Model]:
    """Return the models of some jobs of a submission.

    Args:
        statuses: The status of each of its jobs.
        jobs: Its jobs as they were last submitted, by index.
        indexes: The indexes of the jobs; none for all jobs.

    Raises:
        UsageError: A job does not exist or has no model, or there are fewer than two.
    """
    selected = list(dict.fromkeys(indexes)) or [status.index for status in statuses]
    status_by_index = {status.index: status for status in statuses}
    models = [model_of(submission, index, status_by_index, jobs) for index in selected]
    if len(models) < 2:
        text = f"A merge needs at least two models, and {submission} has one job to merge."
        raise UsageError(text, f"Its model has the files of all of its hosts: traingrid download {submission}.")
    return models


def model_of(submission: str, index: int, statuses: Mapping[int, JobStatus], jobs: Mapping[int, Job]) -> Model:
    """Return the model of a job.

    Args:
        statuses: The status of each job of its submission, by index.
        jobs: These jobs as they were last submitted, by index.

    Raises:
        UsageError: The job does not exist or has no model.
    """
    if index not in statuses:
        text = f"Submission {submission} has no job with index {index}."
        raise UsageError(text, f"Its indexes are 0 to {len(statuses) - 1}.")
    status = statuses[index]
    if status.phase == UNREADABLE:
        text = f"Job {index} of {submission} has no model that is known. {status.reason}"
        raise UsageError(text, "Restore it, or name the jobs to merge without it.")
    if status.state != JobState.COMPLETED or not status.artifact:
        complete = " ".join(str(job.index) for job in statuses.values() if job.state == JobState.COMPLETED)
        text = f"Job {index} of {submission} has no model: the job is {status.state}."
        raise UsageError(text, f"Name the jobs to merge; completed are: {complete or 'none'}.")
    if index not in jobs:
        text = f"The line of job {index} of {submission} cannot be read."
        raise UsageError(text, "Restore the submission's file, or name the jobs to merge without it.")
    job = job_in_region(jobs[index], status.region)
    return Model(submission=submission, job=job, archive=S3Uri.parse(status.artifact))


def shape_of(model: Model) -> dict[str, str]:
    """Return the hyperparameters that determine the shapes of the weights of a model of the image's trainer."""
    return {name: canonical(model.job.hyperparameters.get(name, default)) for name, default in _SHAPE.items()}


def check_method(models: Sequence[Model], method: Method) -> None:
    """Raise an error if the lines of the jobs show that their models cannot be merged in this way.

    Raises:
        UsageError: A job has no network of the image's trainer, or networks differ.
    """
    if method == "parts":
        return
    if method == "weights":
        _check_scripts(models)
        return
    for model in models:
        if model.job.source or model.job.is_algorithm:
            program = "a SageMaker algorithm" if model.job.is_algorithm else f"the script {model.job.entry_point}"
        elif model.job.launcher != "mpi":
            program = "a network of PyTorch"
        else:
            continue
        text = f"{str(model).capitalize()} trained {program}, and not a network of the image's trainer for TensorFlow."
        raise UsageError(text, "Use --method parts, or --method weights for scripts that save their weights.")
    if method == "average":
        _check_equal(models, _SHAPE, "Models of different shapes cannot be averaged; use --method ensemble.")
    _check_equal(models, _OUTPUT, "A merged network has one input and one list of classes.")
    if method == "average":
        _check_start(models)


def _check_scripts(models: Sequence[Model]) -> None:
    """Raise an error if a job did not train a script, or if they began with different models."""
    for model in models:
        if not model.job.source:
            text = f"{str(model).capitalize()} did not train a script, whose weights this method averages."
            raise UsageError(text, "Use --method average, or --method parts.")
    _check_initial_models(models, "parts")


def _check_start(models: Sequence[Model]) -> None:
    """Raise an error if two trainings began with different weights: of another model, or of another seed."""
    if not _check_initial_models(models, "ensemble"):
        next_step = "Their initial weights differ. Use --method ensemble, or train them from a common model."
        _check_equal(models, _SEED, next_step)


def _check_initial_models(models: Sequence[Model], alternative: Method) -> str:
    """Return the initial model of all jobs; empty if they have none. Raise an error if they differ.

    Args:
        alternative: A method that merges models with different initial ones.
    """
    first = models[0]
    begins = [str(getattr(model.job, "init_from", None) or "") for model in models]
    for model, begin in zip(models, begins, strict=True):
        if begin != begins[0]:
            text = f"{str(model).capitalize()} did not start from the same model as {first}: their init_from differs."
            raise UsageError(text, f"Use --method {alternative}, or train them from a common model.")
    return begins[0]


def _check_equal(models: Sequence[Model], defaults: Mapping[str, str], next_step: str) -> None:
    first = models[0]
    for model in models:
        for name, default in defaults.items():
            own, expected = (canonical(merged.job.hyperparameters.get(name, default)) for merged in (model, first))
            if own != expected:
                text = f"The hyperparameter {name} of {model} is {own}, that of {first} {expected}."
                raise UsageError(text, next_step)
