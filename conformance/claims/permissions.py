"""IAM: the permissions that calls require. Each claim assumes a role with exactly the statements that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.aws import Aws, refused
from conformance.claim import claim
from conformance.resources.batch import Batch
from conformance.resources.identity import acting_with, allow
from conformance.resources.storage import shared_bucket
from conformance.resources.training import Training
from conformance.sources import model, page

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.resources.identity import Statement

_DENIED = ("AccessDeniedException", "AccessDenied")
_BATCH = "https://docs.aws.amazon.com/service-authorization/latest/reference/list_batch.html"
_SAGEMAKER = "https://docs.aws.amazon.com/service-authorization/latest/reference/list_sagemaker.html"
_S3 = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html"


class Submitting:
    """SubmitJob with tags, and the statements that it requires."""

    def __init__(self, aws: Aws) -> None:
        self.aws, self.batch = aws, Batch.of(aws)
        self.definition = aws.once("definition/permissions", lambda: self.batch.define("nothing"))
        anywhere = f"arn:aws:batch:{aws.home}:{aws.account}"
        # The service reference of September 2026 lists jobs, too, as a resource type that SubmitJob requires.
        self.queue = allow("batch:SubmitJob", self.batch.queue, f"{anywhere}:job/*")
        self.definitions = allow("batch:SubmitJob", self.definition)
        self.tag_jobs = allow("batch:TagResource", f"{anywhere}:job/*")
        self.tag_queue = allow("batch:TagResource", self.batch.queue)
        self.tag_definition = allow("batch:TagResource", self.definition)

    def by(self, *statements: Statement) -> str:
        """Submit a job with a role that has these statements."""
        return self.batch.submit(self.definition, api=acting_with(self.aws, *statements)("batch"))


@claim(
    page(_BATCH, "Grants permission to submit an AWS Batch job from a job definition"),
    page("https://github.com/wri/gfw-data-api/pull/175", "is not authorized to perform: batch:TagResource on resource"),
    used_by="stacks/intake_permissions.py traingrid/aws/batch.py",
)
def submit_job_with_these_statements(aws: Aws) -> None:
    """SubmitJob with tags is allowed by SubmitJob and TagResource on jobs, the queue and the definition."""
    it = Submitting(aws)
    assert it.by(it.queue, it.definitions, it.tag_jobs, it.tag_queue, it.tag_definition)


@claim(
    page("https://github.com/wri/gfw-data-api/pull/175", "is not authorized to perform: batch:TagResource on resource"),
    used_by="stacks/intake_permissions.py",
)
def submit_job_tags_the_definition(aws: Aws) -> None:
    """SubmitJob with tags is refused without TagResource on the job definition, which the message names."""
    it = Submitting(aws)
    with refused(*_DENIED, text="batch:TagResource on resource"):
        it.by(it.queue, it.definitions, it.tag_jobs, it.tag_queue)


@claim(
    page(_BATCH, "Grants permission to submit an AWS Batch job from a job definition"),
    used_by="stacks/intake_permissions.py",
)
def submit_job_needs_the_definition(aws: Aws) -> None:
    """SubmitJob is refused without SubmitJob on the job definition."""
    it = Submitting(aws)
    with refused(*_DENIED, text="batch:SubmitJob"):
        it.by(it.queue, it.tag_jobs, it.tag_queue, it.tag_definition)


@claim(page(_BATCH, "job-queue*"), used_by="stacks/intake_permissions.py")
def submit_job_needs_the_queue(aws: Aws) -> None:
    """SubmitJob is refused without SubmitJob on the queue."""
    it = Submitting(aws)
    with refused(*_DENIED, text="batch:SubmitJob"):
        it.by(it.definitions, it.tag_jobs, it.tag_queue, it.tag_definition)


@claim(
    page(_BATCH, "Grants permission to list jobs for a specified AWS Batch job queue"),
    used_by="stacks/intake_permissions.py stacks/reconciler.py",
)
def list_jobs_knows_no_resource(aws: Aws) -> None:
    """ListJobs is allowed by a statement for all resources, but not by one for the queue's ARN."""
    queue = Batch.of(aws).queue
    acting_with(aws, allow("batch:ListJobs"))("batch").list_jobs(jobQueue=queue, jobStatus="RUNNING")
    with refused(*_DENIED):
        acting_with(aws, allow("batch:ListJobs", queue))("batch").list_jobs(jobQueue=queue, jobStatus="RUNNING")


class Creating:
    """CreateTrainingJob with tags, and the statements that it requires."""

    def __init__(self, aws: Aws) -> None:
        self.aws, self.training = aws, Training.of(aws)
        jobs = f"arn:aws:sagemaker:{aws.home}:{aws.account}:training-job/tgc-*"
        self.create = allow("sagemaker:CreateTrainingJob", jobs)
        self.add_tags = allow("sagemaker:AddTags", jobs)
        to_sagemaker = {"iam:PassedToService": "sagemaker.amazonaws.com"}
        self.pass_role = allow("iam:PassRole", self.training.role, StringEquals=to_sagemaker)

    def by(self, *statements: Statement, **members: Any) -> str:
        """Create a training job with a role that has these statements."""
        request = self.training.request(**members)
        name = str(request["TrainingJobName"])
        self.aws.undo.later(f"training job {name}", lambda: self.training.ended(name))
        acting_with(self.aws, *statements)("sagemaker").create_training_job(**request)
        return name


