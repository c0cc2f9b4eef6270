"""Rank environment: the container's variables, SM_* variables, and defaults that the user can override."""

from collections.abc import Mapping
from pathlib import Path

from training_container.contract.launch_options import gpu_count
from training_container.contract.rank_variables import MARK_OUTPUT
from training_container.contract.toolkit import sagemaker_variables
from training_container.contract.training_job import TrainingJob
from training_container.launcher import horovod_stalls, kernel_cache, torchrun
from training_container.launcher.gpu_network import gpu_network
from training_container.recipe.config import Config
from training_container.recipe.stall_limit import stall_limit


def rank_environment(
    job: TrainingJob, environment: Mapping[str, str], package: Path, config: Config | None = None
) -> dict[str, str]:
    """Return the environment of the ranks.

    Args:
        job: The job as seen by this host.
        environment: The container's variables, which override every default.
        package: The folder that contains the package training_container.
        config: The trainer's hyperparameters; None for a script, which has its own.
    """
    defaults = {
        "PYTHONUNBUFFERED": "1",
        # On CPUs, only TensorFlow's errors. On GPUs also its warnings: one reports that kernels are compiled for long.
        "TF_CPP_MIN_LOG_LEVEL": "1" if gpu_count() else "2",
    }
    if job.launch.launcher == "mpi":
        defaults |= _mpi(job, environment, config)
    else:
        defaults[MARK_OUTPUT] = "1"
        defaults |= torchrun.rendezvous_variables(job, environment)
    defaults |= gpu_network(job)
    defaults |= kernel_cache.variables(job)
    defaults |= sagemaker_variables(job)
    import_folders = [str(package)]
    if job.launch.script:
        import_folders.append(str(package / "training_container" / "script_path"))  # for `from trainer import ...`
    if environment.get("PYTHONPATH"):
        import_folders.append(environment["PYTHONPATH"])
    return {**defaults, **environment, "PYTHONPATH": ":".join(import_folders)}


def _mpi(job: TrainingJob, environment: Mapping[str, str], config: Config | None) -> dict[str, str]:
    """Return the variables of Open MPI and Horovod."""
    variables = horovod_stalls.variables(_stall_seconds(job, environment, config))
    if config:
        variables |= _horovod(job, config)
    if gpu_count():
        # Separate threads start a GPU's kernels, so that the work of tf.data does not delay them. Source:
        # https://www.tensorflow.org/guide/gpu_performance_analysis
        variables |= {"TF_GPU_THREAD_MODE": "gpu_private", "TF_GPU_THREAD_COUNT": "2"}
    else:
        # Open MPI polls in a busy loop, which takes CPU time from computation: 1.4 to 1.5 times slower without this.
        variables |= {"OMPI_MCA_mpi_yield_when_idle": "1", "OMP_NUM_THREADS": "1"}
    return variables


def _stall_seconds(job: TrainingJob, environment: Mapping[str, str], config: Config | None) -> float:
    """Return the time that ranks wait for a stalled one, from the environment or the hyperparameters.

    Horovod checks at intervals, which must be shorter than the limit, so they depend on it. By default, the limit also
    allows for the compilation of kernels. Horovod has one limit for the whole job, and none for its start.
    """
    if environment.get(horovod_stalls.LIMIT, "").isdigit():
        return float(environment[horovod_stalls.LIMIT])
    start = kernel_cache.COMPILING_SECONDS if kernel_cache.compiles_kernels(job) else 0.0
    if config is None:
        return max(horovod_stalls.DEFAULT_SECONDS, start)
    limit = stall_limit(job, config)
    return limit if "stall_seconds" in job.hyperparameters else max(limit, start)


def _horovod(job: TrainingJob, config: Config) -> dict[str, str]:
    """Return the Horovod variables for hyperparameters (names: horovod/common/common.h, 0.28.1)."""
    variables = {}
    if config.fusion_mb:
        variables["HOROVOD_FUSION_THRESHOLD"] = str(config.fusion_mb * 2**20)  # bytes
    if config.hierarchical_allreduce:
        variables["HOROVOD_HIERARCHICAL_ALLREDUCE"] = "1"
    if config.xla and gpu_count():
        variables["HOROVOD_ENABLE_XLA_OPS"] = "1"  # without it, XLA cannot compile a step that averages gradients
    if config.timeline:
        variables["HOROVOD_TIMELINE"] = str(job.folders.output / "data" / "timeline.json")  # rank 0 writes it
    return variables
