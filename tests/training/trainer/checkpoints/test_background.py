"""Checkpoints that a thread writes: their values, their order, their errors, and the end of the process."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

from tests.training.conftest import REPOSITORY
from training_container.trainer.checkpoints import background, files
from training_container.trainer.checkpoints.checkpoints import CheckpointError, Checkpoints, Progress


class Disk:
    """A disk whose files are flushed only while `ready` is set."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.error: OSError | None = None


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    slow, flush = Disk(), files._flush

    def flush_later(path: Path) -> None:
        assert slow.ready.wait(60)
        if slow.error:
            raise slow.error
        flush(path)

    monkeypatch.setattr(files, "_flush", flush_later)
    yield slow
    slow.ready.set()
    slow.error = None
    background.finish()


def test_a_checkpoint_has_the_values_of_its_save_also_if_they_change_before_they_are_written(
    tmp_path: Path, disk: Disk
) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(2,))])
    optimizer = tf.keras.optimizers.SGD(0.5, momentum=0.9)
    optimizer.build(model.trainable_variables)
    checkpoints = Checkpoints(tmp_path, asynchronous=True, model=model, optimizer=optimizer)
    expected = []
    for step in (1, 2):
        ones = [tf.ones_like(variable) for variable in model.trainable_variables]
        optimizer.apply_gradients(zip(ones, model.trainable_variables, strict=True))
        expected = [variable.numpy().copy() for variable in [*model.variables, *optimizer.variables]]
        disk.ready.clear()
        checkpoints.save(Progress(step=step))
        optimizer.apply_gradients(zip(ones, model.trainable_variables, strict=True))
        model.variables[0].assign(tf.zeros([2, 3]))
        disk.ready.set()
        checkpoints.finish()
    assert checkpoints.restore() == Progress(step=2)
    for variable, value in zip([*model.variables, *optimizer.variables], expected, strict=True):
        assert (variable.numpy() == value).all(), variable.name


def test_variables_that_are_created_after_the_first_checkpoint_are_in_the_second(tmp_path: Path) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(2,))])
    for optimizer in (tf.keras.optimizers.SGD(0.5, momentum=0.9), tf.keras.optimizers.legacy.SGD(0.5, momentum=0.9)):
        checkpoints = Checkpoints(tmp_path / type(optimizer).__module__, model=model, optimizer=optimizer)
        checkpoints.save(Progress(step=1))
        ones = [tf.ones_like(variable) for variable in model.trainable_variables]
        optimizer.apply_gradients(zip(ones, model.trainable_variables, strict=True))
        path = checkpoints.save(Progress(step=2))
        stored = [name for name, _ in tf.train.list_variables(str(path / "variables"))]
        assert len([name for name in stored if "OPTIMIZER_SLOT" in name or "_variables" in name]) >= 2, stored


def test_the_folder_appears_when_all_is_on_disk_and_the_next_save_waits_for_it(tmp_path: Path, disk: Disk) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1, asynchronous=True, weight=tf.Variable(1.0))
    first = checkpoints.save(Progress(step=1))
    assert files.folders(tmp_path) == []
    disk.ready.set()
    second = checkpoints.save(Progress(step=2))
    assert first in files.folders(tmp_path)
    checkpoints.update_progress(second, Progress(step=2, epoch=1))
    assert files.folders(tmp_path) == [second]
    assert checkpoints.restore() == Progress(step=2, epoch=1)


def test_the_error_of_a_thread_is_raised_by_the_next_save_and_once(
    tmp_path: Path, disk: Disk, capfd: pytest.CaptureFixture[str]
) -> None:
    checkpoints = Checkpoints(tmp_path, asynchronous=True, weight=tf.Variable(1.0))
    disk.ready.set()
    first = checkpoints.save(Progress(step=1))
    checkpoints.finish()
    disk.error = OSError(28, "No space left on device")
    checkpoints.save(Progress(step=2))
    with pytest.raises(CheckpointError, match=rf"step 2 could not be written .*No space left.* checkpoint is {first}"):
        checkpoints.save(Progress(step=3))
    assert "The checkpoint of step 2 could not be written" in capfd.readouterr().out
    disk.error = None
    checkpoints.finish()
    assert checkpoints.restore() == Progress(step=1)


ENDING = """
import sys, time
from pathlib import Path
from training_container.trainer.checkpoints import background

def write():
    print("writing", flush=True)
    time.sleep(1)
    Path(sys.argv[1], "written").touch()

background.start(write)
if sys.argv[2] == "waits":
    time.sleep(60)
"""


@pytest.mark.parametrize(("script", "status"), [("ends", 0), ("waits", -signal.SIGTERM)])
def test_a_process_ends_after_its_checkpoint_is_written(tmp_path: Path, script: str, status: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENDING, tmp_path, script], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        if script == "waits":
            process.terminate()
        assert process.wait(30) == status
    assert (tmp_path / "written").exists()
