"""Streams in RecordIO. images.rec and pairs.rec were written by mxnet 1.9.1 (mxnet.recordio.MXRecordIO, pack).

images.rec has `pack(IRHeader(0, float(label), label, 0), image)` for the labels 0 to 9; pairs.rec has in turn the same
images and the text of the labels. Each image is a PNG of 8 x 8 pixels with the grey value 20 * label. That of label 3
contains RecordIO's magic number at a multiple of four bytes, where MXNet splits a record.
"""

import json
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tensorflow as tf

from tests.support.packages import NATIVE, needs
from tests.training.records import SMALL, batches, with_
from tests.training.streams import feed, wrapped
from training_container.contract.training_job import Folders
from training_container.trainer.data import channels
from training_container.trainer.data.channels import RankPosition, ReadOptions
from training_container.trainer.data.corrupt_records import RecordError
from training_container.trainer.data.input import training_data, validation_data
from training_container.trainer.demux import demultiplexer
from training_container.trainer.demux.framing import StreamError
from training_container.trainer.demux.recordio import CONTENTS, MAGIC, Stream, example, framed

FILES = {"images": Path(__file__).with_name("images.rec"), "pairs": Path(__file__).with_name("pairs.rec")}
SETTINGS = {
    "images": {"TrainingInputMode": "Pipe", "ContentType": "application/x-recordio", "RecordWrapperType": "None"},
    "pairs": {"TrainingInputMode": "Pipe", "RecordWrapperType": "RecordIO"},
}
IN_ORDER = ReadOptions(shuffle_records=0, timeout_seconds=20)


def stream(content: bytes, *, block: int = 1 << 20) -> Stream:
    blocks = (content[start : start + block] for start in range(0, len(content), block))
    return Stream("train", "train_0", blocks)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Folders]]:
    """A function that streams these epochs of a channel."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folders = Folders(base=tmp_path)
    for folder in (folders.config, folders.data):
        folder.mkdir(parents=True)

    def write(content: str, *epochs: bytes, name: str = "train") -> Folders:
        path = folders.config / "inputdataconfig.json"
        declared = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(declared | {name: SETTINGS[content]}))
        threading.Thread(target=feed, args=(folders.data, name, epochs), daemon=True).start()
        return folders

    yield write
    demultiplexer._end()


def labels(records: list[bytes]) -> list[int]:
    found = [tf.train.Example.FromString(record).features.feature for record in records]
    return [feature["image/class/label"].int64_list.value[0] for feature in found]


def read(folders: Folders, rank: int = 0, ranks: int = 1) -> list[bytes]:
    place = RankPosition(rank=rank, size=ranks, local_rank=rank, local_size=ranks)
    train = channels.open("train", cluster=place, folders=folders, reading=IN_ORDER)
    return [bytes(record) for record in train.records(0).as_numpy_iterator()]


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize("content", ["images", "pairs"])
def test_files_of_mxnet_are_read(content: str, block: int) -> None:
    file = FILES[content].read_bytes()
    assert struct.pack("<I", MAGIC) in file
    found = list(CONTENTS[content](stream(file, block=block)))
    assert [label for _, label in found] == list(range(10))
    for image, label in found:
        pixels = tf.io.decode_png(image, channels=3).numpy()
        assert pixels.shape == (8, 8, 3)
        assert set(pixels.flatten()) == {20 * label}
    assert struct.pack("<I", MAGIC) in found[3][0]


def test_a_single_label_may_follow_the_header() -> None:
    """As mxnet.recordio.pack writes an array with one label: flag 1, 0 as the header's label, and one float32."""
    image = FILES["images"].read_bytes()[:40]
    first, second = struct.pack("<IfQQf", 1, 0, 5, 0, 3) + image, struct.pack("<IfQQ", 0, 4, 6, 0) + image
    assert list(CONTENTS["images"](stream(wrapped(first, second)))) == [(image, 3), (image, 4)]


@pytest.mark.parametrize("label", [0, 1, 127, 128, 10**12, -1])
def test_a_record_is_an_example_of_tensorflow(tmp_path: Path, label: int) -> None:
    image = bytes(range(256)) * 3
    (tmp_path / "file").write_bytes(framed(example(image, label)))
    (record,) = tf.data.TFRecordDataset(str(tmp_path / "file")).as_numpy_iterator()
    features = tf.train.Example.FromString(record).features.feature
    assert set(features) == {"image/encoded", "image/class/label"}
    assert features["image/encoded"].bytes_list.value == [image]
    assert features["image/class/label"].int64_list.value == [label]


@pytest.mark.parametrize("content", ["images", "pairs"])
def test_a_channel_is_read_with_its_labels(job: Callable[..., Folders], content: str) -> None:
    assert labels(read(job(content, FILES[content].read_bytes()))) == list(range(10))


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("content", ["images", "pairs"])
def test_the_trainer_reads_both_channels_in_every_epoch(job: Callable[..., Folders], content: str) -> None:
    file = FILES[content].read_bytes()
    job(content, file, file)
    folders = job(content, file, name="validation")
    data = training_data(with_(batch_size=5), folders)
    for epoch in range(2):
        found = [
            (int(label), set(image.flatten()))
            for images, labels in batches(data, epoch)
            for image, label in zip(images, labels, strict=True)
        ]
        assert sorted(found) == [(label, {20 * label}) for label in range(10)]
    validation = validation_data(SMALL, folders)
    assert validation is not None
    assert sum(int(labels.shape[0]) for _, labels, _ in validation.epoch(0)) == 10


