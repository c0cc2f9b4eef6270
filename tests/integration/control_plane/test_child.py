"""Children as separate processes, with a SageMaker that lags, lacks capacity, loses replies and throttles."""

import json
import signal
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from localcloud.faults.plan import CallFault, Capacity, CapacityQuota, FaultPlan, Lag, Stub
from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.control_plane.child_process import Line, created, ended
from tests.integration.localcloud.compute import wait_until
from tests.support.sample_job import sample_job
from tests.support.shortages import forget_shortages
from traingrid.aws.s3_uri import S3Uri
from traingrid.job.job import JobReplica
from traingrid.ledger.user_requests import CANCEL_ALL

FOREVER = FaultPlan(stubs=(Stub(seconds=600),))


@pytest.fixture
def line(account: Account, request: pytest.FixtureRequest) -> Line:
    """A line with data in both Regions."""
    for region in (HOME, OTHER):
        account.storage.write(S3Uri(account.data(region), "x/shard"), b"x", "application/x")
    number = zlib.crc32(request.node.name.encode())
    here, there = sample_job(HOME), sample_job(OTHER)
    replica = JobReplica(inputs=there.inputs, output=there.output, image=there.image)
    return Line(account, f"{number:08x}", here.model_copy(update={"replicas": {OTHER: replica}}))


@pytest.fixture(autouse=True)
def _no_faults_afterwards(cloud: LocalCloud, account: Account) -> Iterator[None]:
    yield
    cloud.faults.set(FaultPlan())
    forget_shortages(account.ledger)


def test_a_create_request_with_a_lost_reply_and_a_lagging_job_is_not_repeated(cloud: LocalCloud, line: Line) -> None:
    lost: Any = {"effect": "lose_reply", "service": "sagemaker", "action": "CreateTrainingJob", "times": 1}
    cloud.faults.set(FaultPlan(calls=(CallFault(**lost),), lags=(Lag(seconds=3),), stubs=(Stub(),)))
    code, output = ended(line.child())
    assert code == 0, output
    assert created(cloud, line) == [(HOME, f"{line.name}-1")]
    assert line.item().state == "Completed"
    assert "this child's own cost" in output


def test_every_line_of_a_childs_log_is_json_with_its_submission_and_index(cloud: LocalCloud, line: Line) -> None:
    cloud.faults.set(FaultPlan(stubs=(Stub(),)))
    code, output = ended(line.child())
    assert code == 0, output
    records = [json.loads(record) for record in output.splitlines()]
    events = [record["event"] for record in records]
    assert events[:2] == ["begun", "launching"]
    assert events[-3:] == ["ended", "no_model", "cost"], "a stub writes no model"
    whose = {(record["batch_child"], record["submission"], record["index"]) for record in records}
    assert whose == {(f"array-{line.submission}", line.submission, 0)}
    (launching, *_, end) = (record for record in records if "training_job" in record)
    for record in (launching, end):
        assert (record["training_job"], record["attempt"], record["region"]) == (f"{line.name}-1", 1, HOME)
    assert end["state"] == "Completed"


def test_two_children_of_one_line_share_its_attempts_and_train_it_once(cloud: LocalCloud, line: Line) -> None:
    cloud.faults.set(FaultPlan(capacity=(Capacity(region=HOME, seconds=1),), stubs=(Stub(seconds=1),)))
    ends = [ended(child) for child in [line.child(), line.child()]]
    assert [code for code, _ in ends] == [0, 0], ends
    assert created(cloud, line) == [(HOME, f"{line.name}-1"), (OTHER, f"{line.name}-2")]
    item = line.item()
    assert (item.state, item.attempt, item.region) == ("Completed", 2, OTHER)
    assert [(previous.region, previous.failure) for previous in item.tried] == [(HOME, "capacity")]


def test_a_child_waits_for_a_quota_and_records_the_reason(cloud: LocalCloud, line: Line) -> None:
    cloud.faults.set(FaultPlan(quotas=(CapacityQuota(instances=0),), stubs=(Stub(),)))
    child = line.child()
    wait_until(lambda: line.state() == "Waiting")
    assert "ResourceLimitExceeded" in line.item().reason
    cloud.faults.set(FaultPlan(stubs=(Stub(),)))
    assert ended(child)[0] == 0
    assert (line.item().state, line.item().attempt) == ("Completed", 1)


def test_a_throttled_child_completes_its_line(cloud: LocalCloud, line: Line) -> None:
    creates = CallFault(effect="throttle", action="CreateTrainingJob", times=1)
    # With this seed, at most three calls in a row are throttled; botocore doubles its wait after each.
    cloud.faults.set(FaultPlan(seed=5, calls=(creates, CallFault(effect="throttle", share=0.3)), stubs=(Stub(),)))
    code, output = ended(line.child())
    assert code == 0, output
    assert len(created(cloud, line)) == 1
    throttled = [call.action for _, call in cloud.faults.struck_calls()]
    assert "CreateTrainingJob" in throttled
    assert len(throttled) > 5


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_terminated_child_stops_its_training_only_if_the_job_is_cancelled(
    cloud: LocalCloud, line: Line, cancelled: bool
) -> None:
    cloud.faults.set(FOREVER)
    child = line.child()
    wait_until(line.training)
    if cancelled:
        line.account.ledger.request_cancel(line.submission, CANCEL_ALL, {"by": "test"})
    child.send_signal(signal.SIGTERM)
    code, output = ended(child)
    assert code == (143 if cancelled else 75), output
    state = line.account.described(f"{line.name}-1")["TrainingJobStatus"]
    assert state in (("Stopping", "Stopped") if cancelled else ("InProgress",))


def test_a_child_stops_its_cancelled_job_and_records_it(cloud: LocalCloud, line: Line) -> None:
    cloud.faults.set(FOREVER)
    child = line.child()
    wait_until(line.training)
    line.account.ledger.request_cancel(line.submission, CANCEL_ALL, {"by": "test"})
    assert ended(child)[0] == 143
    assert (line.item().state, line.item().failure) == ("Stopped", "stopped_by_user")
