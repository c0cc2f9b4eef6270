"""Which training jobs are a grid's: what a permission for them names."""

from aws_cdk import Aws

from traingrid.grid import Grid

WHOSE = "The jobs of this grid: their names begin with its name, in its Regions"
"""Why a permission for `training_jobs` has wildcards."""


def training_jobs(grid: Grid) -> list[str]:
    """Return the ARN patterns of a grid's training jobs, one for each of its Regions."""
    prefix = f"training-job/{grid.name}-*"
    return [f"arn:aws:sagemaker:{region}:{Aws.ACCOUNT_ID}:{prefix}" for region in grid.regions]
