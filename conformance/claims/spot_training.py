"""SageMaker: interruptions, waits and billable time of managed spot training."""

from contextlib import AbstractContextManager
from typing import Any

from conformance.aws import Aws
from conformance.claim import claim, documented
from conformance.resources.training import MAX_MINUTES, Training
from conformance.sources import model, page

_STATUSES = "https://docs.aws.amazon.com/sagemaker/latest/dg/model-managed-spot-training-status.html"


def _spot(max_wait: int = MAX_MINUTES * 60, max_runtime: int | None = None) -> dict[str, Any]:
    """Return the members of a request for spot instances; the times are in seconds."""
    limits = {"MaxRuntimeInSeconds": max_runtime or max_wait, "MaxWaitTimeInSeconds": max_wait}
    return {"EnableManagedSpotTraining": True, "StoppingCondition": limits}


def _without_spot_capacity(training: Training) -> AbstractContextManager[None]:
    take = training.aws.place.without_spot_capacity
    assert take, "only a localcloud can take spot capacity away"
    return take(training.region)


def _statuses(job: dict[str, Any]) -> list[str]:
    """Return the statuses that a job has had, without those whose presence depends on its channels and its image."""
    transitions = [entry["Status"] for entry in job["SecondaryStatusTransitions"]]
    return [status for status in transitions if status not in ("Pending", "Downloading", "Uploading")]


@documented(
    model("sagemaker", "DescribeTrainingJobResponse", "the managed spot training instances were interrupted"),
    page(_STATUSES, "Later, enough spot instances were acquired to finish the training job"),
    used_by="traingrid/job/observed.py traingrid/child/watch.py",
    why="an interruption of spot instances cannot be provoked",
    checked_locally=True,
)
def interrupted_spot_training_starts_again(aws: Aws) -> None:
    """An interrupted spot training job is InProgress, with the phase Interrupted, and starts again; no other job is."""
    training = Training.of(aws, aws.away)  # where no other claim takes the capacity away
    names = [training.start("exits_on_sigterm", **more) for more in (_spot(), {})]
    spot, on_demand = names
    for name in names:
        training.reached(name, "Training")
    with _without_spot_capacity(training):
        assert training.reached(spot, "Interrupted")["TrainingJobStatus"] == "InProgress"
    training.reached(spot, "Training")
    for name in names:
        training.api.stop_training_job(TrainingJobName=name)
    run = ["Starting", "Training"]
    assert _statuses(training.ended(spot)) == [*run, "Interrupted", *run, "Stopping", "Stopped"]
    assert _statuses(training.ended(on_demand)) == [*run, "Stopping", "Stopped"]


@documented(
    model("sagemaker", "DescribeTrainingJobResponse", "it exceeded the maximum allowed wait time"),
    page(_STATUSES, "Spot instances interrupted twice and MaxWaitTimeInSeconds exceeded"),
    used_by="traingrid/job/failures.py",
    why="an interruption of spot instances cannot be provoked",
    checked_locally=True,
)
def interrupted_spot_training_is_stopped(aws: Aws) -> None:
    """A spot training job that does not recover from an interruption ends as Stopped, with MaxWaitTimeExceeded."""
    training = Training.of(aws)
    name = training.start("exits_on_sigterm", **_spot(round(aws.seconds(400))))
    training.reached(name, "Training")
    with _without_spot_capacity(training):
        job = training.ended(name)
    assert job["TrainingJobStatus"] == "Stopped"
    assert _statuses(job) == ["Starting", "Training", "Interrupted", "Stopping", "MaxWaitTimeExceeded"]


@claim(
    model("sagemaker", "DescribeTrainingJobResponse", "(1 - BillableTimeInSeconds / TrainingTimeInSeconds) * 100"),
    page(
        "https://github.com/aws/amazon-sagemaker-examples/blob/main/introduction_to_amazon_algorithms/xgboost_abalone/"
        "xgboost_managed_spot_training.ipynb",
        "the time you will be billed for after Spot discounting is applied",
    ),
    used_by="traingrid/ledger/spending.py traingrid/catalog/tables.py",
    trainings=1,
)
def spot_training_has_fewer_billable_seconds(aws: Aws) -> None:
    """A spot training job has fewer billable than training seconds, also if it was not interrupted."""
    runtime = round(aws.seconds(60))
    job = Training.of(aws).run("exits_on_sigterm", **_spot(max_runtime=runtime))
    assert 0 < job["BillableTimeInSeconds"] < job["TrainingTimeInSeconds"]