@needs(NATIVE)
def test_the_ranks_of_a_host_share_the_records(job: Callable[..., Folders]) -> None:
    folders = job("pairs", FILES["pairs"].read_bytes())
    found: dict[int, list[bytes]] = {}
    threads = [
        threading.Thread(target=lambda rank=rank: found.update({rank: read(folders, rank, 2)})) for rank in (0, 1)
    ]
    for thread in threads:
        thread.start()
        time.sleep(0.2)
    for thread in threads:
        thread.join(20)
    assert [labels(found[rank]) for rank in (0, 1)] == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]


IMAGES, PAIRS = FILES["images"].read_bytes(), FILES["pairs"].read_bytes()


@pytest.mark.parametrize(
    ("content", "data", "words"),
    [
        ("pairs", b"", "train_0 ended without any data"),
        ("pairs", PAIRS[:-5], rf"train_0 was truncated at byte {len(PAIRS) - 5}"),
        ("pairs", b"\x0a\x00\x00\x00" + bytes(20), "byte 0 of train_0 does not begin a record of RecordIO"),
        ("pairs", wrapped(b"image"), "train_0 ended after an image without its label"),
        ("pairs", wrapped(b"image", b"cat"), "record 1 of train_0 must be a label, but is 'cat'"),
        ("pairs", wrapped(b"image", b"1.5"), "record 1 of train_0 must be a label, but is '1.5'"),
        ("pairs", wrapped(b"image", b"i" * 2000), "record 1 of train_0 must be a label, but is 2,000 bytes"),
        ("images", wrapped(b"short"), "record 0 of train_0 has 5 bytes, and no header"),
        ("images", wrapped(struct.pack("<IfQQ", 2, 0, 0, 0) + bytes(8)), "record 0 of train_0 has 2 labels"),
        ("images", wrapped(struct.pack("<IfQQ", 0, 1.5, 0, 0)), r"record 0 of train_0 has the label 1\.5"),
        ("images", wrapped(struct.pack("<IfQQf", 1, 7, 0, 0, 1.5)), r"record 0 of train_0 has the label 1\.5"),
        ("images", wrapped(struct.pack("<IfQQ", 1, 7, 0, 0) + b"abc"), "record 0 of train_0 ends within its labels"),
        ("images", struct.pack("<II", MAGIC, 2 << 29), "record 0 of train_0 is damaged at byte 0"),
        ("images", struct.pack("<II", MAGIC, 1 << 29), "train_0 ended inside record 0"),
    ],
)
def test_data_that_cannot_be_read_are_refused_in_one_sentence(content: str, data: bytes, words: str) -> None:
    with pytest.raises(StreamError, match=rf"^Channel train: {words}"):
        list(CONTENTS[content](stream(data)))


@pytest.mark.usefixtures("one_rank")
def test_a_stream_that_never_begins_is_named(job: Callable[..., Folders]) -> None:
    data = training_data(with_(batch_size=2, pipe_timeout_seconds=4.0), job("pairs"))
    with pytest.raises(RecordError, match=r"^Channel train: nothing wrote to \S+/input/data/train_0 within 3 s"):
        batches(data, 0)


@pytest.mark.usefixtures("one_rank")
def test_the_error_of_a_stream_is_the_trainers(job: Callable[..., Folders]) -> None:
    data = training_data(with_(batch_size=2), job("pairs", wrapped(b"image", b"cat")))
    with pytest.raises(RecordError, match=r"^Channel train: record 1 of .*train_0 must be a label, but is 'cat'"):
        batches(data, 0)


@needs(NATIVE)
def test_the_error_of_a_stream_reaches_all_ranks_of_a_host(job: Callable[..., Folders]) -> None:
    folders = job("pairs", PAIRS + wrapped(b"image", b"cat"))
    found: dict[int, str] = {}

    def error_of(rank: int) -> None:
        with pytest.raises(tf.errors.OpError) as caught:
            read(folders, rank, 2)
        found[rank] = str(caught.value)

    threads = [threading.Thread(target=error_of, args=[rank]) for rank in (0, 1)]
    for thread in threads:
        thread.start()
        time.sleep(0.2)
    for thread in threads:
        thread.join(20)
    assert all("must be a label, but is 'cat'" in found[rank] for rank in (0, 1))


@needs(NATIVE)
def test_a_killed_translation_is_an_error_and_no_end(job: Callable[..., Folders]) -> None:
    folders = job("pairs", PAIRS * 20_000)
    train = channels.open(
        "train", folders=folders, reading=IN_ORDER, cluster=RankPosition(rank=0, size=1, local_rank=0, local_size=1)
    )
    records = train.records(0).as_numpy_iterator()
    next(records)
    demultiplexer._running[-1].send_signal(signal.SIGKILL)
    with pytest.raises(tf.errors.OpError, match=r"the program that translates .* was killed before the end"):
        list(records)


def test_a_label_outside_of_the_classes_names_the_hyperparameter(job: Callable[..., Folders], one_rank: None) -> None:
    data = training_data(with_(batch_size=2, classes=5), job("images", IMAGES))
    with pytest.raises(RecordError, match=r"a label must be from 0 to 4 \(hyperparameters first_label and classes\)"):
        batches(data, 0)


def test_the_translation_ends_when_its_reader_leaves(job: Callable[..., Folders]) -> None:
    folders = job("pairs", PAIRS * 20_000)
    place = RankPosition(rank=0, size=1, local_rank=0, local_size=1)
    train = channels.open("train", folders=folders, reading=IN_ORDER, cluster=place)
    assert len(list(train.records(0).take(3))) == 3
    assert demultiplexer._running[-1].wait(20) == 0
