"""Streams: a line with one stream per rank, whose children are killed around each access to its ManifestFiles."""

import itertools
import json

import pytest

from localcloud.faults.plan import CallFault, FaultPlan
from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.localcloud.compute import ACCOUNT, wait_until
from traingrid import names
from traingrid.audit.audit import audit
from traingrid.audit.read_snapshot import read_world
from traingrid.aws.clients import client
from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.job.state import FINAL_STATES
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

RANKS = 2
# A child's S3 calls, by attempt: two read its line, three read, list and write the shares, the others write the files.
DEATHS = (
    CallFault(effect="kill_after", service="s3", caller="batch/*/1", nth=4, host_lost=False),
    CallFault(effect="kill_after", service="s3", caller="batch/*/2", nth=5, host_lost=False),
    CallFault(effect="kill_before", service="s3", caller="batch/*/3", nth=5, host_lost=False),
    CallFault(effect="kill_after", action="CreateTrainingJob", caller="batch/*/4", host_lost=False),
)


@pytest.fixture(scope="module")
def account(account: Account) -> Account:
    for region in (HOME, OTHER):
        s3 = client("s3", region)
        where = {} if region == HOME else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        s3.create_bucket(Bucket=names.output_bucket("traingrid", ACCOUNT, region), **where)
        for channel, part in itertools.product(("train", "validation"), range(3)):
            s3.put_object(Bucket=account.data(region), Key=f"y/{channel}/{part}", Body=b"." * (part + 1))
    return account


def manifest(account: Account) -> str:
    header = "region,s3_uri,input_mode,streams,processes_per_host,hp.seconds"
    rows = [f"{region},s3://{account.data(region)}/y,Pipe,rank,{RANKS},0" for region in (HOME, OTHER)]
    return "\n".join((header, *rows)) + "\n"


def test_children_killed_around_their_manifest_files_create_one_training_job_each(
    account: Account, cloud: LocalCloud
) -> None:
    cloud.faults.set(FaultPlan(calls=DEATHS))
    try:
        submission = account.accept(manifest(account))
        wait_until(
            lambda: all(
                (item := account.ledger.job(submission, index)) and item.state in FINAL_STATES for index in (0, 1)
            ),
        )
        assert [cloud.faults.struck()[f"calls/{number}"] for number in range(len(DEATHS))] == [2] * len(DEATHS)
    finally:
        cloud.faults.set(FaultPlan())
    assert [account.line(submission, index).state for index in (0, 1)] == ["Completed", "Completed"]
    jobs = jobs_of_lines(parse(manifest(account).encode(), account.deployment), account.deployment, submission)
    for index, region in enumerate((HOME, OTHER)):
        item, job = account.line(submission, index), account.described(f"traingrid-{submission}-{index}-1", region)
        assert item.fingerprint == SageMaker(account.deployment, region).fingerprint(
            job["TrainingJobName"], jobs[index]
        )
        shares = [listed(region, channel["DataSource"]["S3DataSource"]["S3Uri"]) for channel in job["InputDataConfig"]]
        assert shares == [["2"], ["0", "1"]] * 2
    calls = cloud.record.entries()
    world = read_world(account.deployment, submission=submission, details=True, at_rest=True, calls=calls)
    assert audit(world) == []


def listed(region: str, uri: str) -> list[str]:
    """Return the objects that a ManifestFile lists, after asserting that all are in the job's Region."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    assert bucket == names.output_bucket("traingrid", ACCOUNT, region)
    start, *keys = json.loads(client("s3", region).get_object(Bucket=bucket, Key=key)["Body"].read())
    assert start["prefix"].startswith(f"s3://traingrid-data-{ACCOUNT}-{region}/y/")
    return list(keys)
