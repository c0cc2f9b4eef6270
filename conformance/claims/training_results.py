"""SageMaker: descriptions, lists, tags and outputs of training jobs."""

import io
import tarfile
from datetime import datetime, timedelta

from conformance.aws import Aws
from conformance.claim import claim
from conformance.resources.training import Training
from conformance.sources import model, page

_ARTIFACTS = "https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-output.html"


def _archive(training: Training, name: str, file: str) -> list[str]:
    body = training.s3.get_object(Bucket=training.bucket, Key=f"out/{name}/output/{file}")["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        return sorted(member.name.removeprefix("./") for member in tar if member.isfile())


@claim(
    model("sagemaker", "DescribeTrainingJobResponse", "Uploading - Training is complete"),
    used_by="traingrid/child/watch.py traingrid/backends/sagemaker/jobs.py",
    trainings=1,
)
def completed_job_went_through_the_phases(aws: Aws) -> None:
    """A completed training job has passed through Starting, Downloading, Training, Uploading and Completed."""
    job = Training.of(aws).specimen()
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Completed", "Completed")
    phases = [step["Status"] for step in job["SecondaryStatusTransitions"]]
    wanted = ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert [phase for phase in phases if phase in wanted] == wanted, phases


@claim(
    page(_ARTIFACTS, "single object in compressed tar format"),
    model("sagemaker", "ModelArtifacts", "s3://bucket-name/keynameprefix/model.tar.gz"),
    used_by="traingrid/backends/sagemaker/jobs.py",
    trainings=1,
)
def model_is_at_a_known_key(aws: Aws) -> None:
    """The model is at <S3OutputPath>/<job>/output/model.tar.gz, which ModelArtifacts contains."""
    training = Training.of(aws)
    job = training.specimen()
    name = job["TrainingJobName"]
    expected = f"s3://{training.bucket}/out/{name}/output/model.tar.gz"
    assert job["ModelArtifacts"]["S3ModelArtifacts"] == expected
    assert _archive(training, name, "model.tar.gz") == ["algo-1"]


@claim(
    page(_ARTIFACTS, "artifacts you want to store other than the final model"),
    used_by="training_container/contract/training_job.py docs/training.md",
    trainings=1,
)
def other_output_is_beside_the_model(aws: Aws) -> None:
    """Files in /opt/ml/output/data are stored in output.tar.gz next to the model."""
    training = Training.of(aws)
    assert "plot" in [
        name.rpartition("/")[2] for name in _archive(training, training.specimen()["TrainingJobName"], "output.tar.gz")
    ]


@claim(
    page(_ARTIFACTS, "If multiple containers in a single training job write to this directory"),
    used_by="training_container/trainer/checkpoints/checkpoints.py",
    trainings=2,
)
def model_holds_the_files_of_all_hosts(aws: Aws) -> None:
    """model.tar.gz contains the files that all hosts wrote to /opt/ml/model."""
    training = Training.of(aws)
    assert _archive(training, training.cluster()["TrainingJobName"], "model.tar.gz") == ["algo-1", "algo-2"]


@claim(
    page(
        "https://docs.aws.amazon.com/sagemaker/latest/dg/training-metrics.html",
        "list of the metric values that it computes in its final iteration",
    ),
    used_by="traingrid/backends/sagemaker/jobs.py traingrid/child/progress.py",
    trainings=1,
)
def metric_is_the_last_that_was_printed(aws: Aws) -> None:
    """FinalMetricDataList contains the last logged value that matches a metric definition's expression."""
    metrics = Training.of(aws).specimen()["FinalMetricDataList"]
    assert [(metric["MetricName"], round(metric["Value"], 6)) for metric in metrics] == [("loss", 0.25)]


@claim(
    model("sagemaker", "DescribeTrainingJobResponse", "The billable time in seconds"),
    model("sagemaker", "DescribeTrainingJobResponse", "You are billed for the time interval between this time"),
    used_by="traingrid/backends/sagemaker/jobs.py traingrid/ledger/spending.py",
    trainings=1,
)
def ended_job_tells_its_billable_seconds(aws: Aws) -> None:
    """An ended training job is described with TrainingStartTime, TrainingTimeInSeconds and BillableTimeInSeconds."""
    job = Training.of(aws).specimen()
    assert job["TrainingStartTime"] < job["TrainingEndTime"]
    assert job["TrainingTimeInSeconds"] >= 1
    assert job["BillableTimeInSeconds"] >= 1


@claim(
    model("sagemaker", "DescribeTrainingJobResponse", "HyperParameters"),
    used_by="traingrid/job/ownership.py traingrid/backends/sagemaker/request.py",
    trainings=1,
)
def job_is_described_as_it_was_asked_for(aws: Aws) -> None:
    """DescribeTrainingJob returns the request's hyperparameters, environment, channels, resources and limits."""
    training = Training.of(aws)
    job = training.specimen()
    asked = training.request("observe", HyperParameters={"lr": "0.1"}, Environment={"MINE": "1"})
    for member in ("HyperParameters", "Environment", "RoleArn"):
        assert job[member] == asked[member], member
    for member in ("ResourceConfig", "StoppingCondition", "OutputDataConfig"):
        assert asked[member].items() <= job[member].items(), f"{member}: {job[member]}"
    assert [channel["ChannelName"] for channel in job["InputDataConfig"]] == [
        "program",
        "file",
        "fast",
        "pipe",
        "prefix",
    ]
    assert job["AlgorithmSpecification"]["TrainingImage"] == training.image


@claim(
    model("sagemaker", "ListTagsOutput", "Tags"),
    used_by="traingrid/job/ownership.py",
    trainings=1,
)
def tags_of_the_request_are_listed(aws: Aws) -> None:
    """ListTags returns the tags with which a training job was created."""
    training = Training.of(aws)
    arn = training.specimen()["TrainingJobArn"]
    tags = training.api.list_tags(ResourceArn=arn)["Tags"]
    assert aws.tags()[0] in tags


@claim(
    model("sagemaker", "ListTrainingJobsRequest", "only training jobs whose name contains the specified string"),
    used_by="traingrid/backends/sagemaker/inventory.py",
    trainings=1,
)
def jobs_are_listed_by_a_part_of_the_name(aws: Aws) -> None:
    """ListTrainingJobs filters jobs by a part of the name and by status."""
    training = Training.of(aws)
    name = training.specimen()["TrainingJobName"]

    def listed(status: str) -> list[str]:
        found = training.api.list_training_jobs(NameContains=name[4:], StatusEquals=status)["TrainingJobSummaries"]
        return [job["TrainingJobName"] for job in found]

    aws.wait(lambda: listed("Completed") == [name], "the list of training jobs")
    assert listed("Failed") == []


@claim(
    model("sagemaker", "ListTrainingJobsRequest", "only training jobs created after the specified time"),
    used_by="traingrid/backends/sagemaker/inventory.py",
    trainings=1,
)
def jobs_are_listed_by_their_creation(aws: Aws) -> None:
    """ListTrainingJobs omits jobs that were created before a time, and no others."""
    training = Training.of(aws)
    name, created = training.specimen()["TrainingJobName"], training.specimen()["CreationTime"]

    def listed(since: datetime) -> list[str]:
        found = training.api.list_training_jobs(
            NameContains=name, CreationTimeAfter=since, SortBy="CreationTime", SortOrder="Descending", MaxResults=100
        )
        return [job["TrainingJobName"] for job in found["TrainingJobSummaries"]]

    aws.wait(lambda: listed(created - timedelta(minutes=1)) == [name], "the list of training jobs")
    assert listed(created + timedelta(minutes=1)) == []


@claim(
    model("sagemaker", "TrainingJobSummary", "This field is set only if the training job has one of the terminal"),
    used_by="traingrid/backends/sagemaker/inventory.py",
    trainings=1,
)
def listed_job_has_an_end_only_if_it_has_ended(aws: Aws) -> None:
    """ListTrainingJobs returns a TrainingEndTime only for jobs that have ended."""
    training = Training.of(aws)
    ended = training.specimen()["TrainingJobName"]
    runs = training.start("exits_on_sigterm")

    def summary(name: str) -> dict[str, object]:
        found = training.api.list_training_jobs(NameContains=name)["TrainingJobSummaries"]
        return dict(found[0]) if found else {}

    assert "TrainingEndTime" in aws.wait(lambda: summary(ended))
    assert "TrainingEndTime" not in aws.wait(lambda: summary(runs))
