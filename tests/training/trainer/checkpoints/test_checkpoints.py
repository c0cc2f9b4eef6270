"""Checkpoints are complete or detected as incomplete: after a kill, a partial copy from S3, or on a full disk."""

import json
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tensorflow as tf

from training_container.trainer.checkpoints import files
from training_container.trainer.checkpoints.checkpoints import CheckpointError, Checkpoints, Progress


def network(units: int = 4) -> tf.keras.Model:
    return tf.keras.Sequential([tf.keras.layers.Dense(units, input_shape=(3,)), tf.keras.layers.BatchNormalization()])


def sgd() -> tf.keras.optimizers.Optimizer:
    return tf.keras.optimizers.SGD(0.1, momentum=0.9)


@pytest.fixture
def weight() -> tf.Variable:
    return tf.Variable(0.0)


@pytest.fixture
def saved(tmp_path: Path, weight: tf.Variable) -> Checkpoints:
    """Three checkpoints of steps 1 to 3, whose weight is the number of the step."""
    checkpoints = Checkpoints(tmp_path / "checkpoints", weight=weight)
    for step in (1, 2, 3):
        weight.assign(step)
        checkpoints.save(Progress(step=step))
    return checkpoints


def names(checkpoints: Checkpoints) -> list[str]:
    return sorted(path.name for path in checkpoints.folder.iterdir())


def test_model_optimizer_and_progress_are_restored_exactly(tmp_path: Path) -> None:
    model, optimizer = network(), sgd()
    checkpoints = Checkpoints(tmp_path, model=model, optimizer=optimizer)
    assert checkpoints.restore() is None
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(tf.random.normal([8, 3]), training=True) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    progress = Progress(epoch=1, step_in_epoch=2, step=3, ranks=2, loss_sum=0.1 + 0.2, best=1 / 3, images=48)
    checkpoints.save(progress)
    fresh, fresh_optimizer = network(), sgd()
    assert Checkpoints(tmp_path, model=fresh, optimizer=fresh_optimizer).restore() == progress
    for ours, theirs in zip(
        [*model.variables, *optimizer.variables], [*fresh.variables, *fresh_optimizer.variables], strict=True
    ):
        assert (ours.numpy() == theirs.numpy()).all(), ours.name
    assert int(fresh_optimizer.iterations) == 3


def test_a_random_generator_continues_from_its_state(tmp_path: Path) -> None:
    generator = tf.random.Generator.from_seed(7)
    generator.normal([3])
    checkpoints = Checkpoints(tmp_path, generator=generator)
    checkpoints.save(Progress())
    expected = generator.normal([3]).numpy()
    generator.reset_from_seed(1)
    checkpoints.restore()
    assert (generator.normal([3]).numpy() == expected).all()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("spoil", [cut, flip, Path.unlink, lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("file", ["state.json", "variables.index", "variables.data-00000-of-00001"])
def test_a_checkpoint_with_one_damaged_file_is_skipped(
    saved: Checkpoints, weight: tf.Variable, file: str, spoil: Callable[[Path], None]
) -> None:
    spoil(saved.folder / "checkpoint-000003-step-000000003" / file)
    warnings: list[str] = []
    restored = saved.restore(warn=warnings.append)
    assert restored is not None
    assert (restored.step, weight.numpy()) == (2, 2)
    assert len(warnings) == 1
    assert "step-000000003 is skipped" in warnings[0]
    assert file in warnings[0]


def test_checkpoints_restored_only_in_part_are_skipped(saved: Checkpoints, weight: tf.Variable, tmp_path: Path) -> None:
    """SageMaker copies file by file. The instance may terminate after any file, and a copy may be outdated."""
    whole = saved.folder / "checkpoint-000003-step-000000003"
    for copied in ([], ["state.json"], ["variables.index"], ["state.json", "variables.index"]):
        half = Checkpoints(tmp_path / f"half-{len(copied)}-{'-'.join(copied)}", weight=weight)
        shutil.copytree(
            saved.folder / "checkpoint-000002-step-000000002", half.folder / "checkpoint-000002-step-000000002"
        )
        (half.folder / "checkpoint-000003-step-000000003").mkdir()
        (half.folder / ".writing-checkpoint-000004-step-000000004").mkdir()
        for name in copied:
            shutil.copy(whole / name, half.folder / "checkpoint-000003-step-000000003")
        restored = half.restore(warn=lambda _: None)
        assert restored is not None
        assert restored.step == 2
        assert half.latest() == half.folder / "checkpoint-000002-step-000000002"
        half.save(Progress(step=3))
        assert half.latest() == half.folder / "checkpoint-000004-step-000000003"
        assert names(half) == ["checkpoint-000002-step-000000002", "checkpoint-000004-step-000000003"]


def test_without_a_complete_checkpoint_training_starts_over(saved: Checkpoints, weight: tf.Variable) -> None:
    for path in saved.folder.glob("*/state.json"):
        path.unlink()
    warnings: list[str] = []
    assert saved.restore(warn=warnings.append) is None
    assert len(warnings) == 3
    assert weight.numpy() == 3


def test_the_newest_checkpoints_and_the_best_are_kept(tmp_path: Path, weight: tf.Variable) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2, weight=weight)
    for step in range(1, 7):
        weight.assign(step)
        checkpoints.save(Progress(step=step), best=step in (1, 3))
    assert names(checkpoints) == [
        "checkpoint-000003-step-000000003",
        "checkpoint-000005-step-000000005",
        "checkpoint-000006-step-000000006",
    ]
    best = checkpoints.restore(best=True)
    assert best is not None
    assert (best.step, weight.numpy()) == (3, 3)


def test_the_previous_checkpoint_is_kept_until_the_last_is_validated(tmp_path: Path, weight: tf.Variable) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1, weight=weight)
    previous = checkpoints.save(Progress(step=1))
    last = checkpoints.save(Progress(step=2, awaits_validation=True))
    assert names(checkpoints) == [previous.name, last.name]
    checkpoints.update_progress(last, Progress(step=2, epoch=1))
    assert names(checkpoints) == [last.name]


