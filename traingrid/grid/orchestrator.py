"""Orchestrator: the `orchestrator` section of grid.yaml, with the size, number and lifetime of Batch children."""

from typing import Literal, Self

from pydantic import Field, model_validator

from traingrid.grid.field_types import Count, ImageTag, broken_rule
from traingrid.grid.part import GridPart

FARGATE_MEMORY = {
    0.25: (512, 1024, 2048),
    0.5: tuple(range(1024, 4097, 1024)),
    1.0: tuple(range(2048, 8193, 1024)),
    2.0: tuple(range(4096, 16385, 1024)),
    4.0: tuple(range(8192, 30721, 1024)),
}
"""Fargate's memory sizes in MiB, by number of vCPUs
(https://docs.aws.amazon.com/batch/latest/APIReference/API_ResourceRequirement.html)."""


class Orchestrator(GridPart):
    """The Batch children, each of which starts and watches one training job."""

    vcpu: float = Field(default=0.25, strict=True, examples=[0.25])
    """vCPUs of one child: 0.25, 0.5, 1, 2 or 4."""
    memory_mib: Count = Field(default=512, examples=[512])
    """Memory of one child in MiB; Fargate offers a few sizes for each number of vCPUs."""
    max_vcpus: Count = Field(default=64, examples=[64])
    """vCPUs of all children that run at the same time; with 0.25 each, 64 vCPUs watch 256 training jobs."""
    watch: Literal["until_ended", "until_started"] = Field(default="until_ended", examples=["until_ended"])
    """How long a child runs: until its training job has ended, with its log, or only until the training job runs."""
    image_tag: ImageTag | None = Field(default=None, examples=["1"])
    """Tag of an image that you push to the orchestrator's ECR repository; quote it, because YAML reads 1 as a number.
    By default the deployment builds the image."""

    @model_validator(mode="after")
    def _fargate_size(self) -> Self:
        if self.vcpu not in FARGATE_MEMORY:
            raise broken_rule(f"Fargate offers {', '.join(f'{vcpu:g}' for vcpu in FARGATE_MEMORY)} vCPUs", at="vcpu")
        offered = FARGATE_MEMORY[self.vcpu]
        if self.memory_mib not in offered:
            rule = f"with {self.vcpu:g} vCPU Fargate offers {', '.join(map(str, offered))} MiB"
            raise broken_rule(rule, at="memory_mib")
        return self
