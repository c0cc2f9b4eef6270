"""Processes that are killed while they write checkpoints, in their own thread or in another one."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tensorflow as tf

from tests.training.conftest import REPOSITORY
from training_container.trainer.checkpoints.checkpoints import Checkpoints

SAVING = """
import itertools, sys
import tensorflow as tf
from training_container.trainer.checkpoints.checkpoints import Checkpoints, Progress

weight = tf.Variable(tf.zeros([250_000]))
checkpoints = Checkpoints(sys.argv[1], keep=2, asynchronous=sys.argv[2] == "thread", weight=weight)
begun = checkpoints.restore()
assert begun is None or (weight.numpy() == begun.step).all(), (begun, weight)
for step in itertools.count((begun.step if begun else 0) + 1):
    weight.assign(tf.fill([250_000], float(step)))
    checkpoints.save(Progress(step=step))
    print(step, flush=True)
"""


@pytest.mark.parametrize("writer", ["caller", "thread"])
def test_a_process_killed_while_saving_keeps_the_last_complete_checkpoint(tmp_path: Path, writer: str) -> None:
    """Each process is killed at another moment of a save. Completed saves must exist, and partial ones must not.

    A thread has completed the save before the last one that has returned, and has perhaps just begun this.
    """
    weight = tf.Variable(tf.zeros([250_000]))
    checkpoints = Checkpoints(tmp_path, weight=weight)
    for pause in (0.0, 0.001, 0.004, 0.011):
        with subprocess.Popen(
            [sys.executable, "-c", SAVING, tmp_path, writer], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
        ) as saving:
            assert saving.stdout is not None
            announced = [saving.stdout.readline() for _ in range(3)]
            time.sleep(pause)
            saving.kill()
            announced += saving.stdout.read().splitlines()
        assert saving.returncode == -signal.SIGKILL
        warnings: list[str] = []
        restored = checkpoints.restore(warn=warnings.append)
        assert restored is not None
        assert -(writer == "thread") <= restored.step - int(announced[-1]) <= 1
        assert (weight.numpy() == restored.step).all()
        assert not warnings