def test_a_step_that_is_saved_twice_has_two_checkpoints(saved: Checkpoints, weight: tf.Variable) -> None:
    weight.assign(33)
    saved.save(Progress(step=3, epoch=1))
    assert names(saved)[-2:] == ["checkpoint-000003-step-000000003", "checkpoint-000004-step-000000003"]
    restored = saved.restore()
    assert restored is not None
    assert (restored.epoch, weight.numpy()) == (1, 33)


def test_the_newest_checkpoint_is_the_last_saved_even_with_fewer_steps(saved: Checkpoints, weight: tf.Variable) -> None:
    """With more ranks, the same part of a training has fewer steps."""
    removed = saved.folder / "checkpoint-000001-step-000000001"
    aside = shutil.copytree(removed, saved.folder.with_name("s3"))
    saved.save(Progress(step=3), best=True)
    for step in (1, 2):
        weight.assign(10 + step)
        newest = saved.save(Progress(step=step, ranks=8), best=step == 1)
    assert names(saved) == [
        "checkpoint-000004-step-000000003",
        "checkpoint-000005-step-000000001",
        "checkpoint-000006-step-000000002",
    ]
    shutil.copytree(aside, removed)  # S3 keeps folders that were removed here, and SageMaker restores them
    assert saved.latest() == newest
    assert saved.restore() == Progress(step=2, ranks=8)
    assert weight.numpy() == 12
    assert saved.restore(best=True) == Progress(step=1, ranks=8)
    assert saved.save(Progress(step=3, ranks=8)).name == "checkpoint-000007-step-000000003"
    assert not removed.exists()


def test_checkpoints_without_a_number_are_older_than_those_with_one(saved: Checkpoints, weight: tf.Variable) -> None:
    for path, name in zip(sorted(saved.folder.iterdir()), ("10", "20", "20-2"), strict=True):
        path.rename(saved.folder / f"step-0000000{name}")
    assert saved.restore() == Progress(step=3)
    saved.save(Progress(step=4))
    assert names(saved) == ["checkpoint-000001-step-000000004", "step-000000020", "step-000000020-2"]
    assert saved.restore() == Progress(step=4)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: network(5), r"shape \(4,\) when attempting to restore variable with shape \(5,\)"),
        (
            lambda: tf.keras.Sequential([tf.keras.layers.Dense(4, input_shape=(3,))]),
            "does not match this job's model or optimizer",
        ),
        (
            lambda: tf.keras.Sequential([network(), tf.keras.layers.Dense(2)]),
            "does not match this job's model or optimizer",
        ),
    ],
)
def test_variables_that_do_not_match_are_reported_in_one_line(
    tmp_path: Path, model: Callable[[], tf.keras.Model], reason: str
) -> None:
    Checkpoints(tmp_path, model=network(), optimizer=sgd()).save(Progress(step=1))
    with pytest.raises(CheckpointError, match=reason) as caught:
        Checkpoints(tmp_path, model=model(), optimizer=sgd()).restore()
    assert "\n" not in str(caught.value)
    assert "step-000000001 does not match" in str(caught.value)


def test_a_checkpoint_of_another_model_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    model = network()
    Checkpoints(tmp_path, identity={"model": "resnet50", "classes": 1000}, model=model).save(Progress(step=1))
    weights = model.get_weights()
    model.set_weights([array * 0 for array in weights])
    other = Checkpoints(tmp_path, identity={"model": "resnet8", "classes": 10}, model=model)
    with pytest.raises(
        CheckpointError, match="is of model resnet50, classes 1000, but this job trains model resnet8, classes 10"
    ):
        other.restore()
    assert not model.get_weights()[0].any()


@contextmanager
def small_files() -> Iterator[None]:
    """Limit files to 10,000 bytes, so that a longer write fails as on a full disk.

    This is not a fixture, because pytest reports a test before its fixtures end, and the report's file may be longer.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)


def test_a_failed_save_keeps_earlier_checkpoints_and_reports_free_space(
    saved: Checkpoints, weight: tf.Variable
) -> None:
    saved.tracked["large"] = tf.Variable(tf.zeros([10_000]))
    with pytest.raises(CheckpointError) as caught, small_files():
        saved.save(Progress(step=4))
    sentence = str(caught.value)
    assert sentence.startswith(f"The checkpoint of step 4 could not be written to {saved.folder} (")
    assert "MB are free there" in sentence
    assert f"The previous checkpoint is {saved.folder / 'checkpoint-000003-step-000000003'}." in sentence
    assert names(saved) == [
        "checkpoint-000001-step-000000001",
        "checkpoint-000002-step-000000002",
        "checkpoint-000003-step-000000003",
    ]
    del saved.tracked["large"]
    assert saved.restore() == Progress(step=3)


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path, weight: tf.Variable) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"could not be written to .*Not a directory.* Correct the cause"):
        Checkpoints(tmp_path / "file" / "checkpoints", weight=weight).save(Progress())


def test_every_changed_byte_of_a_state_is_detected(saved: Checkpoints) -> None:
    path = saved.folder / "checkpoint-000003-step-000000003" / files.STATE
    state = json.loads(path.read_text())
    state["progress"]["step"] = 4
    path.write_text(json.dumps(state))
    with pytest.raises(files.BrokenCheckpointError, match="has changed since it was written"):
        files.read(path.parent)
