"""Data layout: the channels of a folder follow from its content, and one rule decides for every reader."""

import json
from typing import Any

import pytest

from tests.support.rows import each_row
from tests.support.sample_deployment import ACCOUNT
from tests.support.sample_job import sample_job
from traingrid.aws.clients import client
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import UsageError
from traingrid.job.data_layout import Layout, LayoutError, agreed_layout, check_formats, check_mounts, layout_of
from traingrid.job.job import Channel, Job

CHANNELS = ("train", "validation")
FOLDER = S3Uri("ragab-ml", "imagenet2012/tf-imagenet/resized")
IMAGENET = [f"train-{n:05d}-of-01024" for n in range(1024)] + [f"validation-{n:05d}-of-00128" for n in range(128)]
NAME = "traingrid-0123abcd-0-1"


class Keys:
    """Keys of a bucket, listed in pages as S3 does."""

    def __init__(self, *keys: str, page: int = 1000) -> None:
        self._keys, self._page = sorted(keys), page
        self.requests = 0

    def entries(self, prefix: S3Uri, token: str = "") -> tuple[list[str], str]:
        """Return a page of entries; the token is the number of its first entry."""
        self.requests += 1
        rest = (key[len(prefix.key) :].partition("/") for key in self._keys if key.startswith(prefix.key))
        entries = list(dict.fromkeys(prefix.key + name + slash for name, slash, _ in rest))
        end = int(token or 0) + self._page
        return entries[int(token or 0) : end], str(end) if len(entries) > end else ""


def keys_in(*names: str) -> Keys:
    return Keys(*(f"{FOLDER.key}/{name}" for name in names))


LAYOUTS: dict[str, tuple[list[str], dict[str, str]]] = {
    "folders": (["train/a", "validation/b"], {"train": "train/", "validation": "validation/"}),
    "folders of classes": (
        ["train/cat/1.jpg", "validation/cat/2.jpg"],
        {"train": "train/", "validation": "validation/"},
    ),
    "the files of build_imagenet_data.py": (IMAGENET, {"train": "train-", "validation": "validation-"}),
    "the same beside other files": ([*IMAGENET, "labels.txt"], {"train": "train-", "validation": "validation-"}),
    "training only, in a folder": (["train/a", "README.md"], {"train": "train/"}),
    "training only, in files": (["train-0", "labels.txt"], {"train": ""}),
    "any files": (["points.csv", "deep/er/points.csv"], {"train": ""}),
    "folders beside files of another name": (
        ["train/a", "validation/b", "test-0"],
        {
            "train": "train/",
            "validation": "validation/",
        },
    ),
    "markers of folders are no data": (["train/", "train/a", "validation/", "validation/x/"], {"train": "train/"}),
    "hidden folders are no data": (["train/a", "validation/_temporary/0/part-0", "validation/.x"], {"train": "train/"}),
    "a marker of a dataset is no data": (
        ["train-0", "validation-0", "dataset.json"],
        {
            "train": "train-",
            "validation": "validation-",
        },
    ),
    "markers of Hadoop are no data": (
        ["train/a", "validation-2020/a", "train_$folder$", "validation-2020_$folder$", "train-2020_$folder$"],
        {"train": "train/"},
    ),
    "any folders with markers of Hadoop": (["2020/a", "validation-2020/a", "validation-2020_$folder$"], {"train": ""}),
    "a partition is data": (["train/_day=3/a"], {"train": "train/"}),
    "a million hidden files before the data": (
        [*(f"train/._{n}" for n in range(3000)), "train/a"],
        {"train": "train/"},
    ),
}


@each_row("row", LAYOUTS.items())
def test_the_channels_of_a_folder_follow_from_its_content(row: tuple[list[str], dict[str, str]]) -> None:
    names, parts = row
    layout = layout_of(keys_in(*names), FOLDER, CHANNELS)
    assert layout == Layout(parts=parts, absent=tuple(name for name in CHANNELS if name not in parts))


