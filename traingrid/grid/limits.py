"""Limits: the `limits` section of grid.yaml, with the limits of one submission."""

from pydantic import Field

from traingrid.grid.field_types import Count
from traingrid.grid.part import GridPart
from traingrid.job.sizes import MAX_JOBS


class SubmissionLimits(GridPart):
    """The limits of one submission. A manifest that exceeds one is rejected as a whole."""

    jobs: Count = Field(default=MAX_JOBS, le=MAX_JOBS, examples=[1000])
    """Maximum number of jobs of a submission, and so of lines of a manifest; at most 50,000, in arrays of 10,000."""
    instances: Count | None = Field(default=None, examples=[64])
    """Maximum number of hosts of all jobs of a submission together; by default unlimited."""
    accelerators: Count | None = Field(default=None, examples=[256])
    """Maximum number of GPUs or other accelerators of all jobs of a submission together; by default unlimited."""
