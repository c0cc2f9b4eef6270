"""SageMaker: failures, stops and time limits of training jobs."""

from conformance.aws import Aws, refused
from conformance.claim import claim
from conformance.resources.identity import allow, document, role
from conformance.resources.training import Training
from conformance.sources import model, page

GRACE_SECONDS = 120.0


@claim(
    page(
        "https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-signal-success-failure.html",
        "unsuccessful training execution should exit with a non-zero exit code",
    ),
    page(
        "https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-output.html",
        "the first 1024 characters from this file as FailureReason",
    ),
    used_by="training_container/launcher/failure.py traingrid/job/failures.py",
    trainings=1,
)
def failure_file_is_the_reason(aws: Aws) -> None:
    """A container with a nonzero exit code fails its job; FailureReason contains /opt/ml/output/failure."""
    job = Training.of(aws).run("failing")
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("AlgorithmError"), job["FailureReason"]
    assert "the reason of the failure" in job["FailureReason"]
    assert "3" in job["FailureReason"], "the exit code"


@claim(
    model("sagemaker", "StopTrainingJob", "SIGTERM signal, which delays job termination for 120 seconds"),
    used_by="training_container/contract/stopping.py",
    trainings=1,
)
def stopped_container_has_120_seconds(aws: Aws) -> None:
    """StopTrainingJob sends SIGTERM; a container that does not exit is killed about 120 seconds later."""
    training = Training.of(aws)
    name = training.running("ignores_sigterm")
    training.api.stop_training_job(TrainingJobName=name)
    assert training.ended(name)["TrainingJobStatus"] == "Stopped"
    lived = [float(line.rpartition(" ")[2]) for line in training.lines(name) if line.startswith("seconds since")]
    assert lived, "the container printed no line after SIGTERM"
    assert aws.near(lived[-1], GRACE_SECONDS), f"killed {lived[-1]} s after SIGTERM"


@claim(
    model("sagemaker", "StopTrainingJob", "SageMaker changes the status of the job to Stopping"),
    used_by="traingrid/backends/sagemaker/jobs.py traingrid/child/launch.py",
    trainings=1,
)
def stopping_job_may_be_stopped_again(aws: Aws) -> None:
    """StopTrainingJob for a job in Stopping succeeds, and the model that the job saves is kept."""
    training = Training.of(aws)
    name = training.running("exits_on_sigterm")
    training.api.stop_training_job(TrainingJobName=name)
    training.api.stop_training_job(TrainingJobName=name)
    assert training.describe(name)["TrainingJobStatus"] in ("Stopping", "Stopped")
    job = training.ended(name)
    assert job["TrainingJobStatus"] == "Stopped"
    key = f"out/{name}/output/model.tar.gz"
    assert training.s3.head_object(Bucket=training.bucket, Key=key)["ContentLength"] > 0


@claim(
    page("https://github.com/awslabs/benchmark-ai/issues/928", "because the training job is in status Stopped"),
    used_by="traingrid/backends/sagemaker/jobs.py",
    trainings=1,
)
def ended_job_cannot_be_stopped(aws: Aws) -> None:
    """StopTrainingJob for an ended job fails with ValidationException, and the message contains the status."""
    training = Training.of(aws)
    name = training.specimen()["TrainingJobName"]
    with refused("ValidationException", text="is in status Completed"):
        training.api.stop_training_job(TrainingJobName=name)


@claim(
    model("sagemaker", "DescribeTrainingJobResponse", "it exceeded the maximum allowed runtime"),
    used_by="traingrid/job/failures.py",
    trainings=1,
)
def time_limit_ends_a_job(aws: Aws) -> None:
    """A job that exceeds MaxRuntimeInSeconds ends as Stopped with the secondary status MaxRuntimeExceeded."""
    training = Training.of(aws)
    limit = {"MaxRuntimeInSeconds": max(1, round(aws.seconds(60)))}
    job = training.run("exits_on_sigterm", StoppingCondition=limit)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")


@claim(
    model("sagemaker", "OutputDataConfig", "execution role must include permissions to call kms:Encrypt"),
    used_by="stacks/keys.py stacks/region_stack.py",
    trainings=1,
)
def output_key_needs_encrypt(aws: Aws) -> None:
    """With OutputDataConfig.KmsKeyId, an execution role without kms:Encrypt is refused, or the job fails."""
    training, kms = Training.of(aws), aws.client("kms")
    # Like the product's keys, this key's policy delegates the decision to the roles' policies.
    everyone = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{aws.account}:root"}, "Action": "kms:*"}
    made = kms.create_key(
        Tags=aws.tags("TagKey", "TagValue"), Policy=document({**everyone, "Resource": "*"}), Description="conformance"
    )
    key, key_id = made["KeyMetadata"]["Arn"], made["KeyMetadata"]["KeyId"]
    aws.undo.later(f"key {key}", lambda: kms.schedule_key_deletion(KeyId=key_id, PendingWindowInDays=7))
    weak = role(
        aws,
        "no-encrypt",
        {"Service": "sagemaker.amazonaws.com"},
        allow("s3:* ecr:* logs:* cloudwatch:PutMetricData"),
        allow("kms:Decrypt kms:GenerateDataKey", key),
    )
    output = {"S3OutputPath": f"s3://{training.bucket}/out", "KmsKeyId": key}
    try:
        name = training.start(RoleArn=weak, OutputDataConfig=output)
    except training.api.exceptions.ClientError as error:
        if "KMS" in str(error) or "AccessDenied" in str(error):
            return
        raise
    job = training.ended(name)
    assert job["TrainingJobStatus"] == "Failed", "the job completed without kms:Encrypt"
    assert "kms" in job["FailureReason"].lower(), job["FailureReason"]