def test_folders_that_no_channel_reads_are_named_where_a_channel_is_missing() -> None:
    files = ("train/a", "val/b", "test/c", "empty/", ".git/x", "labels.txt")
    assert str(layout_of(keys_in(*files), FOLDER, CHANNELS)) == (
        "channel train from train/; no validation, because the folder has no data for it; "
        "no channel reads test/ and val/"
    )
    complete = layout_of(keys_in(*files, "validation/d"), FOLDER, CHANNELS)
    assert str(complete) == "channels train from train/ and validation from validation/"


REFUSED = {
    "nothing": ([], "no data found under s3://ragab-ml/imagenet2012/tf-imagenet/resized/. Upload the data"),
    "only hidden files": (["_SUCCESS", "_temporary/0/a", ".git/x", "dataset.json", "train_$folder$"], "no data found"),
    "a folder and files": (["train/a", "validation-0"], "has the folder train/ and files validation-*"),
    "no training folder": (["validation/a"], "has data for validation, but none for train"),
    "no training files": (["validation-0", "other"], "Rename or upload the data for train, or write inputs"),
    "a folder that a prefix matches": (
        ["train-0", "validation-0", "train-old/0"],
        "files train-* and the folder train-old/",
    ),
}


@each_row("row", REFUSED.items())
def test_a_folder_without_certain_channels_is_refused_with_the_next_step(row: tuple[list[str], str]) -> None:
    with pytest.raises(LayoutError) as refused:
        layout_of(keys_in(*row[0]), FOLDER, CHANNELS)
    assert row[1] in str(refused.value)


def test_a_few_listings_decide_for_a_million_files() -> None:
    class Endless(Keys):
        def entries(self, prefix: S3Uri, token: str = "") -> tuple[list[str], str]:
            self.requests += 1
            if not prefix.key.endswith("/"):
                return [], ""
            return ([f"{prefix.key}part-{n}" for n in range(1000)], "next") if prefix.key.count("/") == 3 else ([], "")

    objects = Endless()
    assert layout_of(objects, FOLDER, CHANNELS).parts == {"train": ""}
    assert objects.requests == 5


def test_a_sentence_names_each_channel_and_those_without_data() -> None:
    assert (
        str(layout_of(keys_in(*IMAGENET), FOLDER, CHANNELS))
        == "channels train from train-* and validation from validation-*"
    )
    assert str(layout_of(keys_in("x.csv"), FOLDER, CHANNELS)) == (
        "channel train from all files of the folder; no validation, because the folder has no data for it"
    )


@pytest.fixture
def flat(aws: None, job: Job) -> tuple[Job, Any]:
    """A job whose folder has the files of build_imagenet_data.py, and S3."""
    s3 = client("s3", "us-east-1")
    for bucket in (FOLDER.bucket, f"traingrid-output-{ACCOUNT}-us-east-1"):
        s3.create_bucket(Bucket=bucket)
    for name in ("train-00000-of-00001", "validation-00000-of-00001"):
        s3.put_object(Bucket=FOLDER.bucket, Key=f"{FOLDER.key}/{name}", Body=b"x")
    inputs = {name: Channel(uri=f"{FOLDER}/{name}/", input_mode="FastFile") for name in CHANNELS}
    return job.model_copy(update={"inputs": inputs, "by_layout": True}), s3


def test_a_layout_is_agreed_once_for_a_training_job(flat: tuple[Job, Any]) -> None:
    job, s3 = flat
    storage = Storage("us-east-1")
    layout = agreed_layout(storage, job, NAME, storage)
    assert {name: channel.uri for name, channel in layout.inputs(job.inputs).items()} == {
        "train": f"{FOLDER}/train-",
        "validation": f"{FOLDER}/validation-",
    }
    assert layout.inputs(job.inputs)["train"].input_mode == "FastFile"
    s3.put_object(Bucket=FOLDER.bucket, Key=f"{FOLDER.key}/validation/a", Body=b"x")
    assert agreed_layout(storage, job, NAME, storage) == layout
    with pytest.raises(LayoutError):
        agreed_layout(storage, job, NAME.replace("-0-1", "-0-2"), storage)


