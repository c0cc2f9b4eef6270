"""`traingrid data index`, with moto's S3."""

import json
import threading
from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result

from tests.unit.datasets.test_record_index import tfrecords
from traingrid.aws import s3_ranges
from traingrid.cli.main import cli
from traingrid.deploy.prices import GET_REQUEST, PUT_REQUEST
from traingrid.errors import UsageError

FOLDER = "s3://campaigns/imagenet/train"


@pytest.fixture
def s3(aws: None) -> Any:
    found = boto3.client("s3", "us-west-2")
    found.create_bucket(Bucket="campaigns", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    for number in range(3):
        put(found, f"train-{number}", tfrecords(*[100_000] * (number + 1)))
    put(found, ".marker", b"x")
    return found


def put(s3: Any, name: str, content: bytes) -> None:
    s3.put_object(Bucket="campaigns", Key=f"imagenet/train/{name}", Body=content)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["data", "index", *words])


def rows(*words: str) -> Any:
    return json.loads(run(*words, "--output", "json").stdout)


def stored(s3: Any) -> dict[str, Any]:
    content = s3.get_object(Bucket="campaigns", Key="imagenet/train/_records.json")["Body"].read()
    return dict(json.loads(content)["files"])


def test_the_index_is_written_beside_the_data(s3: Any) -> None:
    output = run(FOLDER).stdout
    assert output.startswith(f"{FOLDER}: 3 files, 600 kB, 6 records; 8 requests, 197 kB, less than $0.01.")
    assert output.endswith(f"{FOLDER}/_records.json is written.\n")
    entries = stored(s3)
    assert {name: entry["records"] for name, entry in entries.items()} == {f"train-{n}": n + 1 for n in range(3)}
    assert entries["train-2"]["starts"] == [0, 100_016, 200_032]


def test_only_replaced_files_are_read_again(s3: Any) -> None:
    run(FOLDER)
    (row,) = rows(FOLDER)
    assert (row["result"], row["counted"], row["records"], row["read_bytes"]) == ("current", 0, 6, 0)
    put(s3, "train-0", tfrecords(5, 6, 7, 8))
    s3.delete_object(Bucket="campaigns", Key="imagenet/train/train-1")
    (row,) = rows(FOLDER)
    assert (row["result"], row["counted"], row["records"]) == ("written", 1, 7)
    assert set(stored(s3)) == {"train-0", "train-2"}


def test_a_plan_states_requests_bytes_and_dollars_and_writes_nothing(s3: Any) -> None:
    (row,) = rows(FOLDER, "--plan")
    assert (row["result"], row["records"], row["files"], row["counted"]) == ("planned", None, 3, 3)
    assert row["requests"] == pytest.approx(8, abs=1)
    gets = row["requests"] - 2
    assert row["dollars"] == pytest.approx(gets * GET_REQUEST.dollars + 2 * PUT_REQUEST.dollars)
    assert "Nothing was written." in run(FOLDER, "--plan").stdout
    with pytest.raises(s3.exceptions.NoSuchKey):
        stored(s3)


def test_a_long_count_reports_its_progress_and_a_short_one_does_not(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(FOLDER).stderr == ""
    for number in range(3):
        put(s3, f"train-{number}", tfrecords(1, 2))
    monkeypatch.setattr("traingrid.cli.record_index._REPORT_SECONDS", -1.0)
    assert run(FOLDER).stderr.splitlines() == [f"{number} of 3 files are counted." for number in (1, 2, 3)]


@pytest.mark.parametrize("plan", [[], ["--plan"]])
def test_a_folder_of_other_files_is_refused_and_no_index_is_written(s3: Any, plan: list[str]) -> None:
    put(s3, "a.jpg", b"\xff\xd8\xff\xe0 a JPEG image")
    result = run(FOLDER, *plan)
    assert isinstance(result.exception, UsageError)
    assert result.exception.what == f"{FOLDER}/a.jpg is not a TFRecord file: it does not begin with a record."
    with pytest.raises(s3.exceptions.NoSuchKey):
        stored(s3)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("imagenet/train", "Invalid URI: the URI must start with s3://."),
        ("s3://campaigns/nothing", "s3://campaigns/nothing has no data."),
        ("s3://no-such-bucket/train", "s3://no-such-bucket/train cannot be listed: NoSuchBucket"),
    ],
)
def test_a_folder_that_does_not_exist_is_refused(s3: Any, uri: str, words: str) -> None:
    error = run(uri).exception
    assert isinstance(error, UsageError)
    assert error.what.startswith(words)


def test_a_file_that_is_replaced_meanwhile_is_not_counted(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read, lock, once = s3_ranges.Ranges.read, threading.Lock(), [b"other"]

    def replaced(self: s3_ranges.Ranges, *request: Any) -> bytes:
        with lock:  # moto closes a file that it replaces, so no other thread may read it
            if once:
                put(s3, "train-0", once.pop())
        return read(self, *request)

    monkeypatch.setattr(s3_ranges.Ranges, "read", replaced)
    error = run(FOLDER).exception
    assert isinstance(error, UsageError)
    assert "was replaced or deleted while it was read" in error.what
