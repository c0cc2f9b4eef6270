"""Rank manifests: shards are balanced, and repeated or concurrent writers write the same content."""

import json
from collections.abc import Iterator
from typing import Any

import botocore.client
import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sample_deployment import ACCOUNT
from traingrid.aws.clients import client
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.backends.base import LaunchError
from traingrid.backends.sagemaker import creation
from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.grid.deployment import Deployment
from traingrid.job.data_layout import layout_of
from traingrid.job.failures import DATA, LINE_IS_WRONG, PERMISSION, THROTTLED, Failure
from traingrid.job.job import Channel, Job
from traingrid.job.rank_manifests import TooFewObjectsError, data_objects, shares_by_bytes, write_rank_manifests
from training_container.trainer.data.shards import balanced

NAME = "traingrid-0123abcd-0-1"
BUCKET = f"traingrid-output-{ACCOUNT}-us-east-1"
FOLDER = f"0123abcd/0/{NAME}/input/"
SIZES = {"a b+c": 5, "b/part-1": 9, "b/part-2": 9, "c": 1, "d": 6, "ü": 2}


@pytest.fixture
def s3(aws: None) -> Any:
    """The data of the job `streams`, and an output bucket."""
    found = client("s3", "us-east-1")
    for bucket in ("ragab-ml", BUCKET):
        found.create_bucket(Bucket=bucket)
    for name, size in SIZES.items():
        found.put_object(Bucket="ragab-ml", Key=f"x/train/{name}", Body=b"." * size)
    hidden = (
        "_SUCCESS",
        "b/.part-3.crc",
        "_temporary/0/task_1/part-0",
        "b/_delta_log/0.json",
        "c/.hoodie/1/x",
        "dataset.json",
    )
    for name, size in {"": 0, "sub/": 0, "empty": 0, **dict.fromkeys(hidden, 3)}.items():
        found.put_object(Bucket="ragab-ml", Key=f"x/train/{name}", Body=b"." * size)
    found.put_object(Bucket="ragab-ml", Key="x/train-other/a", Body=b"a")
    return found


@pytest.fixture
def streams(job: Job) -> Job:
    """A job of three ranks with one stream per rank."""
    train = Channel(uri="s3://ragab-ml/x/train/", input_mode="Pipe")
    words = Channel(uri="s3://ragab-ml/x/words/")
    return job.model_copy(
        update={"inputs": {"train": train, "words": words}, "streams": "rank", "processes_per_host": 3}
    )


def written(s3: Any) -> dict[str, Any]:
    """Return the objects in the output bucket, by their keys below the job's folder."""
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    assert all(key.startswith(FOLDER) for key in keys)
    return {key.removeprefix(FOLDER): json.loads(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()) for key in keys}


@given(st.dictionaries(st.text(min_size=1, max_size=4), st.integers(1, 100), min_size=1), st.integers(1, 9))
def test_each_object_has_one_rank_and_shards_are_balanced(sizes: dict[str, int], ranks: int) -> None:
    shares = shares_by_bytes(sizes, ranks)
    assert sorted(key for share in shares for key in share) == sorted(sizes)
    assert all(share == sorted(share) for share in shares)
    fullest = max(sum(sizes[key] for key in share) for share in shares)
    # Graham's bound, relative to a lower bound of the optimum.
    least = max(*sizes.values(), sum(sizes.values()) / ranks)
    assert fullest <= (2 - 1 / ranks) * least


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 9))
def test_the_trainer_deals_files_by_the_same_rule(sizes: list[int], ranks: int) -> None:
    by_key = {f"{number:03d}": size for number, size in enumerate(sizes)}
    assert [[int(key) for key in share] for share in shares_by_bytes(by_key, ranks)] == balanced(sizes, ranks)


def test_each_rank_gets_a_manifest_file_of_objects_with_data_in_them(s3: Any, streams: Job) -> None:
    write_rank_manifests(Storage("us-east-1"), streams, NAME)
    start = {"prefix": "s3://ragab-ml/x/train/"}
    shares = [[start, "b/part-1", "ü"], [start, "b/part-2", "c"], [start, "a b+c", "d"]]
    assert written(s3) == {
        "train.shares.manifest": shares,
        **{f"train_{rank}.manifest": share for rank, share in enumerate(shares)},
    }


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_folder_that_a_line_names_is_not_hidden(s3: Any, slash: str) -> None:
    keys = ["x/_raw/_day=3/part-0", "x/_raw/part-0"]
    for key in (*keys, "x/_raw/_temporary/part-0"):
        s3.put_object(Bucket="ragab-ml", Key=key, Body=b"a")
    found = data_objects(Storage("us-east-1"), S3Uri("ragab-ml", f"x/_raw{slash}"))
    assert [key for key, _ in found] == keys


