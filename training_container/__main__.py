"""SageMaker's `train`: reads the job, starts its ranks, passes their output on, and explains a failure.

By hand, on two ranks, where FOLDER stands for /opt/ml:

    SAGEMAKER_BASE_DIR=FOLDER python -m training_container [--epochs 2 ...]

Exit status: 0 trained; 143 stopped by SIGTERM, with a checkpoint; else failed, and output/failure says why.
Imports no TensorFlow: a wrong hyperparameter fails in a tenth of a second.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from types import TracebackType

from training_container import hosts, launch, leftovers, open_mpi, scripts
from training_container.contract import ContractError, Folders, TrainingJob, read_training_job
from training_container.failure import FailureWatch
from training_container.missing_gpus import refuse_missing_gpus
from training_container.rank_environment import rank_environment
from training_container.stopping import LAUNCHER, STOP_FILE, STOPPED_STATUS
from training_container.trainer.config import Config, HyperparameterError

PACKAGE = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run this host's part of the job and return the exit status."""
    # Ranks may print any character, also where the container's locale has only some of them.
    sys.stdout.reconfigure(encoding="utf-8", errors="replace", line_buffering=True)  # type: ignore[union-attr]
    os.environ.setdefault("HOME", str(Path.home()))  # without it Open MPI 5 does not even tell its version
    folders = Folders.from_environment(os.environ)
    sys.excepthook = lambda kind, error, trace: fail_unforeseen(folders, kind, error, trace)
    try:
        job = read_training_job(folders, sys.argv[1:])
        refuse_missing_gpus(job, os.environ)
        config = checked(job)
        if job.launch.script:
            scripts.prepare(job.launch.script, folders)
        with tempfile.TemporaryDirectory(prefix="traingrid-") as scratch:
            return run(job, config, Path(scratch) / "stop")
    except (ContractError, HyperparameterError, hosts.HostError) as error:
        return fail(folders, f"{error}\n")


def checked(job: TrainingJob) -> Config | None:
    """Check on every host what can be checked without TensorFlow, and return the trainer's hyperparameters.

    Returns:
        None for a script of the user's, which has hyperparameters and channels of its own.

    Raises:
        HyperparameterError, ContractError: what is wrong, in sentences.
    """
    if job.launch.script:
        return None
    config = Config.from_hyperparameters(job.hyperparameters)
    if not {"train", "train_0"}.intersection(job.channels) and not config.data_dir:  # train_0: a stream per rank
        raise ContractError(
            f"The job has no channel 'train' (its channels: {', '.join(job.channels) or 'none'}). "
            "Give it one whose S3 prefix holds TFRecord files."
        )
    return config


def run(job: TrainingJob, config: Config | None, stop_file: Path) -> int:
    """Start and follow the ranks on the main host; let them in on another. Return the exit status."""
    # On another host a stop is the main host's affair: it gets the same signal.
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop_file.touch())
    if not job.is_main_host:
        return hosts.serve(job.folders.base)
    others, status = job.hosts[1:], 1
    try:
        hosts.wait_for(others, stop_file.exists)
        status = STOPPED_STATUS if stop_file.exists() else follow(job, config, stop_file)
    finally:
        hosts.tell_ended(others, status)
    return status


def follow(job: TrainingJob, config: Config | None, stop_file: Path) -> int:
    """Start the ranks, pass their output on line by line, and return 0, 143 after a stop, or 1 with output/failure."""
    environment = rank_environment(job, os.environ, PACKAGE, config)
    environment |= {STOP_FILE: str(stop_file), LAUNCHER: str(os.getpid())}
    # Of the jobs of one user that share /tmp, Open MPI lets the last one remove a folder that the next one wants.
    environment["TMPDIR"] = str(stop_file.parent)
    command = launch_command(job, environment)
    (job.folders.output / "data").mkdir(parents=True, exist_ok=True)  # where SM_OUTPUT_DATA_DIR points
    print(launch.shown(command))
    watch = FailureWatch(hosts=job.hosts, processes_per_host=job.launch.processes_per_host)
    leftovers.adopt_orphans()
    # In a session of its own: a signal to our process group must not reach mpirun, which kills the ranks at once.
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as ranks:
        ending = threading.Thread(target=end_leftovers, args=(ranks,), name="leftovers", daemon=True)
        ending.start()
        assert ranks.stdout is not None  # noqa: S101  # for the type checker: we asked for a pipe
        for line in ranks.stdout:
            if watch.passes(line):
                sys.stdout.write(line)
    ending.join()  # mpirun's end closes its output, and ranks that it has left behind may still run
    if ranks.returncode == 0:
        return STOPPED_STATUS if stop_file.exists() else 0
    return fail(job.folders, watch.reason(ranks.returncode))


def end_leftovers(launcher: "subprocess.Popen[str]") -> None:
    """Wait for the launcher and kill what it has left behind, which would keep its output open for as long as it runs.

    Ranks end their own leftovers, so there are some only if the launcher, or a rank's keeper, was killed.
    """
    launcher.wait()
    leftovers.end_descendants()


def launch_command(job: TrainingJob, environment: dict[str, str]) -> list[str]:
    """Return the command that starts the ranks: mpirun where there is one and Horovod knows MPI, else Gloo.

    HOROVOD_CONTROLLER=gloo, Horovod's own variable, chooses Gloo in any case.
    """
    names = [name for _, name in socket.if_nameindex()]
    interface = job.network_interface if job.network_interface in names else None
    wanted = job.launch.use_mpi and environment.get("HOROVOD_CONTROLLER") != "gloo"
    if wanted and has_mpi():
        return launch.mpirun_command(job, environment, interface, open_mpi.major_version())
    return launch.gloo_command(job, environment, interface)


def has_mpi() -> bool:
    """Return whether mpirun is on PATH and Horovod was built with MPI.

    hvd.mpi_built() would say the second, but only after TensorFlow's seconds of import; so do the names of the
    libraries that Horovod's extension links to.
    """
    import horovod  # noqa: PLC0415  # its package is empty, and only needed here

    extensions = Path(horovod.__file__).parent.glob("tensorflow/mpi_lib*.so")
    return shutil.which("mpirun") is not None and any(b"libmpi" in path.read_bytes() for path in extensions)


def fail(folders: Folders, reason: str) -> int:
    """Write output/failure, which SageMaker shows as FailureReason, and return the exit status of a failure."""
    print(reason, file=sys.stderr, end="", flush=True)
    try:
        folders.output.mkdir(parents=True, exist_ok=True)
        folders.failure.write_text(reason, encoding="utf-8")
    except OSError as error:  # as where the disk is full, which may be the reason itself
        print(f"{folders.failure} could not be written: {error}", file=sys.stderr, flush=True)
    return 1


def fail_unforeseen(
    folders: Folders, kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Explain an error of `train` itself in output/failure; Python then ends with exit status 1."""
    text = "".join(traceback.format_exception(kind, error, trace))
    fail(folders, f"`train` itself failed: {kind.__name__}: {error}\n{text}")


if __name__ == "__main__":
    sys.exit(main())
