"""A rank's images as batches: each record once, the same after an interruption, and refused if it is invalid."""

import multiprocessing
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import torch
from torchvision.io import encode_jpeg

from examples.torch_recipe.write_digits import example, part_of, varint, write_channel, write_file
from tests.torch.image_streams import PIPE, config, labels_of_host, numbers, shades, stream
from tests.torch.one_rank import one_rank
from training_container.contract.training_job import Folders
from training_container.recipe.epoch_length import LockstepError
from training_container.script_api.ranks import Ranks
from training_container.torch_trainer import decoding
from training_container.torch_trainer.decoding import decoded
from training_container.torch_trainer.examples import ExampleError, image_and_label
from training_container.torch_trainer.images import ImageRecordError, TrainingImages, validation_images
from training_container.trainer.data.record_index import ShardError
from training_container.trainer.demux.framing import StreamError

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than cores


@pytest.fixture(autouse=True, scope="module")
def _group() -> Iterator[None]:
    with one_rank():
        yield


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., Ranks]:
    """A function that writes the channel train with a number of images, and returns this rank."""

    def write(count: int = 50, settings: str = "{}", name: str = "train") -> Ranks:
        folders = Folders(base=tmp_path)
        folders.config.mkdir(parents=True)
        (folders.config / "inputdataconfig.json").write_text(f'{{"{name}": {settings}}}')
        if settings == "{}":
            write_channel(folders.data / name, *shades(count), files=3)
        else:
            folders.data.mkdir()
        return Ranks(rank=0, size=1, local_rank=0, local_size=1, folders=folders)

    return write


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_an_epoch_has_each_record_at_most_once_and_another_order(place: Callable[..., Ranks], workers: int) -> None:
    images = TrainingImages(config(workers=workers), place())
    assert (images.steps, images.count) == (12, 50)
    epochs = [numbers(images.epoch(epoch)) for epoch in (0, 1)]
    for batches in epochs:
        labels = [label for batch in batches for label in batch]
        assert [len(batch) for batch in batches] == [4] * 12
        assert len(set(labels)) == 48
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("skip", [1, 5, 11])
def test_a_resumed_epoch_has_the_remaining_batches_to_the_last_bit(place: Callable[..., Ranks], skip: int) -> None:
    images = TrainingImages(config(augmentation="affine"), place())
    every = list(images.epoch(3))
    remaining = list(images.epoch(3, skip=skip))
    assert len(remaining) == 12 - skip
    for (pixels, labels), (same_pixels, same_labels) in zip(every[skip:], remaining, strict=True):
        assert torch.equal(pixels, same_pixels)
        assert torch.equal(labels, same_labels)


def test_more_steps_than_records_repeat_them(place: Callable[..., Ranks]) -> None:
    images = TrainingImages(config(steps_per_epoch=30), place())
    batches = numbers(images.epoch(0))
    assert len(batches) == 30
    assert len({label for batch in batches for label in batch}) == 50


def test_validation_has_each_record_once(place: Callable[..., Ranks]) -> None:
    images = validation_images(config(), place(name="validation"))
    assert images is not None
    batches = numbers(images.epoch(0))
    assert sorted(label for batch in batches for label in batch) == list(range(50))
    assert {len(batch) for batch in batches} == {4, 2}


def test_too_many_workers_for_few_records_are_not_started(place: Callable[..., Ranks]) -> None:
    assert numbers(TrainingImages(config(workers=60), place(5)).epoch(0)) != []


def test_a_job_may_have_no_validation(place: Callable[..., Ranks]) -> None:
    assert validation_images(config(), place()) is None