def test_a_prefix_that_is_not_a_folder_lists_the_same_objects(s3: Any, streams: Job) -> None:
    part = streams.inputs["train"].model_copy(update={"uri": "s3://ragab-ml/x/train/b/part"})
    job = streams.model_copy(update={"inputs": {"train": part}, "processes_per_host": 2})
    write_rank_manifests(Storage("us-east-1"), job, NAME)
    start = {"prefix": "s3://ragab-ml/x/train/b/"}
    assert written(s3)["train.shares.manifest"] == [[start, "part-1"], [start, "part-2"]]


def test_the_first_shards_remain_when_the_data_changes(s3: Any, streams: Job) -> None:
    write_rank_manifests(Storage("us-east-1"), streams, NAME)
    before = written(s3)
    s3.put_object(Bucket="ragab-ml", Key="x/train/new", Body=b"." * 50)
    s3.delete_object(Bucket=BUCKET, Key=f"{FOLDER}train_1.manifest")
    write_rank_manifests(Storage("us-east-1"), streams, NAME)
    assert written(s3) == before


def test_another_attempt_lists_the_objects_again(s3: Any, streams: Job) -> None:
    write_rank_manifests(Storage("us-east-1"), streams, NAME)
    s3.put_object(Bucket="ragab-ml", Key="x/train/new", Body=b"." * 50)
    again = NAME[:-1] + "2"
    write_rank_manifests(Storage("us-east-1"), streams, again)
    key = FOLDER.replace(NAME, again) + "train_0.manifest"
    assert json.loads(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())[1:] == ["new"]


class KilledError(BaseException):
    """Simulates SIGKILL."""


