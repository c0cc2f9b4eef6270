"""Pipe mode: a process reads its channels from FIFOs, as a training job does on SageMaker."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from localcloud.sagemaker.pipe import epoch_order
from localcloud.sagemaker.pipe_items import Item
from localcloud.sagemaker.request import Channel, S3Uri
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import wait_until
from tests.integration.localcloud.training_side import SageMaker, refusal

# Waits for a FIFO, which may not exist yet, and returns its content.
READ = """
import json, os, pathlib, time
base = pathlib.Path(os.environ['SAGEMAKER_BASE_DIR'])
host = json.loads((base / 'input/config/resourceconfig.json').read_text())['current_host']

def waited(name):
    path = base / 'input/data' / name
    while not path.exists():
        time.sleep(0.01)
    return path

def read(name):
    with waited(name).open('rb') as fifo:
        return fifo.read().decode()
"""
KEYS = [f"many/{number:02d}" for number in range(8)]


@pytest.fixture(scope="module")
def sagemaker(cloud: LocalCloud, client: Callable[..., Any]) -> SageMaker:
    made = SageMaker(client)
    for key in KEYS:
        made.put(key, key[-2:] + " ")
    made.put("parts.json", json.dumps([{"prefix": f"s3://{made.bucket}/many/"}, "05", "00", "03"]))
    made.put("gone.json", json.dumps([{"prefix": f"s3://{made.bucket}/many/"}, "05", "99"]))
    made.put("large/a", "x" * 3_000_000)
    lines = [{"ignored": 0, "text-ref": f"s3://{made.bucket}/{key}", "label": {"n": int(key[-2:])}} for key in KEYS]
    made.put("augmented.jsonl", "\n".join(map(json.dumps, lines)) + "\n")
    made.put("incomplete.jsonl", json.dumps({"label": 1}))
    return made


def piped(sagemaker: SageMaker, name: str = "train", key: str = "many/", **more: Any) -> dict[str, Any]:
    source = {field: more.pop(field) for field in ("S3DataType", "S3DataDistributionType") if field in more}
    channel = sagemaker.channel(name, f"s3://{sagemaker.bucket}/{key}", **source)
    return {**channel, "InputMode": "Pipe", **more}


def output_of(sagemaker: SageMaker, code: str, *channels: dict[str, Any], hosts: int = 1) -> list[list[str]]:
    """Run a program that reads FIFOs, and return its output on each host."""
    job = sagemaker.run(READ + code, hosts, InputDataConfig=list(channels))
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    return [sagemaker.lines(job, host) for host in range(1, hosts + 1)]


def test_each_epoch_streams_all_objects_in_key_order(
    sagemaker: SageMaker,
) -> None:
    ((first, second),) = output_of(sagemaker, "print(read('train_0')); print(read('train_1'))", piped(sagemaker))
    assert first.split() == second.split() == [key[-2:] for key in KEYS]


def test_pipe_channels_are_not_downloaded_and_configured_as_pipe(sagemaker: SageMaker) -> None:
    code = """
