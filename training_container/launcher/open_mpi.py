"""Open MPI: the mpirun options that differ between Open MPI 4 and 5, which starts processes with PRRTE.

Sources: `ompi_info --all` of Open MPI 4.1; PRRTE 3.0, which is part of Open MPI 5.0: component plm/ssh, and parameters
prte_if_include and prte_keep_fqdn_hostnames (`prte_info --all`).
"""

import itertools
import re
import shutil
import subprocess

from training_container.launcher.hosts import SSH

DEBIANS = 4  # bookworm's is 4.1.4
KEEP_FULL_NAMES = ("orte_keep_fqdn_hostnames", "prte_keep_fqdn_hostnames")
"""The parameters, of Open MPI 4 and of PRRTE, that keep the names of hosts as they are."""
_VERSION = re.compile(r"\(Open MPI\) (\d+)\.")


def major_version() -> int:
    """Return the major version of the first mpirun on PATH; Debian's version if it is not Open MPI."""
    program = shutil.which("mpirun")
    if program is None:
        return DEBIANS
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    match = _VERSION.search(output)
    return int(match[1]) if match else DEBIANS


def options(version: int, interface: str | None, *, several_hosts: bool, full_names: bool = False) -> list[str]:
    """Return mpirun's options that differ between the versions.

    Args:
        version: Open MPI's major version.
        interface: The network interface for traffic between hosts; None to let Open MPI choose.
        several_hosts: True if ranks are started over ssh.
        full_names: True if mpirun must not cut the names of hosts at the first dot, as it does by default
            (https://github.com/open-mpi/ompi/pull/2015). The names of pods, <pod>.<service>, resolve in full only.
    """
    if version >= 5:
        return _arguments_of_version_five(interface, several_hosts=several_hosts, full_names=full_names)
    # Disable sharing the topology in memory, which only helps bound ranks: the daemons that write it have crashed with
    # a segmentation fault in hwloc_shmem_topology_write (Open MPI 4.1.4, hwloc 2.9.0).
    arguments = ["-mca", "rtc_hwloc_vmhole", "none", "--tag-output"]
    if several_hosts:
        # Attached sessions: the daemons on other hosts remain children of ssh, so that they end with it.
        arguments += ["--leave-session-attached", "-mca", "plm_rsh_agent", SSH, "-mca", "plm_rsh_no_tree_spawn", "1"]
    if full_names:
        arguments += ["-mca", KEEP_FULL_NAMES[0], "true"]
    if interface:
        arguments += ["-mca", "btl_tcp_if_include", interface, "-mca", "oob_tcp_if_include", interface]
    return arguments


def tags_with_space(command: list[str]) -> bool:
    """Return True if a launcher's command prints a space after the mark of a rank's output, as Open MPI 5 does."""
    return ("--output", "tag") in itertools.pairwise(command)


def _arguments_of_version_five(interface: str | None, *, several_hosts: bool, full_names: bool) -> list[str]:
    arguments = ["--output", "tag"]
    if several_hosts:
        arguments += ["--leave-session-attached"]
        arguments += ["--prtemca", "plm_ssh_agent", SSH, "--prtemca", "plm_ssh_no_tree_spawn", "1"]
    if full_names:
        arguments += ["--prtemca", KEEP_FULL_NAMES[1], "true"]
    if interface:
        arguments += ["--mca", "btl_tcp_if_include", interface, "--prtemca", "prte_if_include", interface]
    return arguments
