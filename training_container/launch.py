"""The command and the environment that start one rank per process slot. Pure functions of the job and the machine."""

import itertools
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from training_container.contract import TrainingJob, sagemaker_variables
from training_container.launch_options import gpu_count

RANK = (sys.executable, "-u", "-m", "training_container.rank")
SSH = (
    "ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "
    "-o ConnectTimeout=10"
)

# These say something about one host, and would be wrong on another.
_ONE_HOST_ONLY = frozenset({"HOME", "HOSTNAME", "OLDPWD", "PWD", "SAGEMAKER_BASE_DIR", "SHLVL", "TMPDIR", "_"})
_ONE_HOST_PREFIXES = ("OMPI_COMM_", "PMIX_", "PRTE_", "SSH_", "BASH_FUNC_")

_SECRET = re.compile(r"ACCESS_KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|AUTH")


def rank_environment(job: TrainingJob, environment: Mapping[str, str], package: Path) -> dict[str, str]:
    """Return the environment of the ranks: the container's, SM_*, and defaults that the user's own values override.

    Args:
        environment: the container's.
        package: the folder that holds the package training_container.
    """
    defaults = {
        "PYTHONUNBUFFERED": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",  # TensorFlow's errors, but not its remarks on the processor
        # Without it ranks that wait for one that never comes wait for ever.
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "600",
    }
    if gpu_count() == 0:
        # Open MPI polls busily and takes the cores from the computation: 1.4 to 1.5 times slower without this.
        defaults |= {"OMPI_MCA_mpi_yield_when_idle": "1", "OMP_NUM_THREADS": "1"}
    path = f"{package}:{environment['PYTHONPATH']}" if environment.get("PYTHONPATH") else str(package)
    return defaults | sagemaker_variables(job) | dict(environment) | {"PYTHONPATH": path}


def forwarded_names(names: Iterable[str]) -> list[str]:
    """Return the variables that ranks on other hosts need as well; ssh passes none by itself."""
    return sorted(name for name in names if name not in _ONE_HOST_ONLY and not name.startswith(_ONE_HOST_PREFIXES))


def mpirun_command(job: TrainingJob, names: Iterable[str], interface: str | None) -> list[str]:
    """Return mpirun's command line (Open MPI 4.1).

    Args:
        job: its hosts, processes per host and custom options.
        names: the variables to hand to ranks on all hosts; those that the custom options set are left to them.
        interface: the network interface that hosts talk over, None for Open MPI's own choice.
    """
    options = job.launch.mpi_options
    custom = {value.partition("=")[0] for option, value in itertools.pairwise(options) if option == "-x"}
    # The main host under the one name that is sure to resolve on it; SageMaker's names may not, at first.
    hosts = ["localhost" if host == job.current_host else host for host in job.hosts]
    command = ["mpirun", "--allow-run-as-root", "-np", str(job.world_size)]
    command += ["--host", ",".join(f"{host}:{job.launch.processes_per_host}" for host in hosts)]
    command += ["--bind-to", "none", "--map-by", "slot"]
    # No topology in shared memory, which is of use to ranks that are bound: the daemons that write it have been seen to
    # end by a segmentation fault in hwloc_shmem_topology_write (Open MPI 4.1.4, hwloc 2.9.0).
    command += ["-mca", "rtc_hwloc_vmhole", "none"]
    if len(job.hosts) > 1:
        # Attached sessions: the daemons on other hosts stay below ssh, so that nothing outlives it.
        command += ["--leave-session-attached", "-mca", "plm_rsh_agent", SSH, "-mca", "plm_rsh_no_tree_spawn", "1"]
        if interface:
            command += ["-mca", "btl_tcp_if_include", interface, "-mca", "oob_tcp_if_include", interface]
    for name in forwarded_names(names):
        if name not in custom:
            command += ["-x", name]
    return [*command, *options, *RANK]


def gloo_command(job: TrainingJob, names: Iterable[str], interface: str | None) -> list[str]:
    """Return the command line of Horovod's Gloo launcher, for where there is no MPI; see gloo.py.

    It hands variables on in ssh's command line, which every process list shows, so names that look like a secret's
    stay here. (mpirun hands them on over its own connection.)
    """
    names = [name for name in names if not _SECRET.search(name)]
    hosts = ",".join(f"{host}:{job.launch.processes_per_host}" for host in job.hosts)
    command = [sys.executable, "-u", "-m", "training_container.gloo", "--hosts", hosts]
    command += ["--current-host", job.current_host, "--forward", ",".join(forwarded_names(names))]
    command += ["--interface", interface] if interface else []
    return [*command, "--", *RANK]


def shown(command: Iterable[str]) -> str:
    """Return a command line as one could type it."""
    return shlex.join(command)
