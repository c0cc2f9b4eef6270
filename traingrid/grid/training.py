"""Training: the `training` section of grid.yaml, which no manifest line can override and which IAM enforces."""

from typing import Self

from pydantic import Field, model_validator

from traingrid.grid.field_types import MAX_KEEP_ALIVE, MAX_RUNTIME_LIMIT, Duration, broken_rule
from traingrid.grid.part import GridPart

MAX_SUBNETS, MAX_SECURITY_GROUPS = 16, 5
"""Maximum number of subnets and of security groups of a training job (VpcConfig in the SageMaker API reference,
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_VpcConfig.html)."""


class Training(GridPart):
    """The restrictions of every training job of the grid."""

    max_runtime: Duration = Field(default=MAX_RUNTIME_LIMIT, le=MAX_RUNTIME_LIMIT, examples=["5d"])
    """Maximum runtime that a manifest line may request, and that the orchestrator's role may start: 90m, 24h, 5d; at
    most 28d. In Python: seconds."""
    network_isolation: bool = Field(default=False, strict=True, examples=[True])
    """True if containers have no network except to each other, and no credentials: SageMaker itself transfers data,
    code and results (https://docs.aws.amazon.com/sagemaker/latest/dg/mkt-algo-model-internet-free.html)."""
    encrypt_traffic: bool = Field(default=True, strict=True, examples=[False])
    """True if traffic between the hosts of a job is encrypted. This does not affect a job with one host; with several
    hosts training may take longer and cost more (https://docs.aws.amazon.com/sagemaker/latest/dg/train-encrypt.html).
    Kubernetes does not encrypt it, so lines with `backend: eks` and several hosts require `false`."""
    max_keep_alive: Duration | None = Field(default=None, le=MAX_KEEP_ALIVE, examples=["30m"])
    """Maximum `keep_alive` of a manifest line, at most 60m: the time for which the instances of an ended job are kept
    for the next one, at full price (https://docs.aws.amazon.com/sagemaker/latest/dg/train-warm-pools.html). Without it
    no line may set `keep_alive`, and IAM denies it to the orchestrator's role. In Python: seconds."""
    remote_debug: bool = Field(default=False, strict=True, examples=[True])
    """True if `traingrid shell` can open a shell in the containers of running jobs, whose role may then use Systems
    Manager (https://docs.aws.amazon.com/sagemaker/latest/dg/train-remote-debugging.html)."""

    @model_validator(mode="after")
    def _a_shell_needs_a_network(self) -> Self:
        if self.remote_debug and self.network_isolation:
            rule = "a container with network_isolation cannot be debugged; set one of the two"
            raise broken_rule(rule, at="remote_debug")
        return self
