"""Capacity for training hosts: hosts beyond it wait."""

import os
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from localcloud.credentials.secret import DUMMY_KEY
from localcloud.faults.plan import FaultPlan, Stub
from localcloud.sagemaker import host_capacity
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from tests.integration.localcloud.compute import wait_until
from tests.integration.localcloud.training_side import READ, SageMaker

JOBS = 7
# Each host records its start and end in an output that belongs to the job.
NOTES = (
    READ + "import time; begin = time.time(); time.sleep(1);"
    "open(B + '/model/times', 'w').write(json.dumps([begin, time.time()])); print(begin, time.time())"
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("small"), training_hosts=3, training_stop_grace_seconds=2)
    with LocalCloud(settings) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def training(small: LocalCloud) -> SageMaker:
    session: Any = boto3.Session(DUMMY_KEY, small.secret)

    def client(service: str, region: str = "us-east-1") -> Any:
        return session.client(service, region_name=region, endpoint_url=small.endpoint_url)

    return SageMaker(client)


def at_once(spans: list[tuple[float, float]]) -> int:
    """Return the maximum number of overlapping spans."""
    return max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans)


def test_concurrent_hosts_do_not_exceed_the_capacity(training: SageMaker) -> None:
    names = [training.create(NOTES) for _ in range(JOBS)]
    states = [training.job(name)["SecondaryStatus"] for name in names]
    assert states.count("Pending") >= JOBS - 3
    jobs = [training.ended(name) for name in names]
    assert {job["TrainingJobStatus"] for job in jobs} == {"Completed"}
    spans = [tuple(map(float, training.lines(job)[0].split())) for job in jobs]
    assert 2 <= at_once([(begin, end) for begin, end in spans]) <= 3


def test_a_job_with_more_hosts_than_the_capacity_runs_alone(training: SageMaker) -> None:
    names = [training.create(NOTES), training.create(NOTES, hosts=5), training.create(NOTES)]
    first, large, last = (training.ended(name) for name in names)
    spans = [tuple(map(float, training.lines(job)[0].split())) for job in (first, large, last)]
    assert spans[0][1] <= spans[1][0]
    assert max(float(training.lines(large, host)[0].split()[1]) for host in range(1, 6)) <= spans[2][0]


def test_waiting_jobs_can_be_stopped_and_stubs_use_no_capacity(small: LocalCloud, training: SageMaker) -> None:
    running = training.waiting("import time; print(1, flush=True); time.sleep(600)", hosts=3)
    waiting = training.create(NOTES)
    wait_until(lambda: training.job(waiting)["SecondaryStatus"] == "Pending")
    small.faults.set(FaultPlan(stubs=(Stub(),)))
    try:
        assert training.run()["TrainingJobStatus"] == "Completed"
    finally:
        small.faults.set(FaultPlan())
    training.api.stop_training_job(TrainingJobName=waiting)
    assert training.ended(waiting)["TrainingJobStatus"] == "Stopped"
    assert "TrainingStartTime" not in training.job(waiting)
    training.api.stop_training_job(TrainingJobName=running)
    assert training.ended(running)["TrainingJobStatus"] == "Stopped"
    assert training.run()["TrainingJobStatus"] == "Completed"


def test_the_default_capacity_depends_on_cores_and_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16), raising=False)
    monkeypatch.setattr(host_capacity, "_CGROUP_LIMIT", tmp_path / "memory.max")
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 24 * 2**18}.get)
    assert host_capacity.HostCapacity().hosts == 24
    (tmp_path / "memory.max").write_text(f"{6 * 2**30}\n")
    assert host_capacity.HostCapacity().hosts == 6
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(1), raising=False)
    assert host_capacity.HostCapacity().hosts == 4
    (tmp_path / "memory.max").write_text("1000\n")
    assert host_capacity.HostCapacity().hosts == 2
    assert host_capacity.HostCapacity(5).hosts == 5
