"""Initial model: the model of an earlier job of the grid, with whose weights a job begins.

SageMaker calls this incremental training: the model's archive is a channel named `model` with a separate content type
(https://docs.aws.amazon.com/sagemaker/latest/dg/incremental-training.html). Its built-in algorithms require these names
(https://docs.aws.amazon.com/sagemaker/latest/dg/object-detection.html, "Incremental Training"), and the SageMaker
Python SDK uses them for every other image (`_Job._load_config` in job.py of https://github.com/aws/sagemaker-python-sdk).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict, Field

from traingrid import names
from traingrid.algorithms.algorithm import MODEL as MODEL_CONTENT_TYPE
from traingrid.aws.s3_uri import S3Uri

if TYPE_CHECKING:
    from traingrid.job.job import Job

__all__ = ["MODEL_CHANNEL", "MODEL_CONTENT_TYPE", "InitialModel", "initial_model_uri", "needs_model_copy"]

MODEL_CHANNEL = "model"
"""The channel with the archive of the initial model."""
_FORM = re.compile(r"([0-9a-f]{8})/(0|[1-9][0-9]{0,4})", re.ASCII)


class InitialModel(BaseModel):
    """The model with which a job begins. Region and artifact are empty until the ledger has been read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    submission: str = Field(description="Submission of the job that trained the model")
    index: int = Field(ge=0, description="Index of that job")
    region: str = Field(default="", description="Region of the model")
    artifact: str = Field(default="", description="S3 URI of the model's archive in that Region")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the model that `SUBMISSION/INDEX` names.

        Raises:
            ValueError: The text has another form.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError("must be the id of a submission and the index of a job, SUBMISSION/INDEX")
        return cls(submission=match[1], index=int(match[2]))

    def __str__(self) -> str:
        """Return the form of a manifest."""
        return f"{self.submission}/{self.index}"


def initial_model_uri(job: Job) -> str:
    """Return the S3 URI of a job's initial model in the job's Region; empty if it has none.

    SageMaker reads channels of the job's Region only. A model of another Region is copied to the output bucket of the
    job's Region, where all jobs that begin with it share the copy.
    """
    model = job.init_from
    if model is None:
        return ""
    if model.region in ("", job.region):
        return model.artifact
    bucket = S3Uri.parse(job.output).bucket
    return str(S3Uri(bucket, f"{names.INITIAL_MODEL_PREFIX}{S3Uri.parse(model.artifact).key}"))


def needs_model_copy(job: Job) -> bool:
    """Return True if a job's initial model is in another Region than the job."""
    return job.init_from is not None and initial_model_uri(job) != job.init_from.artifact
