"""Two ranks with shares of different size: no rank waits forever, and nothing is counted twice."""

import contextlib
import dataclasses
import io
import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf

from examples.digits.write_campaigns import example
from tests.training.conftest import CONTROLLERS
from tests.training.streams import feed
from tests.training.two_ranks import TwoRanks
from training_container.contract.stopping import StopRequestedError
from training_container.contract.training_job import Folders
from training_container.recipe.config import Config
from training_container.recipe.epoch_length import LockstepError
from training_container.trainer.data.input import training_data, validation_data
from training_container.trainer.data.lockstep import Lockstep
from training_container.trainer.data.record_index import record_starts, stored
from training_container.trainer.models import build_model
from training_container.trainer.step import TrainStep
from training_container.trainer.validation import Validation, average_batch_norm_statistics

CONFIG = Config(
    model="resnet8", image_size=8, batch_size=4, classes=10, first_label=0, augmentation="none", shard_by="file"
)


@pytest.fixture(scope="module", params=CONTROLLERS)
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoRanks]:
    """Two ranks for all tests of this file."""
    with TwoRanks(tmp_path_factory.mktemp("ranks"), request.param) as started:
        yield started


def records(path: Path, count: int) -> Path:
    """Write this number of images; image n shows the digit n mod 10, with a proportional brightness."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(count):
            writer.write(example(np.full((8, 8, 1), 20 * (number % 10), np.uint8), number % 10))
    return path


def declare(folders: Folders, **channels: str) -> None:
    for folder in (folders.config, folders.data):
        folder.mkdir(parents=True)
    settings = {name: {"TrainingInputMode": mode} for name, mode in channels.items()}
    (folders.config / "inputdataconfig.json").write_text(json.dumps(settings))


def laid_out(folders: Folders, channel: str, *counts: int) -> list[Path]:
    """Declare a channel in File mode whose files have these numbers of images. Return the files."""
    declare(folders, **{channel: "File"})
    (folders.data / channel).mkdir()
    return [records(folders.data / channel / f"part-{number}", count) for number, count in enumerate(counts)]


def three_epochs(base: str) -> dict[str, Any]:
    """Read as many batches as possible in three epochs; the third epoch of rank 1 is truncated."""
    data = training_data(CONFIG, Folders(base=Path(base)))
    before = data.steps_per_epoch
    steps = [len(list(data.epoch(epoch))) for epoch in range(2)]
    try:
        steps.append(len(list(data.epoch(2))))
        error = ""
    except LockstepError as cut:
        error = str(cut)
    return {"before": before, "steps": steps, "after": data.steps_per_epoch, "images": data.images, "error": error}


def test_uneven_streams_make_equal_epochs_and_truncation_is_detected(ranks: TwoRanks, tmp_path: Path) -> None:
    folders = Folders(base=tmp_path / "ml")
    declare(folders, train_0="Pipe", train_1="Pipe")
    for rank, counts in enumerate([(5 * 4 + 1,) * 3, (3 * 4 + 2, 3 * 4 + 2, 4 + 1)]):
        epochs = [records(tmp_path / f"{rank}-{epoch}", count).read_bytes() for epoch, count in enumerate(counts)]
        threading.Thread(target=feed, args=(folders.data, f"train_{rank}", epochs), daemon=True).start()
    first, second = ranks.run(three_epochs, str(folders.base))
    assert first == {"before": None, "steps": [3, 3, 3], "after": 3, "images": 21 + 14, "error": ""}
    assert second["steps"] == [3, 3]
    assert second["error"].startswith(
        "The stream of channel train ended after 1 of 3 batches on rank 1, in epoch 3. It was truncated"
    )


def opened(base: str) -> dict[str, Any]:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        data = training_data(CONFIG, Folders(base=Path(base)))
    return {"images": data.images, "per_epoch": data.images_per_epoch, "output": output.getvalue()}


def test_uneven_shares_are_reported_with_a_solution(ranks: TwoRanks, tmp_path: Path) -> None:
    folders = Folders(base=tmp_path / "ml")
    laid_out(folders, "train", 13, 30)
    first, second = ranks.run(opened, str(folders.base))
    assert (first["images"], first["per_epoch"]) == (43, 24)
    assert first["output"] == (
        "Channel train: 43 records make 3 batches of 4 on each of 2 rank(s); 19 records are left out of an epoch. "
        "WARNING: that is 44% of the data, which is not trained on. Ranks have from 13 to 30 records: set shard_by to "
        "auto (in File and FastFile mode), or use several files of equal size for each rank.\n"
    )
    assert second["output"] == ""


def read_in_ranges(base: str) -> dict[str, Any]:
    """Read two epochs with the default sharding, although the number of records is given."""
    output = io.StringIO()
    config = dataclasses.replace(CONFIG, shard_by="auto", train_records=43, batch_size=7)
    with contextlib.redirect_stdout(output):
        data = training_data(config, Folders(base=Path(base)))
    epochs = [[int(label) for _, labels in data.epoch(epoch) for label in labels] for epoch in range(2)]
    return {"images": data.images, "steps": data.steps_per_epoch, "epochs": epochs, "output": output.getvalue()}


def test_ranges_of_records_leave_out_less_than_a_step(ranks: TwoRanks, tmp_path: Path) -> None:
    folders = Folders(base=tmp_path / "ml")
    laid_out(folders, "train", 13, 30)
    folders.checkpoints.mkdir()
    first, second = ranks.run(read_in_ranges, str(folders.base))
    assert (first["images"], first["steps"]) == (second["images"], second["steps"]) == (43, 3)
    assert first["output"] == (
        "Channel train: 43 records make 3 batches of 7 on each of 2 rank(s); 1 records are left out of an epoch.\n"
    )
    every = Counter(number % 10 for count in (13, 30) for number in range(count))
    for epoch in range(2):
        read = Counter(first["epochs"][epoch] + second["epochs"][epoch])
        assert read <= every
        assert (every - read).total() == 1
    index = stored(folders.checkpoints / "records-train.json")
    assert {name: entry.records for name, entry in index.items()} == {"part-0": 13, "part-1": 30}


def test_fewer_records_than_expected_are_reported_before_the_first_step(ranks: TwoRanks, tmp_path: Path) -> None:
    folders = Folders(base=tmp_path / "ml")
    laid_out(folders, "train", 4, 5)
    for message in ranks.run(too_few, str(folders.base)):
        assert message.startswith("Channel train ended after 9 records, but hyperparameter train_records requires 10")


def too_few(base: str) -> str:
    try:
        training_data(dataclasses.replace(CONFIG, shard_by="auto", train_records=10), Folders(base=Path(base)))
    except LockstepError as error:
        return str(error)
    return ""


def other_records_each_epoch() -> list[int]:
    """Take 5 and 3 batches, then 2 and 6, as if SageMaker distributed a channel's objects differently to two hosts."""
    lockstep = Lockstep("train", 4, steps=None, same=False)
    rank, steps = hvd.rank(), []
    for epoch, batches in enumerate([(5, 3), (2, 6)]):
        full = [(tf.zeros([4, 8, 8, 3]), tf.zeros([4], tf.int64))] * batches[rank]
        steps.append(len(list(lockstep.epoch(iter(full), epoch))))
    return steps


