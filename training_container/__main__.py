"""SageMaker's `train`: reads the job, starts its ranks, forwards their output, and explains failures.

To run it manually on two ranks, with FOLDER in place of /opt/ml:

    SAGEMAKER_BASE_DIR=FOLDER python -m training_container [--epochs 2 ...]

Exit status: 0 trained; 143 stopped by SIGTERM, with a checkpoint; otherwise failed, with the reason in output/failure.
With the launcher mpi, the first host starts the ranks of all hosts; with torchrun and none, each host its own.
It does not import TensorFlow, so an invalid hyperparameter fails in a tenth of a second.
"""

import importlib.util
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

from training_container.contract.missing_gpus import refuse_missing_gpus
from training_container.contract.stopping import LAUNCHER, STOP_FILE, STOPPED_STATUS
from training_container.contract.training_job import ContractError, Folders, TrainingJob, read_training_job
from training_container.launcher import (
    connected_hosts,
    horovod_stalls,
    hosts,
    kernel_cache,
    open_mpi,
    script_packages,
    scripts,
    torchrun,
)
from training_container.launcher.command import gloo_command, mpirun_command, rank_command, shown
from training_container.launcher.connected_hosts import ConnectedHosts
from training_container.launcher.failure import FailureWatch
from training_container.launcher.metric_feed import MetricFeed, metric_feed
from training_container.launcher.rank_environment import rank_environment
from training_container.launcher.rank_lines import BYTES, RankLines
from training_container.launcher.silence import SilenceWatch
from training_container.launcher.stop_limit import StopLimit, ask_ranks_to_stop
from training_container.merge import options as merge_options
from training_container.metric_history.settings import without_settings
from training_container.ranks import leftovers
from training_container.recipe.config import Config, HyperparameterError, framework_of

# After another host has failed: the time in which this host's ranks may report the lost connection themselves, and the
# time in which torchrun ends them, which sends SIGKILL after 30 s (torch/distributed/elastic/multiprocessing/api.py).
_PEER_SECONDS, _ENDING_SECONDS = 5.0, 40.0
PACKAGE = Path(__file__).resolve().parent.parent
_COMPILING = (
    "TensorFlow has no kernels for the GPUs of {type}, and compiles them at the first use. Therefore the limit of "
    "stalled ranks is {seconds:g} s, unless the job sets stall_seconds, and sagemaker_stall_seconds applies after "
    "{seconds:g} s."
)


def main() -> int:
    """Run this host's part of the job, and return the exit status."""
    # Ranks may print any character, even if the container's locale does not support it.
    sys.stdout.reconfigure(encoding="utf-8", errors="replace", line_buffering=True)  # type: ignore[union-attr]  # a text file here
    os.environ.setdefault("HOME", str(Path.home()))  # without HOME, Open MPI 5 cannot even print its version
    folders = Folders.from_environment(os.environ)
    sys.excepthook = lambda kind, error, trace: fail_unforeseen(folders, kind, error, trace)
    try:
        job = read_training_job(folders, sys.argv[1:])
        refuse_missing_gpus(job, os.environ)
        config = check(job)
        kernel_cache.restore(job, os.environ)
        if job.launch.script:
            scripts.prepare(job.launch.script, folders)
        with tempfile.TemporaryDirectory(prefix="traingrid-") as scratch:
            return run(job, config, stop_file_of(job, Path(scratch)))
    except (ContractError, HyperparameterError, hosts.HostError) as error:
        return fail(folders, f"{error}\n")


def stop_file_of(job: TrainingJob, scratch: Path) -> Path:
    """Return the path of the file that exists when the training was asked to stop; it does not exist yet.

    With MPI on several hosts it is in /opt/ml, which has the same path on all hosts, because the main host gives its
    path to the ranks of all hosts.
    """
    if job.launch.launcher != "mpi" or len(job.hosts) == 1:
        return scratch / "stop"
    stop_file = job.folders.base / "stop-requested"
    for earlier_file in stop_file.parent.glob(f"{stop_file.name}*"):
        earlier_file.unlink()
    return stop_file


