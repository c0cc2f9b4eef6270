"""Invalid training data: errors name the channel, the record if it can be found, and the reason."""

import errno
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.training.records import GOOD, SMALL, batches, image_folder, serialised, stream_of, with_, write_records
from training_container.contract.training_job import Folders
from training_container.recipe.epoch_length import LockstepError
from training_container.trainer.data import diagnosis
from training_container.trainer.data.channels import ChannelError
from training_container.trainer.data.corrupt_records import RecordError
from training_container.trainer.data.image_folder import ImageFolderError
from training_container.trainer.data.input import training_data, validation_data

pytestmark = pytest.mark.usefixtures("one_rank")
Job = Callable[..., Folders]


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("label", [0, 11])
def test_a_label_out_of_range_is_reported_with_its_record(job: Job, label: int, cache: bool) -> None:
    config = with_(classes=10, first_label=1, cache=cache)
    words = rf"Channel train: record 1 of train-00001-of-00002.*label must be from 1 to 10.*; got {label}\."
    with pytest.raises(RecordError, match=words):
        batches(training_data(config, job(train=[1, 2, 3, label])), 0)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (serialised(image=b"x", label=1), "no feature 'image/encoded'; it has: image, label"),
        (serialised(image__encoded=b"x"), "no feature 'image/class/label'; it has: image/encoded"),
        (
            serialised(image__encoded=b"x", image__class__label=b"cat"),
            "'image/class/label'.*one value in its int64_list",
        ),
        (b"\xff\xff not a protocol buffer", "not a tf.train.Example"),
        (
            serialised(image__encoded=b"\xff\xd8\xff cut off", image__class__label=1),
            "image of 11 bytes cannot be decoded",
        ),
    ],
)
def test_an_invalid_record_is_reported(job: Job, record: bytes, words: str) -> None:
    folders = job(train=[1])
    write_records(folders.data / "train" / "z.tfrecord", *[GOOD] * 6, record, GOOD)
    data = training_data(with_(batch_size=3, shuffle_records=4), folders)
    with pytest.raises(RecordError, match=rf"Channel train: record 6 of z\.tfrecord: .*{words}"):
        batches(data, 0)


