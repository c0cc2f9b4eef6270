"""Training plans of lines: a child requests the plan of the Region in which it trains, and reports a refused one."""

import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from localcloud.faults.plan import Capacity, FaultPlan, Stub
from localcloud.sagemaker.backend import TrainingBackend
from localcloud.sagemaker.training_plans import Plan
from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.control_plane.child_process import Line, created, ended
from tests.support.sample_job import sample_job
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.job.job import JobReplica


def plan(region: str, *, ended_hours_ago: float = -1) -> str:
    """Add a plan with the instances of the sample job, and return its ARN."""
    now = datetime.now(UTC)
    times = {"starts_at": now - timedelta(hours=5), "ends_at": now - timedelta(hours=ended_hours_ago)}
    made = Plan.model_validate(
        {"region": region, "name": "reserved", "instance_type": "ml.m5.large", "instances": 1, **times}
    )
    TrainingBackend.plans.put(made)
    return made.arn


@pytest.fixture
def line(account: Account, request: pytest.FixtureRequest) -> Line:
    """A line with a plan in each of its two Regions."""
    for region in (HOME, OTHER):
        account.storage.write(S3Uri(account.data(region), "x/shard"), b"x", "application/x")
    here, there = (
        sample_job(region).model_copy(update={"training_plan": plan(region), "retries": 1}) for region in (HOME, OTHER)
    )
    replica = JobReplica.model_validate({name: getattr(there, name) for name in JobReplica.model_fields})
    number = zlib.crc32(request.node.name.encode())
    return Line(account, f"{number:08x}", here.model_copy(update={"replicas": {OTHER: replica}}))


@pytest.fixture(autouse=True)
def stubs(cloud: LocalCloud) -> Iterator[None]:
    cloud.faults.set(FaultPlan(stubs=(Stub(),)))
    yield
    cloud.faults.set(FaultPlan())


def requested(region: str, name: str) -> str:
    described = client("sagemaker", region).describe_training_job(TrainingJobName=name)
    return str(described["ResourceConfig"]["TrainingPlanArn"])


def test_a_child_trains_on_the_plan_of_its_line(line: Line) -> None:
    code, output = ended(line.child())
    assert code == 0, output
    assert line.item().state == "Completed"
    assert requested(HOME, f"{line.name}-1").endswith(f"{HOME}:123456789012:training-plan/reserved")


def test_the_next_attempt_uses_the_plan_of_the_next_region(cloud: LocalCloud, line: Line) -> None:
    none = Capacity(region=HOME, instance_type="ml.m5.large", seconds=0.1)
    cloud.faults.set(FaultPlan(capacity=(none,), stubs=(Stub(),)))
    code, output = ended(line.child())
    assert code == 0, output
    assert created(cloud, line) == [(HOME, f"{line.name}-1"), (OTHER, f"{line.name}-2")]
    assert requested(OTHER, f"{line.name}-2").endswith(f"{OTHER}:123456789012:training-plan/reserved")


def test_a_line_whose_plan_has_ended_fails_with_that_reason(cloud: LocalCloud, line: Line) -> None:
    plan(HOME, ended_hours_ago=1)
    code, output = ended(line.child())
    assert code == 2, output
    assert created(cloud, line) == []
    assert line.item().state == "Failed"
    assert "Its status is Expired" in line.item().reason
