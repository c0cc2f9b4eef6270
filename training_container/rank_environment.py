"""The environment of the ranks: the container's own, SM_*, and defaults that the user's own values override."""

from collections.abc import Mapping
from pathlib import Path

from training_container import stalls
from training_container.contract import TrainingJob
from training_container.launch_options import gpu_count
from training_container.toolkit import sagemaker_variables
from training_container.trainer.config import Config

# A rank that has waited for a stream long enough must still have time to say so.
_MARGIN_SECONDS = 60.0
_LIMIT = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"


def rank_environment(
    job: TrainingJob, environment: Mapping[str, str], package: Path, config: Config | None = None
) -> dict[str, str]:
    """Return the environment of the ranks.

    Args:
        job: the contract's view of this host.
        environment: the container's; what it holds goes before every default.
        package: the folder that holds the package training_container.
        config: the trainer's hyperparameters; None for a script, which has hyperparameters of its own.
    """
    defaults = {
        "PYTHONUNBUFFERED": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",  # TensorFlow's errors, but not its remarks on the processor
    }
    if gpu_count() == 0:
        # Open MPI polls busily and takes the cores from the computation: 1.4 to 1.5 times slower without this.
        defaults |= {"OMPI_MCA_mpi_yield_when_idle": "1", "OMP_NUM_THREADS": "1"}
    defaults |= stalls.variables(_stall_seconds(job, environment, config)) | (_horovod(job, config) if config else {})
    ours = [str(package)]
    if job.launch.script:
        ours.append(str(package / "training_container" / "script_path"))  # so that `from trainer import ...` works
    path = ":".join([*ours, *filter(None, [environment.get("PYTHONPATH")])])
    return defaults | sagemaker_variables(job) | dict(environment) | {"PYTHONPATH": path}


def _stall_seconds(job: TrainingJob, environment: Mapping[str, str], config: Config | None) -> float:
    """Return how long ranks wait for one that is stalled, as the environment says, or the hyperparameter.

    Horovod looks at intervals that must be shorter than the limit, or it never ends anything; so they follow it. Where
    nobody has set it, a rank may wait for its stream as long as pipe_timeout_seconds says: the others wait for it.
    """
    if environment.get(_LIMIT, "").isdigit():
        return float(environment[_LIMIT])
    if config is None:
        return stalls.DEFAULT_SECONDS
    if "stall_seconds" in job.hyperparameters or not job.has_streams:
        return config.stall_seconds
    return max(config.stall_seconds, config.pipe_timeout_seconds + _MARGIN_SECONDS)


def _horovod(job: TrainingJob, config: Config) -> dict[str, str]:
    """Return what hyperparameters set of Horovod (its own names: horovod/common/common.h, 0.28.1)."""
    found = {}
    if config.fusion_mb:
        found["HOROVOD_FUSION_THRESHOLD"] = str(config.fusion_mb * 2**20)  # bytes
    if config.hierarchical_allreduce:
        found["HOROVOD_HIERARCHICAL_ALLREDUCE"] = "1"
    if config.timeline:
        found["HOROVOD_TIMELINE"] = str(job.folders.output / "data" / "timeline.json")  # rank 0 writes it
    return found
