"""What Open MPI 4 and 5 call differently: 5 starts processes with PRRTE, whose parameters have names of their own.

Sources: `ompi_info --all` of Open MPI 4.1; PRRTE 3.0's component plm/ssh and its parameter prte_if_include, which
Open MPI 5.0 holds.
"""

import re
import shutil
import subprocess

from training_container.hosts import SSH

DEBIANS = 4  # bookworm's is 4.1.4
_VERSION = re.compile(r"\(Open MPI\) (\d+)\.")


def major_version() -> int:
    """Return the major version of the mpirun that is first on PATH; Debian's, where it is no Open MPI."""
    program = shutil.which("mpirun")
    if program is None:
        return DEBIANS
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    match = _VERSION.search(said)
    return int(match[1]) if match else DEBIANS


def options(version: int, interface: str | None, *, several_hosts: bool) -> list[str]:
    """Return mpirun's options that differ between the versions.

    Args:
        version: Open MPI's major version.
        interface: the network interface that hosts talk over, None for Open MPI's own choice.
        several_hosts: whether ranks are started over ssh.
    """
    if version >= 5:
        return _five(interface, several_hosts=several_hosts)
    # No topology in shared memory, which is of use to ranks that are bound: the daemons that write it have been seen to
    # end by a segmentation fault in hwloc_shmem_topology_write (Open MPI 4.1.4, hwloc 2.9.0).
    found = ["-mca", "rtc_hwloc_vmhole", "none"]
    if several_hosts:
        # Attached sessions: the daemons on other hosts stay below ssh, so that nothing outlives it.
        found += ["--leave-session-attached", "-mca", "plm_rsh_agent", SSH, "-mca", "plm_rsh_no_tree_spawn", "1"]
    if interface:
        found += ["-mca", "btl_tcp_if_include", interface, "-mca", "oob_tcp_if_include", interface]
    return found


def _five(interface: str | None, *, several_hosts: bool) -> list[str]:
    found = []
    if several_hosts:
        found += ["--leave-session-attached"]
        found += ["--prtemca", "plm_ssh_agent", SSH, "--prtemca", "plm_ssh_no_tree_spawn", "1"]
    if interface:
        found += ["--mca", "btl_tcp_if_include", interface, "--prtemca", "prte_if_include", interface]
    return found