def test_kills_at_every_call_and_changing_data_keep_shards_consistent(
    s3: Any, streams: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is killed before and after every call; the data changes between two runs."""
    api: Any = botocore.client.BaseClient
    original = api._make_api_call
    deaths = 0
    while True:
        steps = iter(range(2 * deaths + 2))

        def call(self: Any, operation: str, arguments: Any, steps: Iterator[int] = steps, die: int = deaths) -> Any:
            if next(steps) == die:
                raise KilledError
            answer = original(self, operation, arguments)
            if next(steps) == die:
                raise KilledError
            return answer

        with monkeypatch.context() as patch:
            patch.setattr(api, "_make_api_call", call)
            try:
                write_rank_manifests(Storage("us-east-1"), streams, NAME)
            except KilledError:
                pass
            else:
                break
        s3.put_object(Bucket="ragab-ml", Key=f"x/train/new-{deaths}", Body=b"." * (50 + deaths))
        deaths += 1
    assert deaths > 5
    found = written(s3)
    shares = found.pop("train.shares.manifest")
    assert found == {f"train_{rank}.manifest": share for rank, share in enumerate(shares)}
    dealt = [key for share in shares for key in share[1:]]
    assert sorted(set(dealt)) == sorted(dealt)
    assert set(SIZES) <= set(dealt)


def test_a_child_uses_the_shards_that_another_child_wrote_first(s3: Any, streams: Job) -> None:
    class Slow(Storage):
        """Lists the objects, and another process writes before it does."""

        overtaken = False

        def write_if_none(self, uri: S3Uri, content: bytes, content_type: str) -> bool:
            if not self.overtaken:
                self.overtaken = True
                s3.put_object(Bucket="ragab-ml", Key="x/train/new", Body=b"." * 50)
                write_rank_manifests(Storage("us-east-1"), streams, NAME)
            return super().write_if_none(uri, content, content_type)

    write_rank_manifests(Slow("us-east-1"), streams, NAME)
    found = written(s3)
    assert any("new" in share for share in found["train.shares.manifest"])
    assert [found[f"train_{rank}.manifest"] for rank in range(3)] == found["train.shares.manifest"]


def test_fewer_objects_than_ranks_are_refused_and_nothing_is_written(s3: Any, streams: Job) -> None:
    many = streams.model_copy(update={"processes_per_host": 7})
    with pytest.raises(TooFewObjectsError) as refused:
        write_rank_manifests(Storage("us-east-1"), many, NAME)
    assert "The channel train" in str(refused.value)
    assert "has 6 objects under s3://ragab-ml/x/train/, fewer than its 7 ranks" in str(refused.value)
    assert "streams host" in refused.value.next_step
    assert written(s3) == {}


def test_the_channels_of_a_flat_folder_are_streamed_to_the_ranks_separately(s3: Any, streams: Job) -> None:
    for number in range(3):
        s3.put_object(Bucket="ragab-ml", Key=f"flat/train-0000{number}-of-00003", Body=b"t")
        s3.put_object(Bucket="ragab-ml", Key=f"flat/validation-0000{number}-of-00003", Body=b"v")
    objects, names = Storage("us-east-1"), ("train", "validation")
    folders = {name: Channel(uri=f"s3://ragab-ml/flat/{name}/", input_mode="Pipe") for name in names}
    inputs = layout_of(objects, S3Uri("ragab-ml", "flat"), names).inputs(folders)
    write_rank_manifests(objects, streams.model_copy(update={"inputs": inputs}), NAME)
    assert {name: entries for name, entries in written(s3).items() if "shares" not in name} == {
        f"{name}_{rank}.manifest": [{"prefix": "s3://ragab-ml/flat/"}, f"{name}-0000{rank}-of-00003"]
        for name in names
        for rank in range(3)
    }


class NoTrainingJobs:
    """SageMaker without training jobs; it stores created ones."""

    def __init__(self, s3: Any) -> None:
        self.s3 = s3
        self.created: list[dict[str, Any]] = []

    def describe_training_job(self, **_: str) -> None:
        raise ClientError({"Error": {"Code": "ValidationException"}}, "DescribeTrainingJob")

    def create_training_job(self, **request: Any) -> None:
        for channel in request["InputDataConfig"]:
            source = channel["DataSource"]["S3DataSource"]
            if source["S3DataType"] == "ManifestFile":
                uri = S3Uri.parse(source["S3Uri"])
                self.s3.head_object(Bucket=uri.bucket, Key=uri.key)
        self.created.append(request)


def backend(deployment: Deployment, service: NoTrainingJobs) -> SageMaker:
    return SageMaker(deployment, "us-east-1", lambda *_: service, lambda *_: service)


def test_manifest_files_exist_when_the_training_job_is_created(s3: Any, streams: Job, deployment: Deployment) -> None:
    service = NoTrainingJobs(s3)
    assert backend(deployment, service).start(NAME, streams, {}) is None
    (request,) = service.created
    assert [channel["ChannelName"] for channel in request["InputDataConfig"]] == [
        "train_0",
        "train_1",
        "train_2",
        "words",
    ]


def test_a_job_without_rank_streams_makes_no_s3_calls(aws: None, job: Job, deployment: Deployment) -> None:
    """The account has no bucket."""
    host = job.model_copy(update={"inputs": {"train": Channel(uri="s3://ragab-ml/x/", input_mode="Pipe")}})
    service = NoTrainingJobs(None)
    assert backend(deployment, service).start(NAME, host, {}) is None


def test_too_few_objects_fail_the_line_as_wrong_data(s3: Any, streams: Job, deployment: Deployment) -> None:
    service = NoTrainingJobs(s3)
    many = streams.model_copy(update={"processes_per_host": 7})
    with pytest.raises(LaunchError, match="Split the data into more objects") as refused:
        backend(deployment, service).start(NAME, many, {})
    assert (refused.value.failure, refused.value.failure.exit_code) == (DATA, LINE_IS_WRONG)
    assert not service.created


def test_a_missing_bucket_is_wrong_data(s3: Any, streams: Job, deployment: Deployment) -> None:
    gone = {"train": Channel(uri="s3://nobodys/x/", input_mode="Pipe")}
    with pytest.raises(LaunchError, match="NoSuchBucket") as refused:
        backend(deployment, NoTrainingJobs(s3)).start(NAME, streams.model_copy(update={"inputs": gone}), {})
    assert refused.value.failure is DATA


@pytest.mark.parametrize(
    ("answer", "meaning"), [(("AccessDenied", 403), (PERMISSION, False)), (("SlowDown", 503), (THROTTLED, True))]
)
def test_refusals_by_s3_are_distinguished_from_outages(
    s3: Any,
    streams: Job,
    *,
    deployment: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    answer: tuple[str, int],
    meaning: tuple[Failure, bool],
) -> None:
    class Refusing(Storage):
        def sizes(self, prefix: S3Uri) -> Iterator[tuple[str, int]]:
            reply: Any = {"Error": {"Code": answer[0]}, "ResponseMetadata": {"HTTPStatusCode": answer[1]}}
            raise ClientError(reply, "ListObjectsV2")

    monkeypatch.setattr(creation, "Storage", Refusing)
    made = backend(deployment, NoTrainingJobs(s3))
    with pytest.raises(LaunchError) as refused:
        made.start(NAME, streams, {})
    assert (refused.value.failure, refused.value.unresolved) == meaning
