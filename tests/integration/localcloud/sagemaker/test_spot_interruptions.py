"""Spot training jobs are interrupted and started again as a fault plan's trace of the spot capacity requires."""

import math
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from localcloud.faults.plan import FaultPlan, SpotCapacity, Stub
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import wait_until
from tests.integration.localcloud.training_side import READ, SageMaker

NEVER = ((0.0, False),)
RUN = ["Starting", "Pending", "Downloading", "Training"]
# Each run extends its checkpoint, and the third one ends. SIGTERM ends a run with exit code 0, as it ends the trainer.
COUNTS = (
    READ + "import pathlib, signal, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0));"
    "runs = pathlib.Path(B, 'checkpoints/runs'); n = len(runs.read_text()) if runs.exists() else 0;"
    "runs.write_text('x' * (n + 1)); print('run', n, os.listdir(B + '/model'), flush=True);"
    "open(B + '/model/weights', 'w').write(str(n)); time.sleep(600 if n < 2 else 0)"
)
WAITS = "import time; print('running', flush=True); time.sleep(600)"


@pytest.fixture(autouse=True)
def no_faults_afterwards(cloud: LocalCloud) -> Iterator[None]:
    yield
    cloud.faults.set(FaultPlan())


def trace(cloud: LocalCloud, *changes: tuple[float, bool], **fields: Any) -> None:
    cloud.faults.set(FaultPlan(spot=(SpotCapacity(trace=changes, **fields),)))


def spot(sagemaker: SageMaker, max_wait: int = 600, max_run: int = 600, **more: Any) -> dict[str, Any]:
    return {
        "EnableManagedSpotTraining": True,
        "CheckpointConfig": {"S3Uri": f"s3://{sagemaker.bucket}/checkpoints/{time.monotonic_ns()}"},
        "StoppingCondition": {"MaxRuntimeInSeconds": max_run, "MaxWaitTimeInSeconds": max_wait},
    } | more


def statuses(job: dict[str, Any]) -> list[str]:
    return [entry["Status"] for entry in job["SecondaryStatusTransitions"]]


def reaches(sagemaker: SageMaker, name: str, status: str) -> dict[str, Any]:
    return wait_until(lambda: job if (job := sagemaker.job(name))["SecondaryStatus"] == status else {})


def log(sagemaker: SageMaker, name: str, host: int = 1) -> list[str]:
    """Return the lines of all log streams of a host, in the order of its starts."""
    group, prefix = "/aws/sagemaker/TrainingJobs", f"{name}/algo-{host}-"
    try:
        streams = sagemaker.logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=prefix)["logStreams"]
    except sagemaker.logs.exceptions.ResourceNotFoundException:
        return []  # no training job has logged yet
    lines: list[str] = []
    for stream in sorted(entry["logStreamName"] for entry in streams):
        events = sagemaker.logs.get_log_events(logGroupName=group, logStreamName=stream, startFromHead=True)["events"]
        lines += [event["message"] for event in events]
    return lines


def test_a_job_that_is_interrupted_twice_resumes_from_its_checkpoint(cloud: LocalCloud, sagemaker: SageMaker) -> None:
    name = sagemaker.create(COUNTS, hosts=2, **spot(sagemaker))
    for run in range(2):
        wait_until(lambda run=run: len(log(sagemaker, name)) == run + 1)  # type: ignore[misc]  # mypy infers no type
        trace(cloud, *NEVER)
        interrupted = reaches(sagemaker, name, "Interrupted")
        assert interrupted["TrainingJobStatus"] == "InProgress"
        time.sleep(1.0)
        trace(cloud, (0.0, True))
    job = sagemaker.ended(name)
    assert statuses(job) == [*RUN, "Interrupted"] * 2 + [*RUN, "Uploading", "Completed"]
    assert log(sagemaker, name) == ["run 0 []", "run 1 []", "run 2 []"]
    assert sagemaker.archive(name, "model.tar.gz") == ["weights"]