def test_a_corrupt_record_is_reported(job: Job) -> None:
    folders = job(train=[1] * 8)
    path = folders.data / "train" / "train-00001-of-00002.tfrecord"
    content = bytearray(path.read_bytes())
    content[len(content) // 4 + 40] ^= 1  # in the second of four records
    path.write_bytes(content)
    words = rf"Channel train: the record at byte {len(content) // 4} of {re.escape(path.name)} is corrupt"
    with pytest.raises(RecordError, match=words):
        batches(training_data(SMALL, folders), 0)


def test_the_reason_is_printed_before_a_search_that_has_a_time_limit(
    job: Job, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other ranks wait meanwhile, and end the job after stall_seconds."""
    outputs = []

    def searches_long(*_: object) -> None:
        outputs.append(capsys.readouterr().out)
        time.sleep(60)

    monkeypatch.setattr(diagnosis, "first_problem", searches_long)
    words = r"^Channel train: .*label must be from 0 to 9.*; got 77\. The record was not found within 5 s"
    with pytest.raises(RecordError, match=words):
        batches(training_data(with_(batch_size=2, stall_seconds=15), job(train=[1, 77])), 0)
    assert re.search(
        r"^Rank 0: Channel train: .*label must be from 0 to 9.*; got 77\. Searching", outputs[0], re.MULTILINE
    )


@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "Input/output error"), TimeoutError(errno.ETIMEDOUT, "timed out")]
)
def test_the_reason_is_kept_if_the_data_cannot_be_read_again(
    job: Job, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(diagnosis, "first_problem", fails)
    words = rf"^Channel train: .*label must be from 0 to 9.*; got 77\. .*could not be read again: .*{error.strerror}"
    with pytest.raises(RecordError, match=words):
        batches(training_data(with_(batch_size=2), job(train=[1, 77])), 0)


@pytest.mark.parametrize("cache", [False, True])
def test_corrupt_records_and_images_are_left_out_up_to_a_limit(
    job: Job, capsys: pytest.CaptureFixture[str], cache: bool
) -> None:
    folders = job(train=[1, 2, 3, 4, 5, 6])
    bad = folders.data / "train" / "z.tfrecord"
    write_records(bad, serialised(image__encoded=b"no image", image__class__label=1), GOOD)
    content = bytearray(bad.read_bytes())
    content[-10] ^= 1
    bad.write_bytes(content)
    data = training_data(with_(batch_size=2, tolerate_corrupt_records=2, cache=cache), folders)
    for epoch in range(2):
        labels = np.concatenate([labels for _, labels in batches(data, epoch)])
        assert sorted(labels) == [1, 2, 3, 4, 5, 6]
    assert (
        "rank 0 left out 2 corrupt record(s) of epoch 1; tolerate_corrupt_records allows 2" in capsys.readouterr().out
    )
    with pytest.raises(RecordError, match=r"2 records are corrupt.*allows 1"):
        batches(training_data(with_(batch_size=2, tolerate_corrupt_records=1, cache=cache), folders), 0)


@pytest.mark.parametrize("cache", [False, True])
def test_missing_records_are_detected(job: Job, cache: bool) -> None:
    folders = job(train=[1] * 5, validation=[1] * 3)
    config = with_(train_records=6, validation_records=4, batch_size=2, cache=cache)
    with pytest.raises(LockstepError, match=r"Channel train ended after 5 records, .*train_records requires 6"):
        batches(training_data(config, folders), 0)
    validation = validation_data(config, folders)
    assert validation is not None
    with pytest.raises(
        LockstepError, match=r"Channel validation ended after 3 records, .*validation_records requires 4"
    ):
        list(validation.epoch(0))


def test_a_missing_channel_is_reported(job: Job) -> None:
    with pytest.raises(ChannelError, match=r"Channel train does not exist .*validation"):
        training_data(SMALL, job(validation=[1]))


def test_a_truncated_stream_is_reported(streamed: Callable[..., Folders], tmp_path: Path) -> None:
    content = stream_of(tmp_path / "object", *range(8))
    with pytest.raises(
        RecordError, match=rf"^Channel train: .*was truncated at byte {len(content) - 3}, inside record 7"
    ):
        batches(training_data(SMALL, streamed(content[:-3])), 0)


def test_a_corrupt_record_of_a_stream_is_reported(streamed: Callable[..., Folders], tmp_path: Path) -> None:
    content = bytearray(stream_of(tmp_path / "object", *[1] * 8))
    start = 5 * len(content) // 8
    content[start + 40] ^= 1
    # The plugin leaves the checksum of the data to TensorFlow, which knows the byte; the reader in Python the number.
    words = rf"^Channel train: (the record|record 5) at byte ({start}|{start:,}) of \S+train_0 is corrupt: "
    with pytest.raises(RecordError, match=words):
        batches(training_data(SMALL, streamed(bytes(content))), 0)


def test_a_stream_of_fewer_records_than_a_batch_is_explained(streamed: Callable[..., Folders], tmp_path: Path) -> None:
    content = stream_of(tmp_path / "object", 1, 2, 3)
    with pytest.raises(LockstepError, match=r"Channel train has too few records for a batch of 4 .* rank 0 has 3"):
        batches(training_data(SMALL, streamed(content)), 0)


def test_a_stream_without_some_records_is_detected(streamed: Callable[..., Folders], tmp_path: Path) -> None:
    content = stream_of(tmp_path / "object", *range(8))
    with pytest.raises(LockstepError, match=r"Channel train ended after 8 records, .*train_records requires 9"):
        batches(training_data(with_(train_records=9), streamed(content)), 0)


@pytest.mark.parametrize(
    ("label", "words"), [(11, r"a label must be from 0 to 9.*; got 11\."), (1, "cannot be decoded")]
)
def test_an_invalid_streamed_record_is_explained(
    streamed: Callable[..., Folders], tmp_path: Path, label: int, words: str
) -> None:
    path = tmp_path / "object"
    write_records(path, *[GOOD] * 5, serialised(image__encoded=b"no image", image__class__label=label), GOOD, GOOD)
    with pytest.raises(RecordError, match=rf"^Channel train: .*{words}"):
        batches(training_data(SMALL, streamed(path.read_bytes())), 0)


def test_a_stream_of_raw_images_is_refused(streamed: Callable[..., Folders]) -> None:
    content = tf.io.encode_jpeg(np.zeros((8, 8, 3), np.uint8)).numpy()
    with pytest.raises(RecordError, match=r"^Channel train: .*Raw images cannot be streamed.*File or FastFile"):
        batches(training_data(SMALL, streamed(content * 2)), 0)


def test_another_number_of_class_folders_is_explained(job: Job) -> None:
    folders = job()
    (folders.config / "inputdataconfig.json").write_text('{"train": {}}')
    image_folder(folders.data / "train", ant=1, bee=1)
    with pytest.raises(ImageFolderError, match=r"2 folder\(s\) of classes, but hyperparameter classes is 10"):
        training_data(SMALL, folders)


def test_validation_images_with_training_records_are_refused(job: Job) -> None:
    folders = job(train=[1], validation=[1])
    shutil.rmtree(folders.data / "validation")
    image_folder(folders.data / "validation", ant=1)
    with pytest.raises(ImageFolderError, match=r"validation is a folder of images, but channel train has records"):
        validation_data(SMALL, folders, classes=training_data(SMALL, folders).classes)


def test_an_image_file_that_cannot_be_decoded_is_reported(job: Job) -> None:
    folders = job()
    (folders.config / "inputdataconfig.json").write_text('{"train": {}}')
    image_folder(folders.data / "train", ant=3, bee=3)
    (folders.data / "train" / "bee" / "1.PNG").write_bytes(b"no image")
    with pytest.raises(RecordError, match=r"Channel train: bee/1\.PNG: an image of 8 bytes cannot be decoded"):
        batches(training_data(with_(classes=2, batch_size=2), folders), 0)
