"""Folder channels: a child finds the channels of its folder once, and a folder without certain ones fails its line."""

from functools import partial
from typing import Any

import pytest

from tests.support.refused_calls import refuse
from tests.support.sample_deployment import ACCOUNT, sample_deployment
from tests.support.supervised_job import known, supervisor
from tests.support.training_jobs import COMPLETED, TRAINING, FakeBackend
from traingrid.aws.clients import client
from traingrid.child.folder_channels import with_folder_channels
from traingrid.child.supervisor import Supervisor
from traingrid.job.job import Channel, Job
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.user_requests import CANCEL_ALL

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


def child_of(job: Job, ledger: Ledger) -> tuple[Started, Supervisor]:
    backend = Started(TRAINING, COMPLETED)
    inputs = {name: Channel(uri=f"s3://ragab-ml/x/{name}/") for name in ("train", "validation")}
    folder_job = job.model_copy(
        update={"inputs": inputs, "by_layout": True, "output": f"s3://{OUTPUT}/0123abcd/0/", "replicas": {}}
    )
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
