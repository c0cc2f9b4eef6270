"""Missing capacity, with children as separate processes and the ledger in DynamoDB."""

import json
import time
import zlib
from collections.abc import Callable, Iterator

import pytest

from localcloud.faults.plan import Capacity, FaultPlan, Stub
from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.control_plane.child_process import Line, created, ended
from tests.integration.localcloud.compute import wait_until
from tests.support.sample_job import sample_job
from tests.support.shortages import forget_shortages, pool_of, recorded, short
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.main import cli
from traingrid.job.job import JobReplica
from traingrid.job.state import JobState
from traingrid.ledger.shortages import Shortage

LACKING = FaultPlan(capacity=(Capacity(region=HOME, seconds=0.3),), stubs=(Stub(),))
POOL = pool_of(sample_job(HOME))


@pytest.fixture
def make_line(account: Account, request: pytest.FixtureRequest) -> Callable[..., Line]:
    """Make lines of separate submissions, which have no replica unless it is requested."""
    for region in (HOME, OTHER):
        account.storage.write(S3Uri(account.data(region), "x/shard"), b"x", "application/x")

    def make(number: int, *, replica: bool = False, retries: int = 2) -> Line:
        submission = f"{zlib.crc32(f'{request.node.name} {number}'.encode()):08x}"
        there = sample_job(OTHER)
        replicas = {OTHER: JobReplica(inputs=there.inputs, output=there.output, image=there.image)} if replica else {}
        return Line(account, submission, sample_job(HOME).model_copy(update={"replicas": replicas, "retries": retries}))

    return make


@pytest.fixture(autouse=True)
def _nothing_remains(cloud: LocalCloud, account: Account) -> Iterator[None]:
    yield
    cloud.faults.set(FaultPlan())
    forget_shortages(account.ledger)


def known(account: Account) -> Shortage:
    found = account.ledger.shortage(POOL)
    assert found is not None
    return found


@pytest.mark.usefixtures("commanded")
def test_children_wait_for_one_probe_and_then_all_train(
    cloud: LocalCloud, account: Account, make_line: Callable[..., Line], capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.faults.set(LACKING)
    code, output = ended(make_line(0, retries=0).child())
    assert code == 1, output
    assert known(account).failures == 1
    lines = [make_line(number) for number in (1, 2, 3)]
    children = [line.child() for line in lines]
    wait_until(lambda: [line.state() for line in lines].count(JobState.WAITING) >= 2)
    reasons = {line.item().reason for line in lines if line.state() == "Waiting"}
    assert {reason.partition(" since")[0] for reason in reasons} == {f"No capacity for {POOL}"}
    cli.main(["status"], standalone_mode=False)
    assert f"No capacity for {POOL} since 20" in capsys.readouterr().out.replace("\n", " ")
    cloud.faults.set(FaultPlan(stubs=(Stub(),)))
    ends = [ended(child) for child in children]
    assert [code for code, _ in ends] == [0, 0, 0], ends
    assert known(account).until == 0
    requested = [len(created(cloud, line)) for line in lines]
    assert sum(requested) <= 3 + known(account).failures - 1  # only probes were requested in vain
    events = [json.loads(line)["event"] for _, output in ends for line in output.splitlines()]
    assert events.count("capacity_found") == 1
    assert events.count("capacity_probe") == known(account).failures
    cli.main(["status"], standalone_mode=False)
    assert "No capacity" not in capsys.readouterr().out


def test_a_line_with_a_replica_trains_there_without_a_request_in_vain(
    cloud: LocalCloud, account: Account, make_line: Callable[..., Line]
) -> None:
    cloud.faults.set(LACKING)
    now = int(time.time())
    recorded(account.ledger, short(POOL, since=now, failed_at=now, until=now + 300))
    line = make_line(0, replica=True, retries=0)
    children = [line.child(), line.child()]
    assert [ended(child)[0] for child in children] == [0, 0]
    assert created(cloud, line) == [(OTHER, f"{line.name}-2")]
    item = line.item()
    assert (item.state, item.region, item.attempt) == ("Completed", OTHER, 2)
    assert [(previous.region, previous.state, previous.failure) for previous in item.tried] == [
        (HOME, "Stopped", "shortage")
    ]


def test_the_child_that_replaces_a_killed_probe_ends_the_shortage(
    cloud: LocalCloud, account: Account, make_line: Callable[..., Line]
) -> None:
    cloud.faults.set(FaultPlan(stubs=(Stub(seconds=5),)))
    now = int(time.time())
    recorded(account.ledger, short(POOL, since=now, failed_at=now, until=now - 1))
    line = make_line(0)
    first = line.child()
    wait_until(lambda: known(account).probe != "")
    first.kill()
    first.communicate()
    assert known(account).probe == f"{line.name}-1"
    code, output = ended(line.child())
    assert code == 0, output
    assert len(created(cloud, line)) == 1
    assert known(account).until == 0
