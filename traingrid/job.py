"""A job: one line of a manifest with every default filled in, ready to be launched."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Channel(BaseModel):
    """One input channel of a training job.

    `uri` is an S3 prefix in the job's own Region; the other fields are SageMaker's DataSource and InputMode.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str
    input_mode: Literal["File", "FastFile", "Pipe"] = "File"
    distribution: Literal["FullyReplicated", "ShardedByS3Key"] = "FullyReplicated"


class Job(BaseModel):
    """One line of a submission. Everything a child needs to launch it, except what the deployment decides (roles)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int = Field(ge=0, description="The array index of the child that runs this job")
    line: int = Field(ge=1, description="The line of the manifest as the user's editor shows it")
    name: str
    region: str
    inputs: dict[str, Channel]
    image: str = Field(description="Image URI in the job's Region")
    instance_type: str
    instance_count: int = Field(ge=1)
    volume_gb: int = Field(ge=1)
    max_runtime_seconds: int = Field(ge=1)
    processes_per_host: int = Field(ge=1)
    mpi_options: str
    hyperparameters: dict[str, str] = {}
    metrics: dict[str, str] = Field(default={}, description="Metric name to the regular expression that finds it")
    environment: dict[str, str] = {}
    tags: dict[str, str] = {}
    output: str = Field(description="S3 prefix below which SageMaker puts the job's results")

    @property
    def ranks(self) -> int:
        """The world size: hosts x processes per host."""
        return self.instance_count * self.processes_per_host