def check(job: TrainingJob) -> Config | None:
    """Validate everything that does not require TensorFlow, on every host, and return the trainer's hyperparameters.

    Returns:
        The hyperparameters; None for a merge, and for a custom script, which has its own hyperparameters and channels.

    Raises:
        HyperparameterError, ContractError: The job is invalid, or not for this image; the text lists the problems.
    """
    if job.launch.launcher == "mpi" and importlib.util.find_spec("horovod") is None:
        raise ContractError(
            "The launcher is mpi, which starts ranks of Horovod, but the image has no Horovod, as that with target: "
            "torch. Write launcher torchrun, or use an image with target: cpu or gpu."
        )
    if job.launch.script:
        return None
    if job.launch.image_program == "merge":
        merge_options.check(job)
        return None
    config = Config.from_hyperparameters(job.hyperparameters, framework_of(job.launch.launcher))
    if not {"train", "train_0"}.intersection(job.channels) and not config.data_dir:  # train_0: a stream per rank
        raise ContractError(
            f"The job has no channel 'train' (its channels: {', '.join(job.channels) or 'none'}). "
            "Add one whose S3 prefix contains TFRecord files."
        )
    return config


def run(job: TrainingJob, config: Config | None, stop_file: Path) -> int:
    """Start and follow the ranks of this host, or with MPI on the main host those of all hosts. Return the exit status.

    With MPI, other hosts run sshd. There a stop only asks the ranks of a script to stop; the main host gets the same
    signal, and ends all ranks that continue.
    """
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop_file.touch())
    if job.launch.launcher != "mpi":
        return run_own_ranks(job, stop_file)
    if not job.is_main_host:
        on_stop = partial(ask_ranks_to_stop, os.getpid(), stop_file) if job.launch.script else lambda: None
        status, reason = hosts.serve(job.folders.base, stop_file, on_stop)
        return fail(job.folders, reason, is_logged=True) if reason else status
    other_hosts, status = job.hosts[1:], 1
    try:
        hosts.wait_for(other_hosts, stop_file.exists)
        status = STOPPED_STATUS if stop_file.exists() else follow(job, config, stop_file)
    finally:
        hosts.send_status(other_hosts, status, written_reason(job.folders) if status == 1 else "")
    return status


def run_own_ranks(job: TrainingJob, stop_file: Path) -> int:
    """Start and follow the ranks of this host with torchrun, or without a launcher. Return the exit status."""
    if "OMPI_COMM_WORLD_SIZE" in os.environ:
        raise ContractError(
            f"The launcher is {job.launch.launcher}, but mpirun has started `train`, as rank "
            f"{os.environ.get('OMPI_COMM_WORLD_RANK')} of {os.environ['OMPI_COMM_WORLD_SIZE']}. Write launcher mpi, or "
            "use an image whose entry point does not start mpirun."
        )
    script_packages.use(job.folders.base)  # requirements.txt may have installed torchrun
    if job.launch.launcher == "none" or len(job.hosts) == 1:
        return follow(job, None, stop_file)
    torchrun.installed(os.environ)  # before the other hosts wait for this one
    port = torchrun.port(os.environ) + 1  # torchrun itself uses its port
    connected = connected_hosts.connect(job, port, stop_file.exists)
    status, reason = 1, ""  # the other hosts get them if this one is interrupted
    try:
        status = STOPPED_STATUS if stop_file.exists() else follow(job, None, stop_file, connected)
        reason = written_reason(job.folders) if status == 1 else ""
    finally:
        connected.report(status, reason)
    return status


