"""Launch: builds the command line that starts one rank per process slot. All functions are pure."""

import itertools
import re
import shlex
import sys
from collections.abc import Collection, Iterable, Sequence

from training_container.contract.training_job import TrainingJob
from training_container.launcher import open_mpi

_PYTHON = (sys.executable, "-u", "-m")

# These variables describe a single host, and would be wrong on others.
_ONE_HOST_ONLY = frozenset({"HOME", "HOSTNAME", "OLDPWD", "PWD", "SAGEMAKER_BASE_DIR", "SHLVL", "TMPDIR", "_"})
_ONE_HOST_PREFIXES = ("OMPI_COMM_", "PMIX_", "PRTE_", "SSH_", "BASH_FUNC_")

_SECRET = re.compile(r"ACCESS_KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|AUTH")


def rank_command(job: TrainingJob) -> list[str]:
    """Return the command of every rank: a program of the image or a script, with the arguments of `train`."""
    program = "script" if job.launch.script else job.launch.image_program
    return [*_PYTHON, f"training_container.ranks.{program}_rank", *job.flags]


def forwarded_names(names: Iterable[str]) -> list[str]:
    """Return the variables that ranks on other hosts need. ssh does not forward any by itself."""
    return sorted(name for name in names if name not in _ONE_HOST_ONLY and not name.startswith(_ONE_HOST_PREFIXES))


def mpirun_command(
    job: TrainingJob, names: Iterable[str], interface: str | None, version: int = open_mpi.DEBIANS
) -> list[str]:
    """Return mpirun's command line.

    Args:
        job: The job, with its hosts, processes per host and custom options.
        names: The variables to pass to ranks on all hosts. Variables that the custom options set are skipped.
        interface: The network interface for traffic between hosts; None to let Open MPI choose.
        version: Open MPI's major version.
    """
    options = job.launch.mpi_options
    custom = {value.partition("=")[0] for option, value in itertools.pairwise(options) if option == "-x"}
    # The main host is called localhost, which always resolves. SageMaker's name for it may not resolve at first.
    hosts = ["localhost" if host == job.current_host else host for host in job.hosts]
    command = ["mpirun", "--allow-run-as-root", "-np", str(job.world_size)]
    command += ["--host", ",".join(f"{host}:{job.launch.processes_per_host}" for host in hosts)]
    command += ["--bind-to", "none", "--map-by", "slot"]
    has_several_hosts = len(job.hosts) > 1
    # mpirun refuses a parameter that is set twice, so that of the custom options takes precedence.
    full_names = any("." in host for host in hosts) and not set(options).intersection(open_mpi.KEEP_FULL_NAMES)
    command += open_mpi.options(
        version, interface if has_several_hosts else None, several_hosts=has_several_hosts, full_names=full_names
    )
    for name in forwarded_names(names):
        if name not in custom:
            command += ["-x", name]
    return [*command, *options, *rank_command(job)]


def gloo_command(job: TrainingJob, names: Iterable[str], interface: str | None) -> list[str]:
    """Return the command line of Horovod's Gloo launcher, which needs no MPI; see gloo.py.

    It passes variables in ssh's command line, which is visible in process lists, so variables with names that suggest
    secrets are not passed. (mpirun passes variables over its own connection.)
    """
    names = [name for name in names if not _SECRET.search(name)]
    hosts = ",".join(f"{host}:{job.launch.processes_per_host}" for host in job.hosts)
    command = [*_PYTHON, "training_container.launcher.gloo", "--hosts", hosts]
    command += ["--current-host", job.current_host, "--forward", ",".join(forwarded_names(names))]
    if interface:
        command += ["--interface", interface]
    return [*command, "--", *rank_command(job)]


def shown(command: Sequence[str], variables: Collection[str]) -> str:
    """Return a command line for the log, without the names of the variables that it forwards, which fill a screen.

    On one host, a shell runs it as it is; ranks on other hosts need the variables.

    Args:
        variables: The names of all variables of the environment.
    """
    names, forwarding = set(variables), ("-x", "--forward")
    passed = [
        place
        for place, (option, value) in enumerate(itertools.pairwise(command))
        if option in forwarding and names.issuperset(value.split(","))
    ]
    left_out = {*passed, *(place + 1 for place in passed)}
    return shlex.join(word for place, word in enumerate(command) if place not in left_out)
