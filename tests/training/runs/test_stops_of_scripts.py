"""A script of Horovod, whose end without hvd.shutdown() is an abnormal one for mpirun, stops as any other."""

import signal
from collections.abc import Mapping

import pytest

from tests.support.packages import OPEN_MPI, needs
from tests.training.launcher.test_own_ranks import Run, finished, launcher, line_with, run

__all__ = ["launcher", "run"]  # the fixtures
STEPS = """
import time
import horovod.tensorflow as hvd, tensorflow as tf
hvd.init()
while True:
    hvd.allreduce(tf.ones([4]))
    if hvd.rank() == 0:
        print("running", flush=True)
    time.sleep(1)
"""


@pytest.mark.parametrize("launcher", [pytest.param("mpi", marks=needs(OPEN_MPI)), "gloo"], indirect=True)
def test_a_script_of_horovod_without_a_handler_stops(run: Run, launcher: Mapping[str, str]) -> None:
    (train,) = run(STEPS, launcher)
    line_with("running", train)
    train.send_signal(signal.SIGTERM)
    status, output = finished(train)
    assert status == 143, output


SAVES = """
import signal, time
import horovod.tensorflow as hvd, tensorflow as tf
hvd.init()
def save(*_):
    time.sleep(5)
    print("saved", flush=True)
    raise SystemExit
if hvd.rank() == 0:
    signal.signal(signal.SIGTERM, save)
hvd.allreduce(tf.ones([4]))
if hvd.rank() == 0:
    print("running", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("launcher", [pytest.param("mpi", marks=needs(OPEN_MPI)), "gloo"], indirect=True)
def test_a_rank_that_ends_does_not_interrupt_the_one_that_saves(run: Run, launcher: Mapping[str, str]) -> None:
    (train,) = run(SAVES, launcher)
    line_with("running", train)
    train.send_signal(signal.SIGTERM)
    status, output = finished(train)
    assert (status, "saved" in output) == (143, True), output