def follow(job: TrainingJob, config: Config | None, stop_file: Path, connected: ConnectedHosts | None = None) -> int:
    """Start the ranks, forward their output, and return 0, 143 after a stop, or 1 after writing output/failure.

    Args:
        config: The hyperparameters of the image's trainer; None for a script.
        stop_file: The file that exists when the training was asked to stop.
        connected: The other hosts, whose failure ends the ranks of this one.
    """
    environment = rank_environment(job, without_settings(os.environ), PACKAGE, config)
    environment |= {STOP_FILE: str(stop_file), LAUNCHER: str(os.getpid())}
    # Jobs of one user that share /tmp share a folder of Open MPI there: the end of one job may delete it for the next.
    environment["TMPDIR"] = str(stop_file.parent)
    command = launch_command(job, environment)
    (job.folders.output / "data").mkdir(parents=True, exist_ok=True)  # SM_OUTPUT_DATA_DIR
    print(shown(command, environment))
    setting_names = set(os.environ)
    if config:
        setting_names |= set(job.hyperparameters)
    ignored = horovod_stalls.ignored_limit(command, setting_names)
    if ignored:
        print(ignored)
    watch = FailureWatch(
        hosts=job.hosts,
        processes_per_host=job.launch.processes_per_host,
        own_host=job.current_host,
        stop_requested=stop_file.exists,
    )
    # One process writes the history of a training job, so with torchrun and none it only has the first host's values.
    history = {**os.environ, STOP_FILE: str(stop_file)} if job.is_main_host else {}
    # With torchrun, the first host watches the output of all hosts, because usually only rank 0 prints.
    limit = 0 if connected and not job.is_main_host else job.launch.stall_seconds
    code = scripts.folder(job.launch.script, job.folders) if job.launch.script else PACKAGE
    compiling = kernel_cache.COMPILING_SECONDS if kernel_cache.compiles_kernels(job) else 0.0
    if compiling:
        print(_COMPILING.format(type=job.resources["current_instance_type"], seconds=compiling))
    silence = SilenceWatch(limit, code, compiling)
    stop = StopLimit(stop_file, is_script=bool(job.launch.script))
    with metric_feed(history, print) as feed, kernel_cache.kept(job, environment):
        readers = Readers(watch=watch, feed=feed, silence=silence, stop=stop, others=connected)
        status = forward_output(command, environment, readers)
        if silence.stalled:
            return fail(job.folders, silence.reason(job.current_host))
        if status == 0 and not stop_file.exists():
            return 0
        failure_of_host = connected.failure if connected else ""
        has_stopped = status == 0 or stop.exceeded or (job.launch.script and stop_file.exists() and not failure_of_host)
        if has_stopped and not watch.failed_before_stop:
            return STOPPED_STATUS
        return fail(job.folders, failure_of_host or watch.reason(status), is_logged=True)


@dataclass(frozen=True, kw_only=True)
class Readers:
    """The parts of `train` that read the ranks' output.

    Attributes:
        watch: Collects the lines that explain a failure.
        feed: The process that writes the metric history; None if the job has none.
        silence: The limit of the time without output.
        stop: The limit of the time after a stop.
        others: The other hosts of torchrun, whose failure ends the ranks of this one.
    """

    watch: FailureWatch
    feed: MetricFeed | None
    silence: SilenceWatch
    stop: StopLimit
    others: ConnectedHosts | None


def forward_output(command: list[str], environment: dict[str, str], readers: Readers) -> int:
    """Run the launcher of the ranks, print their output, and return its exit status."""
    leftovers.adopt_orphans()
    # A new session: a signal to our process group must not reach mpirun, which would kill the ranks immediately.
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as ranks:
        readers.silence.watch(ranks, lambda: end_launcher(ranks))
        readers.stop.watch(ranks, lambda: end_launcher(ranks, _PEER_SECONDS))  # its ranks had their time after the stop
        if readers.others:
            readers.others.watch(lambda: end_launcher(ranks), readers.silence.heard)
        spared = readers.feed.process if readers.feed else None
        ending = threading.Thread(target=end_leftovers, args=(ranks, spared), name="leftovers", daemon=True)
        ending.start()
        assert ranks.stdout is not None  # noqa: S101  # for the type checker: stdout is a pipe
        output = io.TextIOWrapper(ranks.stdout, encoding=BYTES, newline="")
        for line in RankLines(space=open_mpi.tags_with_space(command)).read(output):
            readers.silence.read(line)
            if readers.others:
                readers.others.report_output()
            if readers.watch.passes(line.text):
                sys.stdout.write(line.shown)
                if readers.feed:
                    readers.feed.line(line.shown)
    ending.join()  # mpirun closes its output when it ends, but ranks that it left behind may still be running
    return ranks.returncode