def test_hosts_with_new_objects_in_every_epoch_stay_in_lockstep(ranks: TwoRanks, tmp_path: Path) -> None:
    assert ranks.run(other_records_each_epoch) == [[3, 2]] * 2


def tolerant_epochs(base: str) -> list[int | None]:
    data = training_data(dataclasses.replace(CONFIG, tolerate_corrupt_records=2), Folders(base=Path(base)))
    return [len(list(data.epoch(epoch))) for epoch in range(2)] + [data.steps_per_epoch, data.images]


def test_corrupt_records_on_one_rank_shorten_the_epoch_of_all(ranks: TwoRanks, tmp_path: Path) -> None:
    folders = Folders(base=tmp_path / "ml")
    sound, broken = laid_out(folders, "train", 13, 13)
    content = bytearray(broken.read_bytes())
    starts = list(record_starts(sound))
    for record in (3, 9):
        content[starts[record] + 20] ^= 1
    broken.write_bytes(content)
    # The 13 records of rank 0 would make three batches, but the 11 of rank 1 make two.
    assert ranks.run(tolerant_epochs, str(folders.base)) == [[2, 2, 2, 24]] * 2


def brightness_model() -> tf.keras.Model:
    """Return a model whose logits depend on an image's brightness, and are correct for some digits only."""
    images = tf.keras.Input([8, 8, 3])
    brightness = tf.keras.layers.GlobalAveragePooling2D()(images)[:, :1] / 20.0
    return tf.keras.Model(images, -((brightness - tf.range(10.0) * 0.7) ** 2))