print(sorted(path.name for path in (base / 'input/data').iterdir()))
print((base / 'input/config/inputdataconfig.json').read_text())
"""
    files = sagemaker.channel("extra")
    ((found, configured),) = output_of(sagemaker, code, piped(sagemaker), files)
    assert found == "['extra', 'train_0']"
    assert {name: entry["TrainingInputMode"] for name, entry in json.loads(configured).items()} == {
        "train": "Pipe",
        "extra": "File",
    }


def test_a_channel_without_a_mode_has_the_jobs_mode(sagemaker: SageMaker) -> None:
    request = sagemaker.request(READ + "print(read('train_0'))")
    request["AlgorithmSpecification"]["TrainingInputMode"] = "Pipe"
    sagemaker.api.create_training_job(**request)
    assert sagemaker.lines(sagemaker.ended(request["TrainingJobName"])) == ["AC"]


def test_a_manifest_file_defines_the_objects_and_their_order(sagemaker: SageMaker) -> None:
    channel = piped(sagemaker, key="parts.json", S3DataType="ManifestFile")
    assert output_of(sagemaker, "print(read('train_0'))", channel) == [["05 00 03 "]]


def test_hosts_share_sharded_channels_and_get_other_channels_completely(sagemaker: SageMaker) -> None:
    sharded = piped(sagemaker, S3DataDistributionType="ShardedByS3Key")
    (one, two) = output_of(
        sagemaker, "print(read('train_0')); print(read('all_0'))", sharded, piped(sagemaker, "all"), hosts=2
    )
    assert [one[0].split(), two[0].split()] == [["00", "02", "04", "06"], ["01", "03", "05", "07"]]
    assert one[1] == two[1]


def test_each_epoch_has_a_different_order_determined_by_the_seed(sagemaker: SageMaker) -> None:
    code = "print(read('train_0')); print(read('train_1'))"
    ((first, second),) = output_of(sagemaker, code, piped(sagemaker, ShuffleConfig={"Seed": 7}))
    assert first != second
    assert sorted(first.split()) == sorted(second.split()) == [key[-2:] for key in KEYS]
    assert output_of(sagemaker, code, piped(sagemaker, ShuffleConfig={"Seed": 7})) == [[first, second]]
    assert output_of(sagemaker, code, piped(sagemaker, ShuffleConfig={"Seed": 8})) != [[first, second]]


def test_shuffled_shards_change_hosts_and_no_object_is_read_twice() -> None:
    channel = Channel(
        name="train",
        uri="s3://b/p",
        data_type="S3Prefix",
        sharded=True,
        content_type=None,
        record_wrapper="None",
        piped=True,
        shuffle_seed=3,
    )
    order: list[Item] = [(S3Uri(bucket="b", key=key),) for key in KEYS]
    epochs = [[epoch_order(channel, order, epoch, host, 2) for host in (0, 1)] for epoch in (0, 1)]
    assert all(sorted(one + two, key=repr) == order for one, two in epochs)
    assert sorted(epochs[0][0], key=repr) != sorted(epochs[1][0], key=repr)


def test_a_reader_that_closes_the_fifo_early_gets_the_next_epoch(sagemaker: SageMaker) -> None:
    code = """
with waited('train_0').open('rb') as fifo:
    print(len(fifo.read(10)))
print(len(read('train_1')))
"""
    assert output_of(sagemaker, code, piped(sagemaker, key="large/")) == [["10", "3000000"]]


def test_the_next_fifo_appears_after_the_previous_one_was_read(sagemaker: SageMaker) -> None:
    code = """
fifo = waited('train_0').open('rb', buffering=0)  # unread bytes stay in the pipe
print(fifo.read(3))
print((base / 'input/data/train_1').exists())
while fifo.read(100):
    pass
waited('train_1')
"""
    assert output_of(sagemaker, code, piped(sagemaker)) == [["b'00 '", "False"]]


def test_a_host_without_objects_reads_an_empty_stream(sagemaker: SageMaker) -> None:
    channel = piped(sagemaker, key="many/00", S3DataDistributionType="ShardedByS3Key")
    assert output_of(sagemaker, "print(repr(read('train_0')))", channel, hosts=2) == [["'00 '"], ["''"]]


def test_a_job_with_an_unread_channel_ends_and_can_be_stopped(sagemaker: SageMaker) -> None:
    assert output_of(sagemaker, "print('done')", piped(sagemaker)) == [["done"]]
    waiting = READ + "print('up', flush=True); open(waited('train_0'), 'rb'); time.sleep(600)"
    name = sagemaker.waiting(waiting, InputDataConfig=[piped(sagemaker, key="large/")])
    sagemaker.api.stop_training_job(TrainingJobName=name)
    assert sagemaker.ended(name)["TrainingJobStatus"] == "Stopped"


def test_a_missing_object_fails_the_job_and_is_named(sagemaker: SageMaker) -> None:
    channel = piped(sagemaker, key="gone.json", S3DataType="ManifestFile")
    job = sagemaker.run(READ + "read('train_0'); time.sleep(600)", InputDataConfig=[channel])
    assert job["TrainingJobStatus"] == "Failed"
    assert f"Unable to stream s3://{sagemaker.bucket}/many/99" in job["FailureReason"]


def test_no_writer_outlives_its_job(sagemaker: SageMaker) -> None:
    output_of(sagemaker, "read('train_0')", piped(sagemaker), piped(sagemaker, "unread"))
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("pipe-")])


def augmented(sagemaker: SageMaker, *names: str, key: str = "augmented.jsonl", **more: Any) -> dict[str, Any]:
    channel = piped(sagemaker, key=key, S3DataType="AugmentedManifestFile", **more)
    channel["DataSource"]["S3DataSource"]["AttributeNames"] = list(names)
    return channel


def test_recordio_wraps_each_object_in_a_record(sagemaker: SageMaker) -> None:
    code = """