def end_launcher(launcher: "subprocess.Popen[bytes]", ending_seconds: float = _ENDING_SECONDS) -> None:
    """End the launcher of this host's ranks: another host failed, no rank prints, or they continue after a stop.

    First it may end by itself; then it has some seconds to end its ranks.
    """
    for seconds, end in ((_PEER_SECONDS, launcher.terminate), (ending_seconds, launcher.kill)):
        try:
            launcher.wait(seconds)
        except subprocess.TimeoutExpired:
            end()


def end_leftovers(launcher: "subprocess.Popen[bytes]", spared: int | None) -> None:
    """Wait for the launcher, and kill the processes that it leaves behind, which would keep its output open.

    Ranks end their own leftovers, so this only finds some if the launcher, or a rank's keeper, was killed.

    Args:
        spared: The process that writes the metric history; it continues.
    """
    launcher.wait()
    leftovers.end_descendants(spared)


def launch_command(job: TrainingJob, environment: dict[str, str]) -> list[str]:
    """Return the command that starts the ranks.

    With the launcher mpi it is mpirun, if that is installed and Horovod supports MPI, otherwise Gloo.
    HOROVOD_CONTROLLER=gloo, a variable of Horovod, always selects Gloo.

    Raises:
        ContractError: HOROVOD_CONTROLLER is mpi, and there is no MPI; or torchrun is missing.
    """
    if job.launch.launcher == "none":
        return rank_command(job)
    if job.launch.launcher == "torchrun":
        return torchrun.torchrun_command(job, environment, rank_command(job))
    names = [name for _, name in socket.if_nameindex()]
    interface = job.network_interface if job.network_interface in names else None
    controller = environment.get("HOROVOD_CONTROLLER")
    if job.launch.use_mpi and controller != "gloo" and has_mpi():
        return mpirun_command(job, environment, interface, open_mpi.major_version())
    if job.launch.use_mpi and controller == "mpi":
        raise ContractError("The variable HOROVOD_CONTROLLER is mpi, but mpirun is missing, or Horovod has no MPI.")
    return gloo_command(job, environment, interface)


def has_mpi() -> bool:
    """Return True if mpirun is on PATH and Horovod was built with MPI.

    hvd.mpi_built() would import TensorFlow, which takes seconds. Instead, this looks for the name of the MPI library in
    Horovod's extension.
    """
    import horovod  # noqa: PLC0415  # only needed here; the package itself is empty

    extensions = Path(horovod.__file__).parent.glob("tensorflow/mpi_lib*.so")
    return shutil.which("mpirun") is not None and any(b"libmpi" in path.read_bytes() for path in extensions)


def fail(folders: Folders, reason: str, *, is_logged: bool = False) -> int:
    """Write output/failure, which SageMaker shows as FailureReason, and return exit status 1.

    The file ends without a line end, because SageMaker appends the exit code.

    Args:
        is_logged: True if ranks have printed the traceback or lines that follow the first sentence. Only that sentence
            is printed then, so that the log has each traceback once.
    """
    reason = reason.rstrip("\n")
    print(reason.partition("\n")[0] if is_logged else reason, file=sys.stderr, flush=True)
    try:
        folders.output.mkdir(parents=True, exist_ok=True)
        folders.failure.write_text(reason, encoding="utf-8")
    except OSError as error:  # for example, the disk is full, which may also be the reason of the failure
        print(f"{folders.failure} could not be written: {error}", file=sys.stderr, flush=True)
    return 1


def written_reason(folders: Folders) -> str:
    """Return the content of output/failure; empty if there is none."""
    try:
        return folders.failure.read_text(encoding="utf-8")
    except OSError:
        return ""


def fail_unforeseen(
    folders: Folders, kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Explain an unexpected error of `train` in output/failure. Python then exits with status 1."""
    text = "".join(traceback.format_exception(kind, error, trace))
    fail(folders, f"`train` itself failed: {kind.__name__}: {error}\n{text}")


if __name__ == "__main__":
    sys.exit(main())