def test_the_time_without_instances_is_neither_training_nor_billable_time(
    cloud: LocalCloud, sagemaker: SageMaker
) -> None:
    name = sagemaker.create(WAITS, **spot(sagemaker))
    wait_until(lambda: log(sagemaker, name))
    trace(cloud, *NEVER)
    reaches(sagemaker, name, "Interrupted")
    time.sleep(4.0)
    cloud.faults.set(FaultPlan())
    reaches(sagemaker, name, "Training")
    sagemaker.api.stop_training_job(TrainingJobName=name)
    job = sagemaker.ended(name)
    whole = (job["TrainingEndTime"] - job["TrainingStartTime"]).total_seconds()
    spans = {entry["Status"]: entry for entry in job["SecondaryStatusTransitions"]}
    absent = (spans["Interrupted"]["EndTime"] - spans["Interrupted"]["StartTime"]).total_seconds()
    assert absent >= 4.0
    assert whole - absent - 2.0 < job["TrainingTimeInSeconds"] <= math.ceil(whole - absent)
    assert job["BillableTimeInSeconds"] == math.ceil(job["TrainingTimeInSeconds"] * 0.35)


def test_jobs_on_demand_and_other_pools_are_not_interrupted(cloud: LocalCloud, sagemaker: SageMaker) -> None:
    on_demand, other = sagemaker.create(WAITS), sagemaker.create(WAITS, **spot(sagemaker))
    wait_until(lambda: log(sagemaker, on_demand) and log(sagemaker, other))
    absent = [SpotCapacity(trace=NEVER, region="eu-*"), SpotCapacity(trace=NEVER, instance_type="ml.p3.*")]
    cloud.faults.set(FaultPlan(spot=(*absent, SpotCapacity(trace=((1.0, True),)))))
    time.sleep(1.0)
    assert {sagemaker.job(name)["SecondaryStatus"] for name in (on_demand, other)} == {"Training"}
    trace(cloud, *NEVER)
    reaches(sagemaker, other, "Interrupted")
    time.sleep(0.5)
    assert statuses(sagemaker.job(on_demand)) == RUN
    for name in (on_demand, other):
        sagemaker.api.stop_training_job(TrainingJobName=name)
    stopped = sagemaker.ended(other)
    assert statuses(stopped) == [*RUN, "Interrupted", "Stopping", "Stopped"]
    job = sagemaker.ended(on_demand)
    assert job["BillableTimeInSeconds"] == job["TrainingTimeInSeconds"]


def test_a_new_job_waits_in_starting_until_the_trace_has_capacity(cloud: LocalCloud, sagemaker: SageMaker) -> None:
    trace(cloud, *NEVER)
    name = sagemaker.create(**spot(sagemaker))
    assert sagemaker.run()["TrainingJobStatus"] == "Completed"
    (waiting,) = sagemaker.job(name)["SecondaryStatusTransitions"]
    assert waiting["StatusMessage"] == "Insufficient capacity error from EC2 while launching instances, retrying!"
    trace(cloud, (0.0, True), (600.0, False))
    assert statuses(sagemaker.ended(name)) == [*RUN, "Uploading", "Completed"]


def test_a_job_that_never_gets_instances_ends_at_its_maximum_wait(cloud: LocalCloud, sagemaker: SageMaker) -> None:
    trace(cloud, *NEVER)
    job = sagemaker.run(**spot(sagemaker, max_wait=1, max_run=1))
    assert statuses(job) == ["Starting", "Stopping", "MaxWaitTimeExceeded"]
    assert job["TrainingJobStatus"] == "Stopped"
    assert not {"TrainingStartTime", "BillableTimeInSeconds", "TrainingTimeInSeconds"} & job.keys()


def test_an_interrupted_job_ends_at_its_maximum_wait(cloud: LocalCloud, sagemaker: SageMaker) -> None:
    name = sagemaker.create(WAITS, **spot(sagemaker, max_wait=5, max_run=5))
    reaches(sagemaker, name, "Training")
    trace(cloud, *NEVER)
    job = sagemaker.ended(name)
    assert statuses(job) == [*RUN, "Interrupted", "Stopping", "MaxWaitTimeExceeded"]