@claim(page(_SAGEMAKER, "sagemaker:AddTags"), used_by="stacks/child_permissions.py", trainings=1)
def create_training_job_with_these_statements(aws: Aws) -> None:
    """CreateTrainingJob with tags is allowed by CreateTrainingJob, AddTags, and PassRole for SageMaker."""
    it = Creating(aws)
    assert it.by(it.create, it.add_tags, it.pass_role)


def _without(aws: Aws, missing: str, kept: Callable[[Creating], tuple[Statement, ...]]) -> None:
    it = Creating(aws)
    request = it.training.request()
    with refused(*_DENIED, text=missing):
        acting_with(aws, *kept(it))("sagemaker").create_training_job(**request)


@claim(page(_SAGEMAKER, "iam:PassRole"), used_by="stacks/child_permissions.py")
def create_training_job_needs_pass_role(aws: Aws) -> None:
    """CreateTrainingJob is refused without iam:PassRole on the execution role."""
    _without(aws, "iam:PassRole", lambda it: (it.create, it.add_tags))


@claim(page(_SAGEMAKER, "sagemaker:AddTags"), used_by="stacks/child_permissions.py")
def create_training_job_needs_add_tags(aws: Aws) -> None:
    """CreateTrainingJob with tags is refused without sagemaker:AddTags."""
    _without(aws, "sagemaker:AddTags", lambda it: (it.create, it.pass_role))


@claim(
    page(
        "https://docs.aws.amazon.com/sagemaker/latest/dg/api-permissions-reference.html",
        "resource-level restrictions are not available on List- calls",
    ),
    used_by="stacks/watcher_permissions.py",
)
def list_training_jobs_knows_no_resource(aws: Aws) -> None:
    """ListTrainingJobs is allowed by a statement for all resources, but not by one for training jobs."""
    acting_with(aws, allow("sagemaker:ListTrainingJobs"))("sagemaker").list_training_jobs(MaxResults=1)
    jobs = f"arn:aws:sagemaker:{aws.home}:{aws.account}:training-job/*"
    with refused(*_DENIED):
        acting_with(aws, allow("sagemaker:ListTrainingJobs", jobs))("sagemaker").list_training_jobs(MaxResults=1)


@claim(model("s3", "GetObject", "the s3:ListBucket permission"), used_by="traingrid/aws/s3.py")
def missing_object_is_denied_without_list_bucket(aws: Aws) -> None:
    """Reading a missing object fails with AccessDenied without s3:ListBucket, and with NoSuchKey with it."""
    bucket, key = shared_bucket(aws), aws.name("missing")
    read = allow("s3:GetObject", f"arn:aws:s3:::{bucket}/*")
    with refused("AccessDenied"):
        acting_with(aws, read)("s3").get_object(Bucket=bucket, Key=key)
    with refused("NoSuchKey"):
        acting_with(aws, read, allow("s3:ListBucket", f"arn:aws:s3:::{bucket}"))("s3").get_object(
            Bucket=bucket, Key=key
        )


@claim(
    page(_S3, "Required if you want to get a specific version of an object"),
    used_by="stacks/child_permissions.py stacks/intake_permissions.py",
)
def version_of_an_object_needs_a_permission_of_its_own(aws: Aws) -> None:
    """GetObject with a version id requires s3:GetObjectVersion; s3:GetObject is not sufficient."""
    bucket, key = shared_bucket(aws), aws.name("versioned")
    version = aws.client("s3").put_object(Bucket=bucket, Key=key, Body=b"x")["VersionId"]
    what = {"Bucket": bucket, "Key": key, "VersionId": version}
    objects = f"arn:aws:s3:::{bucket}/*"
    acting_with(aws, allow("s3:GetObjectVersion", objects))("s3").get_object(**what)
    with refused("AccessDenied"):
        acting_with(aws, allow("s3:GetObject", objects))("s3").get_object(**what)


@claim(
    model("sts", "GetCallerIdentity", "No permissions are required to perform this operation"),
    used_by="traingrid/deploy/checkup/account.py traingrid/grid/deployment.py",
)
def caller_identity_needs_no_permission(aws: Aws) -> None:
    """GetCallerIdentity requires no permission."""
    assert acting_with(aws)("sts").get_caller_identity()["Account"] == aws.account


@claim(
    page(
        "https://docs.aws.amazon.com/service-authorization/latest/reference/list_logs.html",
        "retrieve log events from the specified log stream",
    ),
    used_by="stacks/child_permissions.py",
)
def log_events_are_read_by_stream(aws: Aws) -> None:
    """GetLogEvents is allowed by a statement for the group's streams, but not by one for another group's."""
    batch = Batch.of(aws)
    stream = batch.child(0)["container"]["logStreamName"]
    groups = f"arn:aws:logs:{aws.home}:{aws.account}:log-group"
    what = {"logGroupName": batch.group, "logStreamName": stream}
    acting_with(aws, allow("logs:GetLogEvents", f"{groups}:{batch.group}:log-stream:*"))("logs").get_log_events(**what)
    with refused(*_DENIED):
        acting_with(aws, allow("logs:GetLogEvents", f"{groups}:/other:log-stream:*"))("logs").get_log_events(**what)
