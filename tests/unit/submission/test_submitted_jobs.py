"""Submitted jobs: all readers get the accepted lines, also after another file has replaced them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.recording_queue import RecordingQueue
from tests.support.sample_deployment import SAMPLE
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.ledger.damage import Damaged, intact, readable
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.submission_item import Array, SubmissionItem
from traingrid.submission.files import index_uri, jobs_key
from traingrid.submission.intake import Intake, ManifestVersion
from traingrid.submission.submitted_jobs import last_submitted_job, last_submitted_jobs, submitted_jobs, written_jobs

Readers = dict[str, Callable[[SubmissionItem], Any]]


@pytest.fixture
def submission(deployment: Deployment, storage: Storage, ledger: Ledger) -> str:
    """The sample, submitted by the intake."""
    batch: Any = RecordingQueue()
    uri = S3Uri(deployment.manifest_bucket, "manifests/x.csv")
    source = ManifestVersion(uri=uri, version=storage.write(uri, SAMPLE.encode(), "text/csv"))
    intake = Intake(deployment=deployment, storage=storage, ledger=ledger, batch=batch)
    return str(intake.accept(source, owner="request")["submission"])


@pytest.fixture
def head(submission: str, ledger: Ledger) -> SubmissionItem:
    item = ledger.submission(submission)
    assert item is not None
    return item


@pytest.fixture
def file(deployment: Deployment, submission: str) -> S3Uri:
    return S3Uri(deployment.manifest_bucket, jobs_key(submission))


@pytest.fixture
def damaged() -> list[Damaged]:
    """The parts that the readers of `regions` cannot read."""
    return []


@pytest.fixture
def regions(
    deployment: Deployment, storage: Storage, damaged: list[Damaged]
) -> Callable[[SubmissionItem], Iterator[list[str]]]:
    """A function that yields the Regions of the lines, as each reader of whole files finds them."""
    bucket = deployment.manifest_bucket

    def read(head: SubmissionItem) -> Iterator[list[str]]:
        for jobs in (submitted_jobs(storage, bucket, head), written_jobs(storage, bucket, head)):
            yield [job.region for job in readable(jobs, damaged.append)]
        yield [job.region for job in last_submitted_jobs(storage, bucket, head, damaged.append).values()]

    return read


Regions = Callable[[SubmissionItem], Iterator[list[str]]]
SAMPLE_REGIONS = [line.partition(",")[0] for line in SAMPLE.splitlines() if line.strip()]


def moved(content: bytes) -> bytes:
    return content.replace(b"eu-central-1", b"eu-north-99")


def test_lines_that_replaced_the_accepted_ones_are_not_read(
    storage: Storage, head: SubmissionItem, file: S3Uri, regions: Regions
) -> None:
    before = list(regions(head))
    storage.write(file, moved(storage.read(file)), "application/jsonl")
    assert list(regions(head)) == before
    assert all("eu-central-1" in found for found in before)


def test_lines_of_a_file_that_was_deleted_are_read(
    storage: Storage, head: SubmissionItem, file: S3Uri, regions: Regions
) -> None:
    before = list(regions(head))
    storage._s3.delete_object(Bucket=file.bucket, Key=file.key)
    assert list(regions(head)) == before


def test_a_version_that_was_deleted_for_good_has_no_lines(
    storage: Storage, head: SubmissionItem, file: S3Uri, regions: Regions, damaged: list[Damaged]
) -> None:
    (array,) = head.arrays
    storage.write(file, moved(storage.read(file)), "application/jsonl")
    storage._s3.delete_object(Bucket=file.bucket, Key=file.key, VersionId=array.version)
    assert list(regions(head)) == [[], [], []]
    assert [part.sentence for part in damaged] == [f"{file} does not exist."] * 3
    assert [part.sentence for part in damaged] == [f"{file} does not exist."] * 3


def test_without_a_recorded_version_only_lines_with_the_accepted_hashes_are_read(
    storage: Storage, head: SubmissionItem, file: S3Uri, regions: Regions, damaged: list[Damaged]
) -> None:
    unpinned = SubmissionItem.from_item(stored(head, Array(batch_job="b", file=file.key, count=4)))
    before = list(regions(unpinned))
    storage.write(file, moved(storage.read(file)), "application/jsonl")
    after = list(regions(unpinned))
    assert after == [[region for region in found if region != "eu-central-1"] for found in before]
    assert {part.problem for part in damaged} == {"differs from the submitted line"}


def stored(head: SubmissionItem, array: Array) -> dict[str, Any]:
    return {
        "submission": head.submission,
        "state": head.state,
        "manifest": head.manifest,
        "jobs": head.jobs,
        "claimed_at": head.claimed_at,
        "arrays": [array.entry()],
    }


def test_one_line_is_read_in_its_version_too(
    deployment: Deployment, storage: Storage, ledger: Ledger, head: SubmissionItem, file: S3Uri
) -> None:
    bucket = deployment.manifest_bucket
    job = next(intact(submitted_jobs(storage, bucket, head)))
    item = ledger.open_job(head.submission, job)
    body = storage.read(file).replace(job.region.encode(), b"eu-north-99")
    storage.write(file, body, "application/jsonl")
    assert last_submitted_job(storage, bucket, head, item) == job
    storage.write(index_uri(file), b"\0" * 160, "application/octet-stream")
    with pytest.raises((UsageError, IndexError)):
        last_submitted_job(storage, bucket, head, item)


def test_a_role_that_may_read_only_current_versions_reads_the_accepted_lines(
    storage: Storage, head: SubmissionItem, file: S3Uri, regions: Regions, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, get = list(regions(head)), storage._s3.get_object

    def without_versions(**request: str) -> Any:
        if "VersionId" in request:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "s3:GetObjectVersion"}}, "GetObject")
        return get(**request)

    monkeypatch.setattr(storage._s3, "get_object", without_versions)
    assert list(regions(head)) == before
    storage.write(file, moved(storage.read(file)), "application/jsonl")
    with pytest.raises(ClientError, match="AccessDenied"):
        list(regions(head))
