"""The hyperparameters that say how ranks are started, under the names of AWS's sagemaker-training toolkit."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_PROCESSES = "sagemaker_mpi_num_of_processes_per_host"
_OPTIONS = "sagemaker_mpi_custom_mpi_options"
_ENABLED = "sagemaker_mpi_enabled"


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """How ranks are started.

    Attributes:
        use_mpi: mpirun starts the ranks; else Horovod's Gloo launcher does, which needs no MPI.
        processes_per_host: ranks on every host.
        mpi_options: appended to mpirun's command line as they are, after traingrid's own.
    """

    use_mpi: bool = True
    processes_per_host: int = 1
    mpi_options: tuple[str, ...] = ()


def parse(hyperparameters: Mapping[str, str]) -> LaunchOptions:
    """Return the launch options among the `sagemaker_*` hyperparameters.

    Others of that prefix describe the job (sagemaker_region, sagemaker_job_name, ...) and are the SDK's own business.

    Raises:
        ValueError: a value is malformed, or a script of the user's is asked for, which this image does not run.
    """
    if hyperparameters.get("sagemaker_program"):
        raise ValueError(
            f"Hyperparameter sagemaker_program is {hyperparameters['sagemaker_program']!r}, but this image runs its "
            "own trainer and no scripts. Leave it out, or name an image of your own that runs the script."
        )
    enabled = hyperparameters.get(_ENABLED, "true").strip().lower()
    if enabled not in ("true", "false"):
        raise ValueError(f"Hyperparameter {_ENABLED} is {enabled!r}; it must be true or false.")
    processes = hyperparameters.get(_PROCESSES, str(max(1, gpu_count())))
    if not (processes.isascii() and processes.isdigit() and int(processes) >= 1):
        raise ValueError(f"Hyperparameter {_PROCESSES} is {processes!r}; it must be a whole number from 1.")
    try:
        options = tuple(shlex.split(hyperparameters.get(_OPTIONS, "")))
    except ValueError as error:
        raise ValueError(f"Hyperparameter {_OPTIONS} is {hyperparameters[_OPTIONS]!r}: {error}.") from error
    return LaunchOptions(use_mpi=enabled == "true", processes_per_host=int(processes), mpi_options=options)


def gpu_count(devices: Path = Path("/dev")) -> int:
    """Return how many NVIDIA GPUs the container sees: the driver makes /dev/nvidia0, /dev/nvidia1, ... for them."""
    return sum(1 for path in devices.glob("nvidia[0-9]*"))
