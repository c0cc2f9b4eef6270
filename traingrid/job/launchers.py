"""Launchers: the program that starts a job's ranks, and the hyperparameters that select it in a container.

The names are those that AWS's toolkits read, so that AWS's own containers accept them. Sources, as of September 2025:

- https://github.com/aws/sagemaker-pytorch-training-toolkit/blob/d929872/src/sagemaker_pytorch_container/training.py
  tests `sagemaker_mpi_enabled` before `sagemaker_torch_distributed_enabled`, so a request for torchrun lacks it.
- https://github.com/aws/sagemaker-training-toolkit/blob/3383937/src/sagemaker_training/runner.py: torchrun, too, starts
  `sagemaker_mpi_num_of_processes_per_host` ranks on each host (`_get_by_runner_type`).
- environment.py beside it: `sagemaker_torch_distributed_enabled` makes all hosts those of the distribution
  (`get_distribution_instance_groups_from_resource_config`). Hyperparameters with the prefix `sagemaker_` are no
  arguments of the script.

`sagemaker_instance_type` accompanies it in requests of the SageMaker Python SDK 2 (PyTorch.INSTANCE_TYPE_ENV_NAME).
Without any of them, AWS's containers run the program once on each host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.grid.job_defaults import JobDefaults
    from traingrid.job.job import Job, Launcher

MPI_ENABLED = "sagemaker_mpi_enabled"
MPI_PROCESSES_PER_HOST = "sagemaker_mpi_num_of_processes_per_host"
MPI_OPTIONS = "sagemaker_mpi_custom_mpi_options"
TORCHRUN_ENABLED = "sagemaker_torch_distributed_enabled"
INSTANCE_TYPE = "sagemaker_instance_type"
LAUNCHER = "sagemaker_launcher"
"""Our addition to the toolkit's names: `none` makes the grid's training image run the program once per host."""

ADDED: Mapping[Launcher, int] = {"mpi": 3, "torchrun": 3, "none": 1}
"""The number of hyperparameters that select each launcher."""


def processes_per_host(defaults: JobDefaults) -> int:
    """Return the number of ranks on each host; always 1 if no launcher starts them.

    Args:
        defaults: The settings of a line and, where it sets none, of the grid.
    """
    return 1 if defaults.launcher == "none" else defaults.processes_per_host


def launcher_hyperparameters(job: Job) -> dict[str, str]:
    """Return the hyperparameters that select the job's launcher in a container."""
    if job.launcher == "none":
        return {LAUNCHER: "none"}
    processes = {MPI_PROCESSES_PER_HOST: str(job.processes_per_host)}
    if job.launcher == "torchrun":
        return {TORCHRUN_ENABLED: "true", INSTANCE_TYPE: job.instance_type, **processes}
    return {MPI_ENABLED: "true", **processes, MPI_OPTIONS: job.mpi_options}
