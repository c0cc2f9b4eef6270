"""Children as separate processes that copy data between Regions, and are killed, cancelled and paused meanwhile."""

import signal
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from localcloud.faults.plan import CallFault, FaultPlan, Stub
from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.control_plane.child_process import Line, created, ended
from tests.integration.localcloud.compute import wait_until
from tests.support.sample_job import sample_job
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.job.failures import STOPPED, TRY_AGAIN
from traingrid.job.job import Channel
from traingrid.ledger.moves import MoveItem, Moves
from traingrid.ledger.user_requests import CANCEL_ALL

SMALL, PARTS = 40, (b"x" * 5 * 1024**2, b"the end")
"""The number of small objects of the source, and the parts of another one, without a checksum of the whole object."""
TRAINS = FaultPlan(stubs=(Stub(),))


def slow(seconds: float) -> FaultPlan:
    """Return a plan in which every copy of an object takes some seconds."""
    calls = tuple(
        CallFault(effect="delay", action=action, seconds=seconds) for action in ("CopyObject", "UploadPartCopy")
    )
    return FaultPlan(calls=calls, stubs=(Stub(),))


class Copy:
    """A line whose data is copied, and its objects."""

    def __init__(self, cloud: LocalCloud, account: Account, name: str) -> None:
        self.cloud, self.account, self.objects = cloud, account, SMALL + 1
        number = f"{zlib.crc32(name.encode()):08x}"
        self.source, self.target = (S3Uri(account.data(region), f"{number}/1") for region in (HOME, OTHER))
        inputs = {"train": Channel(uri=f"{self.target}/train/")}
        moves = {"inputs": inputs, "copy_from": str(self.source), "copy_to": str(self.target)}
        self.line = Line(account, number, sample_job(OTHER).model_copy(update=moves))
        self._upload()

    def _upload(self) -> None:
        s3: Any = client("s3", HOME)
        for index in range(SMALL):
            s3.put_object(Bucket=self.source.bucket, Key=f"{self.source.key}/train/{index:02}", Body=b"%d" % index)
        where = {"Bucket": self.source.bucket, "Key": f"{self.source.key}/train/parts"}
        upload = s3.create_multipart_upload(**where, ChecksumAlgorithm="CRC32")["UploadId"]
        parts = [
            {
                "PartNumber": number,
                "ETag": s3.upload_part(**where, UploadId=upload, PartNumber=number, Body=body)["ETag"],
            }
            for number, body in enumerate(PARTS, start=1)
        ]
        s3.complete_multipart_upload(**where, UploadId=upload, MultipartUpload={"Parts": parts})

    def copied(self) -> set[str]:
        """Return the keys of the target."""
        found = client("s3", OTHER).list_objects_v2(Bucket=self.target.bucket, Prefix=self.target.key)
        return {entry["Key"] for entry in found.get("Contents", [])}

    def recorded(self, *actions: str) -> list[dict[str, Any]]:
        """Return the accepted calls with these actions that wrote to the target."""
        entries = [entry for action in actions for entry in self.cloud.record.entries("s3", action)]
        keys = [entry for entry in entries if str(entry["parameters"].get("Key", "")).startswith(self.target.key)]
        return [entry for entry in keys if entry["parameters"]["Bucket"] == self.target.bucket]

    def item(self) -> MoveItem:
        found = Moves(self.account.deployment.table, HOME).find(str(self.target))
        assert found is not None
        return found

    def is_half_done(self) -> bool:
        return 5 <= len(self.copied()) < self.objects


@pytest.fixture
def copy(cloud: LocalCloud, account: Account, request: pytest.FixtureRequest) -> Copy:
    return Copy(cloud, account, request.node.name)


@pytest.fixture(autouse=True)
def _no_faults_afterwards(cloud: LocalCloud, account: Account) -> Iterator[None]:
    yield
    cloud.faults.set(FaultPlan())
    account.ledger.set_launching({"by": "test"}, allowed=True)


def test_a_killed_copy_is_resumed_and_trained_on_once_after_it_is_verified(cloud: LocalCloud, copy: Copy) -> None:
    cloud.faults.set(slow(0.5))
    first = copy.line.child()
    wait_until(copy.is_half_done)
    first.send_signal(signal.SIGKILL)
    assert ended(first)[0] == -signal.SIGKILL
    assert created(cloud, copy.line) == []
    assert copy.item().state == "copying"
    cloud.faults.set(TRAINS)
    code, output = ended(copy.line.child())
    assert code == 0, output
    assert "exist already" in output
    assert created(cloud, copy.line) == [(OTHER, f"{copy.line.name}-1")]
    writes = copy.recorded("CopyObject", "CompleteMultipartUpload")
    assert len(writes) == copy.objects
    assert set(Counter(entry["parameters"]["Key"] for entry in writes).values()) == {1}, "an object was copied again"
    (creation,) = (
        entry
        for entry in cloud.record.entries("sagemaker", "CreateTrainingJob")
        if entry["parameters"]["TrainingJobName"].startswith(copy.line.name)
    )
    assert all(entry["seq"] < creation["seq"] for entry in writes)
    item = copy.item()
    assert (item.state, item.verified) == ("copied", {"checksum": SMALL, "etag": 1})
    assert copy.line.item().state == "Completed"


@pytest.mark.parametrize("terminated", [False, True])
def test_a_cancel_ends_a_copy_soon(cloud: LocalCloud, copy: Copy, terminated: bool) -> None:
    """`traingrid cancel` records the cancel, and terminates the child, which Batch does with SIGTERM.

    An overloaded machine may not answer a child in FAREWELL_SECONDS; then the next process of the child ends the copy.
    """
    cloud.faults.set(slow(8))
    child = copy.line.child()
    wait_until(copy.is_half_done)
    copy.account.ledger.request_cancel(copy.line.submission, CANCEL_ALL, {"by": "test"})
    terminated_at = time.monotonic()
    if terminated:
        child.send_signal(signal.SIGTERM)
    code, output = ended(child)
    if terminated:
        assert time.monotonic() - terminated_at < 30, "Batch then kills it"
        if code == TRY_AGAIN:
            code, output = ended(copy.line.child())
    assert code == STOPPED, output
    assert len(copy.copied()) < copy.objects
    assert created(cloud, copy.line) == []
    assert (copy.item().state, copy.item().owner) == ("copying", ""), "another line can continue the copy at once"
    if not terminated:
        assert (copy.line.item().state, copy.line.item().failure) == ("Stopped", "stopped_by_user")


def test_no_object_is_copied_while_the_grid_is_paused(cloud: LocalCloud, copy: Copy) -> None:
    cloud.faults.set(TRAINS)
    copy.account.ledger.set_launching({"by": "Ada", "reason": "the bill"}, allowed=False)
    child = copy.line.child()
    wait_until(lambda: copy.line.state() == "Waiting")
    assert "before the training: 0 %. Launching has been paused since" in copy.line.item().reason
    assert (copy.copied(), copy.recorded("CreateMultipartUpload")) == (set(), [])
    copy.account.ledger.set_launching({"by": "Ada"}, allowed=True)
    code, output = ended(child)
    assert code == 0, output
    assert len(copy.copied()) == copy.objects
