"""Launch options: the hyperparameters that control which program the ranks run, and how they are started.

Their names are those of AWS's sagemaker-training toolkit 5.1 (params.py).
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_PROCESSES = "sagemaker_mpi_num_of_processes_per_host"
_OPTIONS = "sagemaker_mpi_custom_mpi_options"
_ENABLED = "sagemaker_mpi_enabled"
_PROGRAM = "sagemaker_program"
_ARCHIVE = "sagemaker_submit_directory"

ALLOW_CPU = "sagemaker_allow_cpu"
"""Our addition to the toolkit's names: if true, ranks may train on the CPUs of a host that has GPUs."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """A custom program that every rank runs instead of the trainer.

    Attributes:
        entry_point: The program's path in the archive.
        archive: S3 URI or path of the .tar.gz archive, or a folder. Empty if the image contains the program in
            /opt/ml/code.
    """

    entry_point: str
    archive: str = ""


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """The options for starting ranks.

    Attributes:
        use_mpi: If true, mpirun starts the ranks; otherwise Horovod's Gloo launcher, which needs no MPI.
        processes_per_host: The number of ranks on each host.
        mpi_options: Custom options that are appended to mpirun's command line.
        script: The program of the ranks; None for the image's trainer.
        allow_cpu: If true, ranks may train on the CPUs of a host that has GPUs.
    """

    use_mpi: bool = True
    processes_per_host: int = 1
    mpi_options: tuple[str, ...] = ()
    script: Script | None = None
    allow_cpu: bool = False


def parse(hyperparameters: Mapping[str, str]) -> LaunchOptions:
    """Return the launch options among the `sagemaker_*` hyperparameters.

    Other hyperparameters with that prefix describe the job (sagemaker_region, sagemaker_job_name, ...). Ignore them.

    Raises:
        ValueError: A value is malformed.
    """
    processes = hyperparameters.get(_PROCESSES, str(max(1, gpu_count())))
    if not (processes.isascii() and processes.isdigit() and int(processes) >= 1):
        raise ValueError(f"Hyperparameter {_PROCESSES} is {processes!r}; it must be a whole number from 1.")
    try:
        options = tuple(shlex.split(hyperparameters.get(_OPTIONS, "")))
    except ValueError as error:
        raise ValueError(f"Hyperparameter {_OPTIONS} is {hyperparameters[_OPTIONS]!r}: {error}.") from error
    return LaunchOptions(
        use_mpi=_flag(hyperparameters, _ENABLED, default=True),
        processes_per_host=int(processes),
        mpi_options=options,
        script=_script(hyperparameters),
        allow_cpu=_flag(hyperparameters, ALLOW_CPU, default=False),
    )


def _flag(hyperparameters: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return the value of a boolean hyperparameter.

    Raises:
        ValueError: The value is neither true nor false.
    """
    text = hyperparameters.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"Hyperparameter {name} is {text!r}; it must be true or false.")
    return text == "true"


def _script(hyperparameters: Mapping[str, str]) -> Script | None:
    """Return the script of sagemaker_program and sagemaker_submit_directory; None without a program.

    Raises:
        ValueError: The program's path leads out of the archive, or it is neither Python nor a shell script.
    """
    program, archive = hyperparameters.get(_PROGRAM, ""), hyperparameters.get(_ARCHIVE, "")
    if not program:
        if archive:
            raise ValueError(
                f"Hyperparameter {_ARCHIVE} is {archive!r}, but {_PROGRAM} is missing. Name the program in the archive."
            )
        return None
    path = PurePosixPath(program)
    if path.is_absolute() or ".." in path.parts or path.suffix not in (".py", ".sh"):
        raise ValueError(
            f"Hyperparameter {_PROGRAM} is {program!r}; it must be the path of a .py or .sh file inside the archive."
        )
    return Script(entry_point=program, archive=archive)


def gpu_count(devices: Path = Path("/dev")) -> int:
    """Return the number of NVIDIA GPUs in the container, from the driver's devices /dev/nvidia0, /dev/nvidia1, ..."""
    return sum(1 for path in devices.glob("nvidia[0-9]*"))
