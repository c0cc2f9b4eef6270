import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.packages import OPEN_MPI, needs
from tests.training.launcher.test_scripts import archive
from training_container.contract.launch_options import LaunchOptions
from training_container.contract.training_job import Folders, TrainingJob
from training_container.launcher.command import gloo_command, mpirun_command
from training_container.launcher.failure import FailureWatch, report_line
from training_container.launcher.horovod_stalls import LIMIT, ignored_limit, variables

# Horovod 0.28.1's output for a stall (common/stall_inspector.cc), interrupted by another rank's line.
WARNING = """\
[2026-11-21 06:00:00.000001: W /tmp/horovod/common/stall_inspector.cc:108] One or more tensors were submitted to be \
reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 30 seconds. \
This may indicate that different ranks are trying to submit different tensors or that only subset of ranks is \
submitting tensors, which will cause deadlock.
Missing ranks:
1: [gradients, train_loss]
epoch=2 train_loss=1.2
3: [gradients]
"""
ENDED = (
    WARNING.replace("W /tmp", "E /tmp").replace("1: [", "1!: [")
    + 'One or more rank (marked by "!") is stalled for longer than 300 seconds. Will shutdown.\n'
)


def reason(output: str) -> str:
    watch = FailureWatch(hosts=("algo-1",), processes_per_host=20)
    for line in output.splitlines(keepends=True):
        watch.passes(line)
    return watch.reason(1)


def test_a_stall_names_its_ranks_their_collectives_and_the_time() -> None:
    consequence = RuntimeError("Horovod has been shut down. This was caused by an exception on one of the ranks")
    message = reason(WARNING + ENDED + report_line(0, "algo-1", consequence, None) + "\n")
    assert message.startswith(
        "Ranks 1, 3 did not join the collective gradients, train_loss, for which the other ranks have waited more than "
        "300 s. "
    )
    assert "stall_seconds" in message
    assert "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS" in message


def test_many_ranks_and_collectives_are_counted() -> None:
    ranks = "".join(f"{rank}!: [a, b, c, d, e, f ...]\n" for rank in range(1, 20))
    first, rest = ENDED.split("1!: [", 1)
    assert reason(first + ranks + rest.splitlines()[-1]).startswith(
        "Ranks 1, 2, 3, 4, 5, 6, 7, 8 and 11 more did not join the collective a, b and others, "
    )


def test_a_warning_alone_is_not_a_reason() -> None:
    error = ValueError("bad label")
    assert reason(WARNING + report_line(2, "algo-1", error, None) + "\n").startswith("Rank 2 on algo-1 failed")
    assert reason(ENDED + report_line(2, "algo-1", error, None) + "\n").startswith("Rank 2 on algo-1 failed")


def test_horovod_checks_more_often_than_the_limit_and_0_disables_it() -> None:
    for seconds in (0.2, 1, 5, 300, 86_400):
        found = variables(seconds)
        check, limit = (int(value) for value in found.values())
        assert 1 <= check <= limit
        assert limit >= seconds
    assert variables(0)["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] == "0"


STUCK = """
import time
import horovod.tensorflow as hvd
import tensorflow as tf
from trainer import cluster
ranks = cluster.start()
print("joined", flush=True)
if ranks.rank == 1:
    time.sleep(3600)
tf.function(lambda: hvd.allreduce(tf.ones([3]), name="the_gradients"))()  # without a graph it has no name
"""


@needs(OPEN_MPI)  # with Gloo, Horovod's inspector sees nothing: horovod_stalls.py
def test_a_rank_that_never_joins_is_named_in_the_failure(
    host_folder: Callable[..., Path], start: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    packed = archive(tmp_path / "a.tar.gz", {"stuck.py": STUCK})
    named = {"sagemaker_program": "stuck.py", "sagemaker_submit_directory": packed}
    train = start(host_folder(tmp_path / "ml", named), HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="2")
    output, _ = train.communicate(timeout=120)
    assert train.returncode == 1, output
    failure = (tmp_path / "ml" / "output" / "failure").read_text()
    assert failure.startswith("Rank 1 did not join the collective "), output
    assert "the_gradients" in failure.partition(", for which the other ranks have waited more than 2 s")[0]


@pytest.mark.parametrize("name", ["stall_seconds", LIMIT])
def test_a_limit_that_gloo_ignores_is_reported_if_the_job_sets_it(name: str) -> None:
    job = TrainingJob(
        folders=Folders(base=Path("/opt/ml")),
        hosts=("algo-1",),
        current_host="algo-1",
        network_interface=None,
        channels={},
        hyperparameters={},
        launch=LaunchOptions(processes_per_host=2),
    )
    gloo, mpirun = gloo_command(job, [], None), mpirun_command(job, [], None)
    assert "only with MPI" in ignored_limit(gloo, [name, "PATH"])
    assert ignored_limit(gloo, ["PATH"]) == ignored_limit(mpirun, [name]) == ""
