"""Connections between the hosts of one training job, as on SageMaker: ssh, mpirun, Gloo, Horovod."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.processes.process_group import ProcessGroup
from localcloud.sagemaker.hosts import INTERFACE, HostNetwork
from tests.integration.localcloud.compute import wait_until
from tests.support.packages import OPEN_MPI, ROOT, needs

PYTHON = ROOT / ".venv-training/bin/python"
HOSTS = ["algo-1", "algo-2"]
# training_container/launcher/open_mpi.py explains the parameters. Without an interface, Open MPI also uses those of
# containers that other programs start and end.
MPIRUN = (
    *("mpirun", "--allow-run-as-root", "-mca", "rtc_hwloc_vmhole", "none", "-host", "algo-1:1,algo-2:1"),
    *("-mca", "btl_tcp_if_include", INTERFACE, "-mca", "oob_tcp_if_include", INTERFACE),
)
GLOO = (
    *("env", f"PYTHONPATH={ROOT}", str(PYTHON), "-m", "training_container.launcher.gloo"),
    *("--hosts", "algo-1:1,algo-2:1", "--current-host", "algo-1", "--"),
)
on_both_hosts = pytest.mark.parametrize(
    "launcher",
    [
        pytest.param(MPIRUN, marks=needs(OPEN_MPI), id="mpi"),
        pytest.param(GLOO, marks=needs("make setup"), id="gloo"),
    ],
)


class TwoHosts:
    """Two hosts; algo-2 runs sshd."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._network = HostNetwork(HOSTS)
        self._daemon = ProcessGroup(
            ["/bin/sh", "-c", "exec sshd -D"],
            environment=self.environment("algo-2"),
            working_directory=folder,
            on_line=print,
        )
        wait_until(lambda: self.run("ssh", "algo-2", "true").returncode == 0)

    def environment(self, host: str) -> dict[str, str]:
        programs = self._network.programs_for(host, self._folder / host / "bin")
        base = {"HOME": str(self._folder), "SAGEMAKER_BASE_DIR": str(self._folder / host / "opt-ml"), "SECRET": "1"}
        base["TMPDIR"] = str(self._network.temporary(host))
        return base | {"PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin"}

    def run(self, *command: str, text: str = "", seconds: float = 60) -> "subprocess.CompletedProcess[str]":
        """Run a command on algo-1."""
        return subprocess.run(
            ["/usr/bin/env", *command],
            env=self.environment("algo-1"),
            input=text,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def close(self) -> None:
        self._daemon.kill()
        self._daemon.wait()
        self._network.close()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoHosts]:
    two = TwoHosts(tmp_path_factory.mktemp("hosts"))
    yield two
    two.close()


def test_ssh_joins_its_words_and_passes_streams_and_exit_status(hosts: TwoHosts) -> None:
    answer = hosts.run(
        "ssh", "-x", "-o", "A=b", "root@algo-2", 'echo "a ', ' b"; cat; echo oops >&2; exit 7', text="in"
    )
    assert (answer.stdout, answer.stderr, answer.returncode) == ("a   b\nin", "oops\n", 7)


def test_a_remote_command_gets_the_hosts_folders_but_no_container_variables(hosts: TwoHosts) -> None:
    answer = hosts.run("ssh", "algo-2", "echo $TMPDIR $SAGEMAKER_BASE_DIR $SECRET")
    assert re.fullmatch(r"\S+/algo-2-tmp \S+/algo-2/opt-ml\n", answer.stdout)


def test_ssh_to_its_own_host_needs_no_daemon(hosts: TwoHosts) -> None:
    assert hosts.run("ssh", "algo-1", "echo $SAGEMAKER_BASE_DIR").stdout.endswith("algo-1/opt-ml\n")


def test_ssh_fails_for_unknown_hosts_and_hosts_without_a_daemon(tmp_path: Path) -> None:
    network = HostNetwork(HOSTS)
    ssh = network.programs_for("algo-1", tmp_path) / "ssh"
    for host, words in (("algo-3", "Could not resolve hostname algo-3"), ("algo-2", "Connection refused")):
        answer = subprocess.run([ssh, host, "true"], capture_output=True, text=True, check=False)
        assert (answer.returncode, words in answer.stderr) == (255, True)
    network.close()


@on_both_hosts
def test_a_launcher_starts_a_rank_on_each_host_without_dns(hosts: TwoHosts, launcher: tuple[str, ...]) -> None:
    position = "${OMPI_COMM_WORLD_RANK-$HOROVOD_RANK}/${OMPI_COMM_WORLD_SIZE-$HOROVOD_SIZE}"
    answer = hosts.run(*launcher, "sh", "-c", f"echo {position} $SAGEMAKER_BASE_DIR")
    assert answer.returncode == 0, answer.stderr
    ranks = sorted(line.split() for line in re.findall(r"[01]/2 .*", answer.stdout))
    assert [(rank, Path(folder).parent.name) for rank, folder in ranks] == [("0/2", "algo-1"), ("1/2", "algo-2")]


@on_both_hosts
@needs("make setup")
def test_horovod_sums_over_two_hosts(hosts: TwoHosts, launcher: tuple[str, ...]) -> None:
    code = (
        "import horovod.tensorflow as hvd, tensorflow as tf; hvd.init();"
        "print('sum', int(hvd.allreduce(tf.constant(hvd.rank() + 1), op=hvd.Sum)), 'of', hvd.size(), hvd.local_size())"
    )
    answer = hosts.run(*launcher, "env", "HOROVOD_CYCLE_TIME=1", str(PYTHON), "-c", code, seconds=300)
    assert answer.returncode == 0, answer.stderr
    assert re.findall(r"sum .*", answer.stdout) == ["sum 3 of 2 1"] * 2