def test_an_agreed_layout_that_another_program_wrote_is_refused(flat: tuple[Job, Any]) -> None:
    job, s3 = flat
    bucket = f"traingrid-output-{ACCOUNT}-us-east-1"
    key = S3Uri.parse(job.output).key + f"/{NAME}/input/channels.manifest"
    for content in (b"", b"[]", b"{}", json.dumps({"train": "../other/"}).encode()):
        s3.put_object(Bucket=bucket, Key=key, Body=content)
        with pytest.raises(UsageError, match="Delete it and retry"):
            agreed_layout(Storage("us-east-1"), job, NAME, Storage("us-east-1"))


FORMATS: dict[str, tuple[list[str], str]] = {
    "records of any name": (["train/a", "validation/b-00001.tfrecord"], ""),
    "images": (["train/cat/1.jpg", "validation/cat/2.PNG"], ""),
    "a table": (["train/points.csv", "validation/b"], "train/points.csv"),
    "a table for validation": (["train/a", "validation/deep/er/B.PARQUET"], "validation/deep/er/B.PARQUET"),
    "a table in one folder": (["part-0.csv", "part-1.csv"], "part-0.csv"),
    "a hidden table": (["train/_SUCCESS.txt", "train/a"], ""),
}


@each_row("row", FORMATS.items())
def test_the_built_in_trainer_gets_no_files_of_another_format(row: tuple[list[str], str]) -> None:
    files, refused = row
    objects = keys_in(*files)
    parts = layout_of(objects, FOLDER, CHANNELS).parts
    inputs = {name: Channel(uri=f"{FOLDER}/{part}") for name, part in parts.items()}
    own = sample_job("us-east-1").model_copy(update={"metric_history": True})
    script = own.model_copy(update={"source": "s3://b/source.tar.gz"})
    merge = own.model_copy(update={"hyperparameters": {"sagemaker_image_program": "merge"}})
    for other in (script, merge, sample_job("us-east-1").model_copy(update={"metric_history": False})):
        check_formats(objects, other, inputs)
    if refused:
        with pytest.raises(LayoutError, match=f"{FOLDER}/{refused} is neither a TFRecord file nor an image") as error:
            check_formats(objects, own, inputs)
        assert "source and entry_point" in error.value.next_step
    else:
        check_formats(objects, own, inputs)


@pytest.mark.parametrize("file", ["train/cat/1.JPG", "train/1.jpeg", "validation/a.png", "train/a.bmp", "train/a.gif"])
def test_the_trainer_for_pytorch_gets_no_folders_of_images(file: str) -> None:
    objects = keys_in("train/x", file) if file.startswith("validation") else keys_in(file)
    inputs = {name: Channel(uri=f"{FOLDER}/{name}/") for name in CHANNELS}
    tensorflow = sample_job("us-east-1").model_copy(update={"metric_history": True})
    pytorch = tensorflow.model_copy(update={"launcher": "torchrun"})
    with pytest.raises(LayoutError, match=f"{FOLDER}/{file} is an image, but the trainer for PyTorch") as error:
        check_formats(objects, pytorch, inputs)
    assert "TFRecords" in error.value.next_step
    for other in (tensorflow, pytorch.model_copy(update={"source": "s3://b/source.tar.gz"})):
        check_formats(objects, other, inputs)
    check_formats(keys_in("train/train-0"), pytorch, inputs)


def test_a_cluster_cannot_mount_a_prefix(flat: tuple[Job, Any]) -> None:
    job, _ = flat
    prefixes = Layout(parts={"train": "train-"})
    with pytest.raises(LayoutError, match="Write input_mode File"):
        check_mounts(prefixes, job.inputs, ("sagemaker", "eks"))
    check_mounts(prefixes, job.inputs, ("sagemaker",))
    check_mounts(Layout(parts={"train": ""}), job.inputs, ("eks",))
    downloaded = {"train": job.inputs["train"].model_copy(update={"input_mode": "File"})}
    check_mounts(prefixes, downloaded, ("eks",))