def validated(*bases: str) -> list[dict[str, Any]]:
    results = []
    for base in bases:
        data = validation_data(CONFIG, Folders(base=Path(base)))
        assert data is not None
        batches = list(data.epoch(0))
        results.append({"batches": len(batches), "metrics": Validation(brightness_model(), CONFIG)(batches)})
    return results


def expected(counts: tuple[int, ...]) -> dict[str, float]:
    """Return the metrics of all images, computed manually."""
    labels = np.array([number % 10 for count in counts for number in range(count)])
    logits = -((labels[:, None] - np.arange(10) * 0.7) ** 2)
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(labels)), labels]
    places = (logits > logits[np.arange(len(labels)), labels][:, None]).sum(axis=1)
    return {
        "validation_loss": losses.mean(),
        "validation_top1": (places < 1).mean(),
        "validation_top5": (places < 5).mean(),
    }


def stopped_on_rank_1(base: str) -> bool:
    config = dataclasses.replace(CONFIG, validation_records=23)
    data = validation_data(config, Folders(base=Path(base)))
    assert data is not None
    try:
        Validation(brightness_model(), config)(data.epoch(0, lambda: hvd.rank() == 1))
    except StopRequestedError:
        return True
    return False


def test_a_stop_of_one_rank_ends_the_validation_of_all(ranks: TwoRanks, tmp_path: Path) -> None:
    folders = Folders(base=tmp_path / "ml")
    laid_out(folders, "validation", 13, 10)
    assert ranks.run(stopped_on_rank_1, str(folders.base)) == [True, True]


def averaged_statistics() -> list[list[float]]:
    """Train a step on a rank's own images. Return the averages before and after they are averaged over ranks."""
    tf.keras.utils.set_random_seed(1)
    config = dataclasses.replace(CONFIG, ema=0.5)
    model = build_model(config)
    step = TrainStep(model, config)
    step([(tf.fill([4, 8, 8, 3], 40.0 * (hvd.rank() + 1)), tf.range(4, dtype=tf.int64))], 0.1)
    found = []
    for meet in (lambda: None, lambda: average_batch_norm_statistics(step.statistics)):
        meet()
        with step.averaged():
            found.append([float(tf.reduce_sum(statistic)) for statistic in model.non_trainable_variables])
    return found


def test_ranks_validate_the_same_averages(ranks: TwoRanks, tmp_path: Path) -> None:
    (first, first_met), (second, second_met) = ranks.run(averaged_statistics)
    assert first != pytest.approx(second, rel=1e-3)
    assert first_met == second_met == pytest.approx([(a + b) / 2 for a, b in zip(first, second, strict=True)], rel=1e-4)


def test_validation_weighs_every_image_equally_with_any_sharding(ranks: TwoRanks, tmp_path: Path) -> None:
    jobs = {(13, 20): Folders(base=tmp_path / "two-files"), (23,): Folders(base=tmp_path / "one-file")}
    for counts, folders in jobs.items():
        laid_out(folders, "validation", *counts)
    results = ranks.run(validated, *(str(folders.base) for folders in jobs.values()))
    # By file, rank 0 gets the larger of two files; of a single file, rank 1 gets nothing.
    assert [[result["batches"] for result in rank] for rank in results] == [[5, 6], [4, 0]]
    for rank in results:
        for counts, result in zip(jobs, rank, strict=True):
            assert result["metrics"] == pytest.approx(expected(counts), rel=1e-5)