import struct
data = waited('train_0').open('rb').read()
while data:
    mark, length = struct.unpack_from('<II', data)
    print(hex(mark), data[8:8 + length], data[8 + length:8 + length + -length % 4])
    data = data[8 + length + -length % 4:]
"""
    ((first, *others),) = output_of(sagemaker, code, piped(sagemaker, RecordWrapperType="RecordIO"))
    assert first == r"0xced7230a b'00 ' b'\x00'"
    assert len(others) == len(KEYS) - 1


def test_the_attributes_of_an_augmented_manifest_are_streamed_in_their_order(sagemaker: SageMaker) -> None:
    ((found,),) = output_of(sagemaker, "print(read('train_0'))", augmented(sagemaker, "label", "text-ref"))
    assert found == "".join(f'{{"n": {int(key[-2:])}}}{key[-2:]} ' for key in KEYS)


def test_the_lines_of_an_augmented_manifest_are_shuffled_in_each_epoch(sagemaker: SageMaker) -> None:
    channel = augmented(sagemaker, "text-ref", ShuffleConfig={"Seed": 7})
    ((first, second),) = output_of(sagemaker, "print(read('train_0')); print(read('train_1'))", channel)
    assert first != second
    assert sorted(first.split()) == sorted(second.split()) == [key[-2:] for key in KEYS]


def test_a_line_without_a_listed_attribute_fails_the_job(sagemaker: SageMaker) -> None:
    channel = augmented(sagemaker, "label", "text-ref", key="incomplete.jsonl")
    job = sagemaker.run(READ + "read('train_0')", InputDataConfig=[channel])
    assert job["TrainingJobStatus"] == "Failed"
    assert "line 1 of the augmented manifest has no attribute text-ref" in job["FailureReason"]


@pytest.mark.parametrize(
    ("names", "more", "words"),
    [
        ((), {}, "must have AttributeNames with AugmentedManifestFile"),
        (("label",), {"InputMode": "File"}, "has AugmentedManifestFile, which requires Pipe mode"),
    ],
)
def test_an_invalid_augmented_manifest_channel_is_refused(
    sagemaker: SageMaker, names: tuple[str, ...], more: dict[str, str], words: str
) -> None:
    request = sagemaker.request(InputDataConfig=[augmented(sagemaker, *names) | more])
    assert words in refusal(sagemaker, request)


def test_unsupported_streaming_options_are_refused(sagemaker: SageMaker) -> None:
    wrapped = sagemaker.request(InputDataConfig=[sagemaker.channel("train") | {"RecordWrapperType": "RecordIO"}])
    assert "has RecordWrapperType, which requires Pipe mode" in refusal(sagemaker, wrapped)
    packed = sagemaker.request(InputDataConfig=[piped(sagemaker, CompressionType="Gzip")])
    assert "remove CompressionType" in refusal(sagemaker, packed)
