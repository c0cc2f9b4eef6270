"""Release: the reconciler releases a training job of a cluster only after its end is recorded."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from botocore.exceptions import EndpointConnectionError

from tests.support.ledger_items import existing, job_key
from tests.support.reconciler_world import World, a_reconciler, open_lines
from traingrid.backends.inventory import Window
from traingrid.backends.joint_inventory import JointInventory
from traingrid.backends.training_job import TrainingJob
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.kubernetes.errors import UnavailableError
from traingrid.ledger.ledger import Ledger
from traingrid.reconciler.reach import UnreachedError
from traingrid.reconciler.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("aws")
Opened: TypeAlias = Callable[[JobState], None]
HOME, SUBMISSION = "us-east-1", "0123abcd"


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def reconciler(world: World, deployment: Deployment, ledger: Ledger) -> Reconciler:
    return a_reconciler(world, deployment, ledger)


@pytest.fixture
def opened(ledger: Ledger, job: Job, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Return a function that opens a line on EKS, which has a state."""

    def on_eks(state: JobState) -> None:
        open_lines(ledger, job, [HOME])
        ledger.record_job(job_key(0, submission=SUBMISSION), {"state": state})
        item = existing(ledger.job(SUBMISSION, 0))
        monkeypatch.setattr(ledger, "job", lambda *_: replace(item, backend="eks"))

    return on_eks


def test_a_recorded_end_is_released(world: World, reconciler: Reconciler, opened: Opened) -> None:
    opened(JobState.COMPLETED)
    name = world.keeps(SUBMISSION, 0, HOME)
    done = reconciler.run_pass()
    assert (world.released, done.released) == ([name], [name])
    assert done.counts()["TrainingJobsReleased"] == 1


@pytest.mark.parametrize("state", [JobState.IN_PROGRESS, JobState.STOPPING])
def test_an_end_that_is_not_recorded_is_not_released(
    world: World, reconciler: Reconciler, opened: Opened, state: JobState
) -> None:
    opened(state)
    world.keeps(SUBMISSION, 0, HOME)
    assert reconciler.run_pass().released == []


def test_a_recorded_end_is_kept_for_the_grace_period(world: World, reconciler: Reconciler, opened: Opened) -> None:
    opened(JobState.COMPLETED)
    world.keeps(SUBMISSION, 0, HOME)
    reconciler.grace_seconds = 120.0
    assert reconciler.run_pass().released == []


def test_an_orphan_is_released_once_it_has_ended_for_the_grace_period(world: World, reconciler: Reconciler) -> None:
    reconciler.grace_seconds = 120.0
    old, _ = world.keeps("eeeeeeee", 0, HOME), world.keeps("eeeeeeee", 1, HOME, ended_at=time.time())
    assert reconciler.run_pass().released == [old]


def test_a_training_job_of_another_service_with_the_same_attempt_is_an_orphan(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    open_lines(ledger, job, [HOME])
    name = world.keeps(SUBMISSION, 0, HOME)
    assert reconciler.run_pass().released == [name]


def test_the_stops_of_stopping_training_jobs_are_completed(world: World, reconciler: Reconciler) -> None:
    name = world.runs(SUBMISSION, 0, HOME, "Stopping")
    reconciler.run_pass()
    assert world.completed == [name]


def test_a_training_job_whose_hosts_may_wait_for_a_failed_one_is_checked(world: World, reconciler: Reconciler) -> None:
    name = world.runs(SUBMISSION, 0, HOME, may_hang=True)
    reconciler.run_pass()
    assert world.completed == [name]


def test_a_cluster_that_does_not_answer_does_not_prevent_other_releases(world: World, reconciler: Reconciler) -> None:
    world.fails["ended us-east-1"] = EndpointConnectionError(endpoint_url="https://cluster")
    name = world.keeps("eeeeeeee", 0, "us-west-2")
    with pytest.raises(UnreachedError):
        reconciler.run_pass()
    assert world.released == [name]


def test_a_cluster_that_cannot_be_listed_does_not_prevent_the_care_for_other_training_jobs_of_its_region(
    world: World, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan = world.runs("eeeeeeee", 0, HOME)
    plain = reconciler.inventory

    class Broken:
        def listed(self, *_: str, **_window: Window) -> Iterator[TrainingJob]:
            raise UnavailableError(503, "ServiceUnavailable", "down")

    class Fake(JointInventory):
        def __init__(self, region: str) -> None:
            inventory: Any = plain(region)
            cluster: Any = Broken() if region == HOME else inventory
            super().__init__({"sagemaker": inventory} | ({"eks": cluster} if region == HOME else {}))

        def ended(self) -> Iterator[TrainingJob]:
            return iter(())

    monkeypatch.setattr(reconciler, "inventory", Fake)
    with pytest.raises(UnreachedError, match="us-east-1 on Amazon EKS") as failed:
        reconciler.run_pass()
    assert failed.value.done.stopped == [orphan]
    assert list(failed.value.done.unreachable) == ["us-east-1 on Amazon EKS"]