def test_a_stream_is_read_to_its_end_in_every_epoch(place: Callable[..., Ranks]) -> None:
    here = place(settings=PIPE, name="train_0")
    stream(here, 10, epochs=2)
    images = TrainingImages(config(train_records=10, shuffle_records=0), here)
    assert (images.steps, images.count) == (2, None)
    for epoch in (0, 1):
        assert numbers(images.epoch(epoch)) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_ranks_train_as_many_batches_of_a_stream_as_the_one_with_the_fewest(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as hosts:
        both = [
            hosts.submit(labels_of_host, tmp_path, rank, count, train_records=26) for rank, count in ((0, 17), (1, 9))
        ]
        epochs = [[[0, 1, 2, 3], [4, 5, 6, 7]], [[4, 5, 6, 7]]]
        assert [host.result(200) for host in both] == [epochs, epochs]


def test_a_stream_with_fewer_records_than_train_records_fails_on_all_ranks(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as hosts:
        both = [
            hosts.submit(labels_of_host, tmp_path, rank, count, train_records=27) for rank, count in ((0, 17), (1, 9))
        ]
        for host in both:
            with pytest.raises(
                LockstepError, match="ended after 26 records, but hyperparameter train_records requires 27"
            ):
                host.result(200)


def test_a_stream_of_unknown_length_is_refused(place: Callable[..., Ranks]) -> None:
    here = place(settings=PIPE)
    with pytest.raises(
        ImageRecordError, match=r"Channel train is a stream, .* train_records, to at least the 4 images"
    ):
        TrainingImages(config(train_records=3), here)


def test_a_truncated_stream_fails(place: Callable[..., Ranks]) -> None:
    here = place(settings=PIPE, name="train_0")
    stream(here, 6, epochs=1)
    images = TrainingImages(config(steps_per_epoch=2), here)
    with pytest.raises(LockstepError, match="Channel train ended after 1 of 2 batches on rank 0, in epoch 1"):
        list(images.epoch(0))


def test_missing_records_are_refused(place: Callable[..., Ranks]) -> None:
    with pytest.raises(LockstepError, match=r"Channel train ended after 50 records, .* train_records requires 51"):
        TrainingImages(config(train_records=51), place())


def test_a_folder_of_images_is_refused_with_the_trainer_that_reads_it(place: Callable[..., Ranks]) -> None:
    here = place()
    (here.folders.data / "train/cat").mkdir()
    (here.folders.data / "train/cat/1.jpg").write_bytes(b"jpeg")
    with pytest.raises(
        ImageRecordError, match="Channel train is a folder of images, but the trainer for PyTorch reads"
    ):
        TrainingImages(config(), here)


def test_validation_images_among_the_training_images_are_refused(place: Callable[..., Ranks]) -> None:
    here = place()
    (here.folders.data / "train/validation-00000-of-00001").write_bytes(b"x")
    with pytest.raises(ShardError):
        TrainingImages(config(), here)


def test_a_corrupt_file_fails_in_one_sentence(place: Callable[..., Ranks]) -> None:
    here = place()
    path = here.folders.data / "train/train-00001-of-00003"
    path.write_bytes(path.read_bytes()[:-2] + b"xx")
    with pytest.raises(StreamError) as error:
        list(TrainingImages(config(), here).epoch(0))
    assert str(error.value).startswith("Channel train: ")
    assert "\n" not in str(error.value)


GREY = torch.full((3, 8, 8), 7, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (b"", "must have one image in the feature image/encoded and one label in image/class/label"),
        (b"\xff", "is not a tf.train.Example"),
        (b"some text", "is not a tf.train.Example"),
        (example(GREY, 200), "has the label 200, which must be from 0 to 199"),
        (example(GREY, 5).replace(b"PNG", b"GNP"), "bytes that cannot be decoded: "),
        (example(GREY, 5).replace(b"image/class/label", b"image/class/other"), "image/class/other"),
    ],
)
def test_an_invalid_record_is_explained(place: Callable[..., Ranks], record: bytes, sentence: str) -> None:
    with pytest.raises(ExampleError) as error:
        decoded(record, config(), None)
    assert sentence in str(error.value)
    here = place()
    write_file(here.folders.data / "train/train-00003-of-00003", [record] * 40)
    with pytest.raises(ImageRecordError) as of_channel:
        list(TrainingImages(config(), here).epoch(0))
    assert str(of_channel.value) == f"Channel train: a record {error.value}."


def test_negative_labels_and_unknown_features_are_read() -> None:
    encoded = part_of(1, part_of(1, b"jpeg"))
    label = part_of(3, part_of(1, varint((1 << 64) - 3)))
    floats = part_of(2, part_of(1, b"\0\0\0\0"))
    entries = [(b"image/encoded", encoded), (b"image/class/label", label), (b"image/weight", floats)]
    record = part_of(1, b"".join(part_of(1, part_of(1, name) + part_of(2, feature)) for name, feature in entries))
    assert image_and_label(record) == (b"jpeg", -3)


def labelled(encoded: bytes) -> bytes:
    """Return the record of an encoded image whose label is 1."""
    image, label = part_of(1, part_of(1, encoded)), part_of(3, part_of(1, varint(1)))
    features = {b"image/encoded": image, b"image/class/label": label}
    entries = [part_of(1, name) + part_of(2, value) for name, value in features.items()]
    return part_of(1, b"".join(part_of(1, entry) for entry in entries))


def png_of_16_bits(shades: list[int]) -> bytes:
    """Return a grey PNG with as many rows as columns, of which each has one shade."""
    row = b"\0" + struct.pack(f">{len(shades)}H", *shades)
    header = struct.pack(">IIBBBBB", len(shades), len(shades), 16, 0, 0, 0, 0)
    chunks = {b"IHDR": header, b"IDAT": zlib.compress(row * len(shades)), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks.items()
    )


@pytest.mark.parametrize("augmentation", ["none", "crop_and_flip", "affine"])
def test_a_png_of_16_bits_has_its_high_bytes_as_with_tensorflow(augmentation: str) -> None:
    """TensorFlow 2.15's tf.io.decode_image returns the expected numbers for the same bytes."""
    record = labelled(png_of_16_bits([0, 0x00FF, 0x0100, 0x7FFF, 0x80FF, 0xFF80, 0xFFFF, 0x8000]))
    assert decoded(record, config(), None)[0][0, 0].tolist() == [0, 0, 1, 127, 128, 255, 255, 128]
    for seed in range(4):
        assert decoded(record, config(augmentation=augmentation), random.Random(seed))[0].dtype == torch.uint8


def test_pixels_of_another_type_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "decode_image", lambda *_, **__: torch.zeros(3, 8, 8))
    with pytest.raises(ExampleError, match=r"with pixels of torch\.float32, which must be"):
        decoded(example(GREY, 5), config(), None)


def test_a_crop_is_repeated_by_its_seed_and_a_validation_image_is_its_middle() -> None:
    ramp = torch.arange(256, dtype=torch.uint8).expand(3, 320, -1).contiguous()
    jpeg = encode_jpeg(ramp, quality=95).numpy().tobytes()
    record, settings = labelled(jpeg), config(augmentation="crop_and_flip", image_size=32)
    crops = [decoded(record, settings, random.Random(seed))[0] for seed in (1, 1, *range(2, 40))]
    assert torch.equal(crops[0], crops[1])
    assert all(crop.shape == (3, 32, 32) and crop.dtype == torch.uint8 for crop in crops)
    rising = [bool(crop[0, 16, -1] > crop[0, 16, 0]) for crop in crops]
    assert 8 < sum(rising) < 32  # about half of them are mirrored
    middle = decoded(record, settings, None)[0][0, 16]
    assert (middle[0] > 14, middle[-1] < 241) == (True, True)  # 224 of 256 columns
    assert middle[0] < 24
