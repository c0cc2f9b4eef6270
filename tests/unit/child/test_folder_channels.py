"""Folder channels: a child finds the channels of its folder once, and a folder without certain ones fails its line."""

from functools import partial
from typing import Any

import pytest

from tests.support.ledger_items import job_key
from tests.support.refused_calls import refuse
from tests.support.sample_deployment import ACCOUNT, sample_deployment
from tests.support.supervised_job import known, supervisor
from tests.support.training_jobs import COMPLETED, TRAINING, FakeBackend
from traingrid.aws.clients import client
from traingrid.child.folder_channels import with_folder_channels
from traingrid.child.supervisor import Supervisor
from traingrid.job import data_layout
from traingrid.job.job import Channel, Job
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.user_requests import CANCEL_ALL
from training_container.trainer.data import shards

OUTPUT = f"traingrid-output-{ACCOUNT}-us-east-1"


class Started(FakeBackend):
    """A service that keeps the channels of the training job that it started."""

    inputs: dict[str, str]

    def start(self, name: str, job: Job, tags: dict[str, str]) -> Any:
        self.inputs = {channel: source.uri for channel, source in job.inputs.items()}
        return super().start(name, job, tags)


@pytest.fixture
def s3(aws: None) -> Any:
    s3 = client("s3", "us-east-1")
    for bucket in ("ragab-ml", OUTPUT):
        s3.create_bucket(Bucket=bucket)
    return s3


def upload(s3: Any, *keys: str) -> None:
    for key in keys:
        s3.put_object(Bucket="ragab-ml", Key=f"x/{key}", Body=b"x")


def child_of(job: Job, ledger: Ledger, mode: str = "File", **fields: Any) -> tuple[Started, Supervisor]:
    backend = Started(TRAINING, COMPLETED)
    inputs = {name: Channel(uri=f"s3://ragab-ml/x/{name}/", input_mode=mode) for name in ("train", "validation")}  # type: ignore[arg-type]  # a mode of Channel
    own = {"inputs": inputs, "by_layout": True, "output": f"s3://{OUTPUT}/0123abcd/0/", "replicas": {}}
    folder_job = job.model_copy(update=own | fields)
    find = partial(with_folder_channels, deployment=sample_deployment())
    return backend, supervisor(folder_job, backend, ledger, find_channels=find)


def test_a_training_job_has_the_channels_of_its_folder(s3: Any, job: Job, ledger: Ledger) -> None:
    upload(s3, "train-0", "validation-0")
    backend, child = child_of(job, ledger)
    assert child.run().state == JobState.COMPLETED
    assert backend.inputs == {"train": "s3://ragab-ml/x/train-", "validation": "s3://ragab-ml/x/validation-"}


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (("train/a", "validation-0"), "its channels are not certain"),
        (("_SUCCESS",), "no data found under s3://ragab-ml/x/"),
    ],
)
def test_a_folder_without_certain_channels_fails_the_line(
    s3: Any, job: Job, ledger: Ledger, keys: tuple[str, ...], reason: str
) -> None:
    upload(s3, *keys)
    backend, child = child_of(job, ledger)
    item = child.run()
    assert (item.state, item.failure) == (JobState.FAILED, "data")
    assert reason in item.reason
    assert not hasattr(backend, "inputs")


def test_a_cancelled_line_is_stopped_whatever_its_folder_has(s3: Any, job: Job, ledger: Ledger) -> None:
    _, child = child_of(job, ledger)
    ledger.open_job("0123abcd", job)
    ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    child.run()
    assert known(ledger).state == JobState.STOPPED


def test_a_folder_that_may_not_be_listed_has_folders_as_channels(
    s3: Any, job: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "ListObjectsV2")
    backend, child = child_of(job, ledger)
    assert child.run().state == JobState.COMPLETED
    assert backend.inputs == {"train": "s3://ragab-ml/x/train/", "validation": "s3://ragab-ml/x/validation/"}


def test_a_missing_output_bucket_fails_the_line(s3: Any, job: Job, ledger: Ledger) -> None:
    upload(s3, "a.csv")
    s3.delete_bucket(Bucket=OUTPUT)
    _, child = child_of(job, ledger)
    item = child.run()
    assert (item.state, item.failure) == (JobState.FAILED, "data")
    assert "NoSuchBucket" in item.reason


STREAM_OF_ALL = {"inputs": {"train": Channel(uri="s3://ragab-ml/x/", input_mode="Pipe")}, "by_layout": False}


@pytest.mark.parametrize(
    ("keys", "fields"),
    [
        (("train-0", "validation-0"), STREAM_OF_ALL),
        (("Train/a", "val/a"), STREAM_OF_ALL),
        (("train-0", "val-0"), {}),
    ],
    ids=["files in the channel train", "folders in the channel train", "a folder without the channel validation"],
)
def test_a_stream_of_files_for_training_and_validation_fails_the_line(
    s3: Any, job: Job, ledger: Ledger, keys: tuple[str, ...], fields: dict[str, Any]
) -> None:
    upload(s3, *keys)
    backend, child = child_of(job, ledger, "Pipe", **fields)
    item = child.run()
    assert (item.state, item.failure) == (JobState.FAILED, "data")
    assert "The channel train would stream all of s3://ragab-ml/x/, such as " in item.reason
    assert not hasattr(backend, "inputs")


@pytest.mark.parametrize(
    ("keys", "fields"),
    [
        (("train-0", "validation-0"), {}),
        (("train-0", "labels.txt"), STREAM_OF_ALL),
        (("train-0", "validation-0"), {**STREAM_OF_ALL, "source": "s3://ragab-ml/code.tar.gz"}),
    ],
    ids=["flat folder", "files of one kind", "script"],
)
def test_a_stream_of_training_data_only_and_that_of_a_script_train(
    s3: Any, job: Job, ledger: Ledger, keys: tuple[str, ...], fields: dict[str, Any]
) -> None:
    upload(s3, *keys)
    backend, child = child_of(job, ledger, "Pipe", **fields)
    assert child.run().state == JobState.COMPLETED
    expected = {"train": "s3://ragab-ml/x/"}
    if not fields:
        expected = {"train": "s3://ragab-ml/x/train-", "validation": "s3://ragab-ml/x/validation-"}
    assert backend.inputs == expected


def test_a_stream_that_may_not_be_listed_is_not_checked(
    s3: Any, job: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "ListObjectsV2")
    _, child = child_of(job, ledger, "Pipe", **STREAM_OF_ALL)
    assert child.run().state == JobState.COMPLETED


def test_a_folder_that_changes_after_the_request_does_not_fail_the_training(s3: Any, job: Job, ledger: Ledger) -> None:
    upload(s3, "train-0", "validation-0")
    _, child = child_of(job, ledger, "Pipe", **STREAM_OF_ALL)
    ledger.open_job("0123abcd", child.job)
    assert ledger.record_job(job_key(), {"phase": "Creating"}, opens="request")
    assert child.run().state == JobState.COMPLETED


def test_the_trainer_distinguishes_files_by_the_same_rule() -> None:
    assert data_layout._KIND == shards._KIND
