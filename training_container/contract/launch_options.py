"""Launch options: the hyperparameters that control which program the ranks run, and how they are started.

Their names are those of AWS's sagemaker-training toolkit 5.1 (params.py).
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

_PROCESSES = "sagemaker_mpi_num_of_processes_per_host"
_OPTIONS = "sagemaker_mpi_custom_mpi_options"
_ENABLED = "sagemaker_mpi_enabled"
_TORCHRUN = "sagemaker_torch_distributed_enabled"
_PROGRAM = "sagemaker_program"
_ARCHIVE = "sagemaker_submit_directory"

ALLOW_CPU = "sagemaker_allow_cpu"
"""Our addition to the toolkit's names: if true, ranks may train on the CPUs of a host that has GPUs."""

_LAUNCHER = "sagemaker_launcher"
"""Our addition, too: `none` runs the program once on each host."""
_HOST_TIMEOUT = "sagemaker_host_timeout_seconds"
"""Our addition, too: the time that hosts with torchrun wait for each other before their ranks start."""
_STALL = "sagemaker_stall_seconds"
"""Our addition, too: the time without any output after which the ranks are ended."""
_KEEP_KERNELS = "sagemaker_keep_kernels"
"""Our addition, too: if true, compiled GPU kernels are kept in the folder of checkpoints, which belongs to a script."""
_IMAGE_PROGRAM = "sagemaker_image_program"
"""Our addition, too: the program of the image that runs without a script: `trainer`, or `merge`."""

Launcher = Literal["mpi", "torchrun", "none"]
ImageProgram = Literal["trainer", "merge"]


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
        launcher: "mpi": the main host starts the ranks of all hosts; "torchrun": every host starts its own; "none":
            every host runs the program once.
        use_mpi: With the launcher mpi: if true, mpirun starts the ranks; otherwise Horovod's Gloo launcher, which needs
            no MPI.
        processes_per_host: The number of ranks on each host.
        mpi_options: Custom options that are appended to mpirun's command line.
        script: The program of the ranks; None for the image's trainer.
        allow_cpu: If true, ranks may train on the CPUs of a host that has GPUs.
        host_timeout_seconds: With the launcher torchrun: the time that hosts wait for each other.
        stall_seconds: The time without any output after which the ranks are ended; 0 for no limit.
        image_program: The program of the image that the ranks run without a script.
        keep_kernels: If true, compiled GPU kernels are kept in the folder of checkpoints.
    """

    launcher: Launcher = "mpi"
    use_mpi: bool = True
    processes_per_host: int = 1
    mpi_options: tuple[str, ...] = ()
    script: Script | None = None
    allow_cpu: bool = False
    host_timeout_seconds: int = 600
    stall_seconds: int = 0
    image_program: ImageProgram = "trainer"
    keep_kernels: bool = True


def parse(hyperparameters: Mapping[str, str]) -> LaunchOptions:
    """Return the launch options among the `sagemaker_*` hyperparameters.

    Other hyperparameters with that prefix describe the job (sagemaker_region, sagemaker_job_name, ...). Ignore them.

    Raises:
        ValueError: A value is malformed.
    """
    launcher = _launcher(hyperparameters)
    processes = _count(hyperparameters, _PROCESSES, max(1, gpu_count()))
    try:
        options = tuple(shlex.split(hyperparameters.get(_OPTIONS, "")))
    except ValueError as error:
        raise ValueError(f"Hyperparameter {_OPTIONS} is {hyperparameters[_OPTIONS]!r}: {error}.") from error
    return LaunchOptions(
        launcher=launcher,
        use_mpi=_flag(hyperparameters, _ENABLED, default=True),
        processes_per_host=1 if launcher == "none" else processes,
        mpi_options=options,
        script=_script(hyperparameters),
        allow_cpu=_flag(hyperparameters, ALLOW_CPU, default=False),
        host_timeout_seconds=_count(hyperparameters, _HOST_TIMEOUT, LaunchOptions.host_timeout_seconds),
        stall_seconds=_count(hyperparameters, _STALL, 1) if _STALL in hyperparameters else 0,
        image_program=_image_program(hyperparameters),
        keep_kernels=_flag(hyperparameters, _KEEP_KERNELS, default=not hyperparameters.get(_PROGRAM)),
    )


def _launcher(hyperparameters: Mapping[str, str]) -> Launcher:
    """Return the launcher. As in AWS's toolkit, MPI takes precedence over torchrun.

    Raises:
        ValueError: There is no such launcher, or it cannot start a program of the image.
    """
    torchrun = _flag(hyperparameters, _TORCHRUN, default=False) and not _flag(hyperparameters, _ENABLED, default=False)
    text = hyperparameters.get(_LAUNCHER, "torchrun" if torchrun else "mpi")
    launcher: Launcher | None = next((name for name in get_args(Launcher) if name == text), None)
    if launcher is None:
        raise ValueError(f"Hyperparameter {_LAUNCHER} is {text!r}; it must be mpi, torchrun or none.")
    program = hyperparameters.get(_IMAGE_PROGRAM, "trainer")
    is_started = launcher == "mpi" or (launcher, program) in (("torchrun", "trainer"), ("none", "merge"))
    if not hyperparameters.get(_PROGRAM) and not is_started:
        raise ValueError(
            f"The launcher is {launcher}, which starts no program of the image but, with torchrun, the trainer for "
            f"PyTorch. Name a script with {_PROGRAM}, or use mpi."
        )
    return launcher


def _image_program(hyperparameters: Mapping[str, str]) -> ImageProgram:
    """Return the program of the image.

    Raises:
        ValueError: There is no such program, or the job has a script, too.
    """
    text = hyperparameters.get(_IMAGE_PROGRAM, "trainer")
    program: ImageProgram | None = next((name for name in get_args(ImageProgram) if name == text), None)
    if program is None:
        raise ValueError(f"Hyperparameter {_IMAGE_PROGRAM} is {text!r}; it must be trainer or merge.")
    if program == "merge" and hyperparameters.get(_PROGRAM):
        raise ValueError(f"Hyperparameters {_IMAGE_PROGRAM} and {_PROGRAM} both name a program. Remove one of them.")
    return program


def _count(hyperparameters: Mapping[str, str], name: str, default: int) -> int:
    """Return the value of a hyperparameter that is a whole number from 1.

    Raises:
        ValueError: The value is not such a number.
    """
    text = hyperparameters.get(name, str(default))
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise ValueError(f"Hyperparameter {name} is {text!r}; it must be a whole number from 1.")
    return int(text)


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
