"""Checkpoints that a thread writes: their values, their order, their errors, and the end of the process."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


def in_a_module(model: tf.keras.Model, optimizer: Any) -> dict[str, Any]:
    training = tf.Module()
    training.model, training.optimizer = model, optimizer
    return {"training": training}


@pytest.mark.parametrize("optimizers", [tf.keras.optimizers, tf.keras.optimizers.legacy])
@pytest.mark.parametrize(
    "tracked_in",
    [
        lambda model, optimizer: {"model": model, "optimizer": optimizer},
        lambda model, _: {"model": model},
        in_a_module,
    ],
    ids=["alone", "compiled", "module"],
)
def test_variables_that_are_created_after_a_checkpoint_are_in_the_next_one(
    tmp_path: Path, optimizers: Any, tracked_in: Callable[..., dict[str, Any]]
) -> None:
    optimizer = optimizers.SGD(0.5, momentum=0.9)
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(2,)), tf.keras.layers.Dense(2)])
    model.compile(optimizer)
    tracked = tracked_in(model, optimizer)
    checkpoints = Checkpoints(tmp_path / "checkpoints", **tracked)
    if optimizers is tf.keras.optimizers:
        optimizer.build(model.trainable_variables)  # it refuses others later
    checkpoints.save(Progress(step=0))
    for step, trained in enumerate([model.layers[1].trainable_variables, model.trainable_variables], 1):
        optimizer.apply_gradients([(tf.ones_like(variable), variable) for variable in trained])
        path = checkpoints.save(Progress(step=step))
        expected = tf.train.Checkpoint(**tracked).write(str(tmp_path / f"expected-{step}"))
        assert tf.train.list_variables(str(path / "variables")) == tf.train.list_variables(expected)


def test_a_variable_with_a_new_name_is_stored_with_it(tmp_path: Path) -> None:
    training = tf.Module()
    training.first = tf.Variable(1.0)
    checkpoints = Checkpoints(tmp_path, training=training)
    checkpoints.save(Progress(step=1))
    training.second = training.first  # which has the same place in the list of variables
    del training.first
    checkpoints.save(Progress(step=2))
    training.second.assign(2.0)
    assert checkpoints.restore() == Progress(step=2)
    assert training.second.numpy() == 1.0


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
import ctypes, os, signal, sys, time
from pathlib import Path
from training_container.trainer.checkpoints import background

def write():
    time.sleep(1)
    Path(sys.argv[1], "written").touch()

def fail():
    raise OSError("The disk is full.")

def wait_in_c():
    # It does not return for a signal, like PyTorch's collective operations.
    lock = ctypes.create_string_buffer(64)
    for _ in range(2):
        ctypes.CDLL(None).pthread_mutex_lock(lock)

def fork():
    if child := os.fork():
        time.sleep(0.3)  # then it waits
        os.kill(child, signal.SIGTERM)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    else:
        wait_in_c()

background.start(globals()[sys.argv[2]])
"""
AFTER_A_WRITE = "background._pending[0].join(); Path(sys.argv[1], 'written').rename('first'); "


def end_of(folder: Path, end: str, *, write: str = "write", is_stopped: bool = False) -> tuple[int, str]:
    """Run a program that begins to write, perhaps stop it when it is ready, and return its exit status and output."""
    command = [sys.executable, "-uc", ENDING + end, folder, write]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if is_stopped:
                assert process.stdout.readline() == "ready\n"
                time.sleep(0.3)  # then it waits
                process.terminate()
            output, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    return process.returncode, output


def test_a_process_ends_after_its_checkpoint_is_written(tmp_path: Path) -> None:
    assert end_of(tmp_path, "") == (0, "")
    assert (tmp_path / "written").exists()


@pytest.mark.parametrize("waiting", ["time.sleep(60)", "wait_in_c()"])
@pytest.mark.parametrize("before", ["", AFTER_A_WRITE + "background.start(write); "])
def test_a_stopped_process_ends_after_its_checkpoint_is_written(tmp_path: Path, before: str, waiting: str) -> None:
    end = f"{before}print('ready'); {waiting}"
    assert end_of(tmp_path, end, is_stopped=True) == (-signal.SIGTERM, "")
    assert (tmp_path / "written").exists()


@pytest.mark.parametrize("before", ["", "background.finish(); "])
def test_a_stopped_process_without_a_write_ends_at_once(tmp_path: Path, before: str) -> None:
    end = f"{AFTER_A_WRITE}{before}print('ready'); wait_in_c()"
    assert end_of(tmp_path, end, is_stopped=True) == (-signal.SIGTERM, "")


def test_a_signal_to_a_forked_process_ends_only_that_one(tmp_path: Path) -> None:
    assert end_of(tmp_path, "fork()") == (0, f"{-signal.SIGTERM}\n")
    assert (tmp_path / "written").exists()


def test_a_process_whose_last_checkpoint_could_not_be_written_fails_after_its_exit_functions(tmp_path: Path) -> None:
    status, output = end_of(tmp_path, "import atexit; atexit.register(print, 'exit function')", write="fail")
    assert (status, output) == (
        1,
        "The disk is full. The training fails at its next checkpoint or at its end.\nexit function\n",
    )
