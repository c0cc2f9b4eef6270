"""SageMaker: names of training jobs, which traingrid uses as idempotency tokens."""

from conformance.aws import Aws, refused
from conformance.claim import claim
from conformance.resources.training import Training
from conformance.sources import model, page

UNKNOWN = ("ValidationException", "ResourceNotFound")


@claim(
    model("sagemaker", "CreateTrainingJob", "ResourceInUse"),
    page(
        "https://github.com/aws/amazon-sagemaker-examples/issues/3108",
        "Training job names must be unique within an AWS account and region",
    ),
    used_by="traingrid/child/launch.py traingrid/job/failures.py",
    trainings=1,
)
def name_is_accepted_once(aws: Aws) -> None:
    """CreateTrainingJob refuses the name of an existing training job with ResourceInUse."""
    training = Training.of(aws)
    name = training.specimen()["TrainingJobName"]
    with refused("ResourceInUse", text="already exists"):
        training.start(TrainingJobName=name)


@claim(
    model("sagemaker", "CreateTrainingJobRequest", "The name must be unique within an Amazon Web Services Region"),
    used_by="traingrid/names.py traingrid/child/launch.py",
    trainings=1,
)
def name_is_unique_in_one_region(aws: Aws) -> None:
    """The same training job name is accepted in another Region."""
    name = Training.of(aws).specimen()["TrainingJobName"]
    there = Training.of(aws, aws.away)
    there.start(TrainingJobName=name)


@claim(
    page(
        "https://github.com/aws/aws-sdk/issues/165", "returns ValidationException instead of ResourceNotFoundException"
    ),
    page("https://github.com/boto/boto3/issues/2808", "ValidationException instead of ResourceNotFound"),
    used_by="traingrid/job/ownership.py traingrid/child/launch.py",
)
def unknown_name_is_a_validation_exception(aws: Aws) -> None:
    """DescribeTrainingJob for an unknown name fails with ValidationException: Requested resource not found."""
    with refused("ValidationException", text="Requested resource not found"):
        Training.of(aws).describe(aws.name("unknown"))


@claim(
    model("sagemaker", "StopTrainingJob", "errors: ResourceNotFound"),
    used_by="traingrid/backends/sagemaker/jobs.py",
)
def unknown_name_cannot_be_stopped(aws: Aws) -> None:
    """StopTrainingJob for an unknown name fails with ValidationException or ResourceNotFound."""
    with refused(*UNKNOWN):
        aws.client("sagemaker").stop_training_job(TrainingJobName=aws.name("unknown"))


@claim(
    page("https://github.com/boto/boto3/issues/4606", "when calling the ListTags operation: Resource does not exist"),
    used_by="traingrid/job/ownership.py",
)
def tags_of_an_unknown_name_are_refused(aws: Aws) -> None:
    """ListTags for an unknown training job's ARN fails with ValidationException or ResourceNotFound."""
    arn = f"arn:aws:sagemaker:{aws.home}:{aws.account}:training-job/{aws.name('unknown')}"
    with refused(*UNKNOWN):
        aws.client("sagemaker").list_tags(ResourceArn=arn)


@claim(
    page("https://github.com/Kenza-AI/sagify/issues/57", "allow TrainingJobs to have underscores in their names"),
    used_by="traingrid/names.py",
)
def name_has_no_underscores(aws: Aws) -> None:
    """A training job name with an underscore is refused with ValidationException."""
    training = Training.of(aws)
    with refused("ValidationException"):
        training.start(TrainingJobName="under_score")


@claim(model("sagemaker", "TrainingJobName", '"max": 63'), used_by="traingrid/names.py traingrid/grid/model.py")
def name_has_at_most_63_characters(aws: Aws) -> None:
    """A training job name of 64 characters is refused with ValidationException."""
    training = Training.of(aws)
    with refused("ValidationException"):
        training.start(TrainingJobName="n" * 64)


@claim(
    page("https://github.com/boto/boto3/issues/4606", "even when the actual arn contains upper case letters"),
    used_by="traingrid/backends/queued/jobs.py stacks/training_job_permissions.py",
    trainings=1,
)
def arn_keeps_the_case_of_the_name(aws: Aws) -> None:
    """The ARN of a training job ends with its name exactly as given, including upper case."""
    training = Training.of(aws)
    name = training.start(TrainingJobName=f"TGC-{aws.name('UPPER')}")
    assert training.describe(name)["TrainingJobArn"].endswith(f":training-job/{name}")


@claim(
    model("sagemaker", "DeleteTrainingJob", "you can reuse its name to create another training job"),
    used_by="traingrid/child/launch.py traingrid/ledger/record_outcome.py",
    trainings=1,
)
def deleted_name_is_free_again(aws: Aws) -> None:
    """After DeleteTrainingJob, a training job is unknown, and its name is accepted again."""
    training = Training.of(aws)
    name = training.run("nothing")["TrainingJobName"]
    training.api.delete_training_job(TrainingJobName=name)
    with refused(*UNKNOWN):
        training.describe(name)
    training.start(TrainingJobName=name)


@claim(
    model("sagemaker", "DeleteTrainingJob", "You cannot delete a job that is in the InProgress or Stopping state"),
    used_by="traingrid/child/launch.py",
    trainings=1,
)
def running_training_job_cannot_be_deleted(aws: Aws) -> None:
    """DeleteTrainingJob is refused while a training job runs."""
    training = Training.of(aws)
    name = training.start("exits_on_sigterm")
    with refused("ResourceInUse", "ValidationException"):
        training.api.delete_training_job(TrainingJobName=name)