def test_the_maximum_wait_ends_a_restarted_job_and_keeps_its_model(cloud: LocalCloud, sagemaker: SageMaker) -> None:
    trace(cloud, (0.0, False), (3.0, True))
    name = sagemaker.create(COUNTS, **spot(sagemaker, max_wait=6, max_run=5))
    job = sagemaker.ended(name)
    assert statuses(job)[-3:] == ["Stopping", "Uploading", "MaxWaitTimeExceeded"]
    assert sagemaker.archive(name, "model.tar.gz") == ["weights"]


def test_the_maximum_runtime_includes_all_runs(cloud: LocalCloud, sagemaker: SageMaker) -> None:
    name = sagemaker.create(WAITS, **spot(sagemaker, max_run=6))
    reaches(sagemaker, name, "Training")
    trace(cloud, (2.0, False), (8.0, True))
    job = sagemaker.ended(name)
    assert job["SecondaryStatus"] == "MaxRuntimeExceeded"
    assert 5 <= job["TrainingTimeInSeconds"] <= 9, "about six seconds in both runs, without six of absence"


def test_a_container_that_ignores_sigterm_is_killed_after_the_grace_time(
    cloud: LocalCloud, sagemaker: SageMaker
) -> None:
    ignores = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: print('warned', flush=True));"
    name = sagemaker.create(ignores + "print('running', flush=True)\nwhile True: time.sleep(0.1)", **spot(sagemaker))
    wait_until(lambda: log(sagemaker, name))
    trace(cloud, *NEVER)
    wait_until(lambda: "warned" in log(sagemaker, name))
    warned_at = time.monotonic()
    reaches(sagemaker, name, "Interrupted")
    assert time.monotonic() - warned_at > 1.0
    sagemaker.api.stop_training_job(TrainingJobName=name)
    assert sagemaker.ended(name)["TrainingJobStatus"] == "Stopped"


def test_a_failure_before_the_interruption_fails_the_job(cloud: LocalCloud, sagemaker: SageMaker) -> None:
    # The second host continues for the grace time, in which the interruption comes.
    fails = READ + (
        "import signal, time; signal.signal(signal.SIGTERM, lambda *_: None);"
        "host = json.load(open(B + '/input/config/resourceconfig.json'))['current_host']; print(host, flush=True);"
        "sys.exit(3) if host == 'algo-1' else [time.sleep(0.1) for _ in range(600)]"
    )
    name = sagemaker.create(fails, hosts=2, **spot(sagemaker))
    wait_until(lambda: log(sagemaker, name))
    time.sleep(0.5)
    trace(cloud, *NEVER)
    assert sagemaker.ended(name)["FailureReason"].endswith("exit code: 3")


def test_interruptions_send_events(cloud: LocalCloud, sagemaker: SageMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(cloud, "put_event", lambda _region, event, *_: sent.append(event["detail"]))
    name = sagemaker.create(COUNTS, **spot(sagemaker))
    wait_until(lambda: log(sagemaker, name))
    trace(cloud, *NEVER)
    reaches(sagemaker, name, "Interrupted")
    sagemaker.api.stop_training_job(TrainingJobName=name)
    sagemaker.ended(name)
    expected = [*RUN, "Interrupted", "Stopping", "Stopped"]
    assert [event["SecondaryStatus"] for event in sent if event["TrainingJobName"] == name] == expected


def test_stubs_are_interrupted_and_continue_with_checkpoints(cloud: LocalCloud, sagemaker: SageMaker) -> None:
    absent = SpotCapacity(trace=((2.0, False), (3.0, True)))
    cloud.faults.set(FaultPlan(stubs=(Stub(seconds=4.0),), spot=(absent,)))
    without = {name: value for name, value in spot(sagemaker).items() if name != "CheckpointConfig"}
    names = [sagemaker.create(**spot(sagemaker)), sagemaker.create(**without)]
    continued, restarted = map(sagemaker.ended, names)
    assert statuses(continued).count("Interrupted") == statuses(restarted).count("Interrupted") == 1
    assert continued["TrainingTimeInSeconds"] < restarted["TrainingTimeInSeconds"]


@pytest.mark.parametrize("changes", [[], [[-1, False]], [[1, False], [1, True]], [[2, False], [1, True]]])
def test_a_trace_without_an_order_is_refused(changes: list[Any]) -> None:
    with pytest.raises(ValidationError):
        SpotCapacity.model_validate({"trace": changes})
