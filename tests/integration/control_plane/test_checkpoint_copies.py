"""A spot job that is interrupted, moves, and continues from a copy of its checkpoint, with its child as a process."""

import signal
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from localcloud.ecr import process_images
from localcloud.faults.plan import CallFault, FaultPlan, SpotCapacity
from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import HOME, OTHER, REGIONS, Account
from tests.integration.control_plane.child_process import Line, created, ended
from tests.integration.localcloud.compute import ACCOUNT, wait_until
from tests.support.sample_job import sample_job
from tests.support.shortages import forget_shortages, pool_of, recorded, short
from traingrid import names
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.main import cli
from traingrid.job.job import Job, JobReplica

FILES = 12
# The first run saves a checkpoint with several files, and waits for the interruption; a run that finds it completes.
SCRIPT = f"""
import json, os, pathlib, time
base = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"])
checkpoint = base / "checkpoints/checkpoint-000001-step-000000100"
if not checkpoint.exists():
    checkpoint.mkdir(parents=True)
    files = {{f"part-{{number:02}}": [3, ""] for number in range({FILES - 1})}}
    for name in files:
        (checkpoint / name).write_text("abc")
    (checkpoint / "state.json").write_text(json.dumps({{"files": files, "best": False}}))
    print("epoch=1", flush=True)
    time.sleep(600)
print("resumed with", len(list(checkpoint.iterdir())), "files", flush=True)
(base / "model/weights").write_text("trained")
"""


@pytest.fixture(autouse=True)
def _nothing_remains(cloud: LocalCloud, account: Account) -> Iterator[None]:
    yield
    cloud.faults.set(FaultPlan())
    forget_shortages(account.ledger)


@pytest.fixture
def roaming(account: Account, request: pytest.FixtureRequest) -> Line:
    """A spot line with checkpoints and a replica."""
    submission = f"{zlib.crc32(request.node.name.encode()):08x}"
    for region in REGIONS:
        where: Any = {} if region == HOME else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        s3, ecr = client("s3", region), client("ecr", region)
        with suppress(s3.exceptions.BucketAlreadyOwnedByYou):
            s3.create_bucket(Bucket=names.output_bucket("traingrid", ACCOUNT, region), **where)
        with suppress(ecr.exceptions.RepositoryAlreadyExistsException):
            ecr.create_repository(repositoryName="roams")
        process_images.push(ecr, "roams", "v1", process_images.ProcessImage(command=(sys.executable, "-c", SCRIPT)))
        account.storage.write(S3Uri(account.data(region), "x/shard"), b"x", "application/x")
    here, there = (_in_region(region, submission) for region in REGIONS)
    fields = {name: getattr(there, name) for name in ("inputs", "output", "image", "checkpoints")}
    spot = {"spot": True, "max_runtime_seconds": 10, "max_wait_seconds": 12, "retries": 3}
    return Line(account, submission, here.model_copy(update={"replicas": {OTHER: JobReplica(**fields)}, **spot}))


def _in_region(region: str, submission: str) -> Job:
    job, place = sample_job(region), names.output_prefix("traingrid", ACCOUNT, region, submission, 0)
    image = job.image.replace("traingrid/training", "roams")
    return job.model_copy(update={"image": image, "checkpoints": names.checkpoint_prefix(place)})


def interrupt(cloud: LocalCloud, line: Line, copies_take: float) -> None:
    """Take the spot instances of the first Region away for good, as soon as the training has saved its checkpoint."""
    wait_until(lambda: len(checkpoints(HOME, line)) == FILES)
    pool, now = pool_of(sample_job(HOME).model_copy(update={"spot": True})), int(time.time())
    recorded(line.account.ledger, short(pool, since=now, failed_at=now, until=now + 300))
    slow = CallFault(effect="delay", action="CopyObject", seconds=copies_take)
    cloud.faults.set(FaultPlan(spot=(SpotCapacity(region=HOME, trace=((0.0, False),)),), calls=(slow,)))


def checkpoints(region: str, line: Line) -> set[str]:
    place = names.output_prefix("traingrid", ACCOUNT, region, line.submission, 0)
    folder = S3Uri.parse(names.checkpoint_prefix(place))
    reply = client("s3", region).list_objects_v2(Bucket=folder.bucket, Prefix=folder.key)
    return {entry["Key"].rpartition("/")[2] for entry in reply.get("Contents", [])}


@pytest.mark.usefixtures("commanded")
def test_a_killed_copy_of_a_checkpoint_is_resumed_and_the_training_continues_in_the_other_region(
    cloud: LocalCloud, account: Account, roaming: Line, capsys: pytest.CaptureFixture[str]
) -> None:
    first = roaming.child()
    interrupt(cloud, roaming, copies_take=0.7)
    wait_until(lambda: checkpoints(OTHER, roaming))
    first.send_signal(signal.SIGKILL)
    assert ended(first)[0] == -signal.SIGKILL
    assert "state.json" not in checkpoints(OTHER, roaming)
    assert {region for region, _ in created(cloud, roaming)} == {HOME}
    code, output = ended(roaming.child())
    assert code == 0, output
    assert "exist already" in output
    assert f"resumed with {FILES} files" in output
    item = roaming.item()
    assert (item.state, item.region, item.checkpoint_from) == ("Completed", OTHER, HOME)
    assert item.checkpoint_bytes > 3 * (FILES - 1)
    bucket = names.output_bucket("traingrid", ACCOUNT, OTHER)
    copies = [entry for entry in cloud.record.entries("s3", "CopyObject") if entry["parameters"]["Bucket"] == bucket]
    assert set(Counter(entry["parameters"]["Key"] for entry in copies).values()) == {1}
    assert copies[-1]["parameters"]["Key"].endswith("/state.json")
    (creation,) = (
        entry
        for entry in cloud.record.entries("sagemaker", "CreateTrainingJob")
        if entry["region"] == OTHER and entry["parameters"]["TrainingJobName"].startswith(roaming.name)
    )
    assert len(copies) == FILES
    assert all(entry["seq"] < creation["seq"] for entry in copies)
    assert checkpoints(OTHER, roaming) == set(), "the training has saved no other checkpoint there"
    assert len(checkpoints(HOME, roaming)) == FILES
    cli.main(["describe", roaming.submission], standalone_mode=False)
    assert f"{item.checkpoint_note} Its transfer costs about $0.0000." in capsys.readouterr().out
