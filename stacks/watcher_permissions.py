"""Permissions of the parts that start nothing: the recorder of events, and the reconciler, which stops jobs."""

from collections.abc import Collection

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from stacks.grants import grant
from stacks.training_job_permissions import WHOSE, training_jobs
from traingrid import names
from traingrid.grid.model import GridSettings


def let_record_events(role: iam.Role, ledger: dynamodb.ITable) -> None:
    """Allow a role to record in the ledger how a job ended."""
    grant(role, ["dynamodb:UpdateItem"], [ledger.table_arn])


def let_see(role: iam.Role, grid: GridSettings, regions: Collection[str]) -> None:
    """Allow a role to read the state of this grid's jobs in Regions of the same account. It can start and stop none."""
    looks = ["sagemaker:DescribeTrainingJob", "sagemaker:ListTags"]
    if regions:
        grant(role, looks, training_jobs(grid, regions), because=WHOSE)


def let_close_lines(role: iam.Role, bucket: s3.Bucket, ledger: dynamodb.ITable) -> None:
    """Allow a role to read the ledger, submissions and Batch jobs, and to close lines."""
    reads = ["dynamodb:Scan", "dynamodb:Query", "dynamodb:GetItem"]
    grant(role, [*reads, "dynamodb:PutItem", "dynamodb:UpdateItem"], [ledger.table_arn])
    grant(
        role,
        ["dynamodb:DeleteItem"],
        [ledger.table_arn],
        # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html. ForAllValues also
        # matches a request without the key; Null excludes it.
        conditions={
            "ForAllValues:StringEquals": {"dynamodb:LeadingKeys": [names.OPEN_SUBMISSIONS]},
            "Null": {"dynamodb:LeadingKeys": "false"},
        },
    )
    grant(
        role,
        ["s3:GetObject", "s3:GetObjectVersion"],
        [f"{bucket.bucket_arn}/{names.SUBMISSION_PREFIX}*"],
        because="Any submission; their ids are hashes",
    )
    # Without it, S3 returns AccessDenied for a file that the intake has not written yet, as for a forbidden one.
    grant(role, ["s3:ListBucket"], [bucket.bucket_arn])
    grant(
        role,
        ["batch:DescribeJobs", "batch:ListJobs"],
        ["*"],
        because="The actions do not support resources; they find terminated children and unrecorded arrays",
    )


def let_see_and_stop(role: iam.Role, grid: GridSettings, regions: Collection[str]) -> None:
    """Allow a role to find and stop training jobs of this grid in Regions of the same account.

    It can create none and pass no role.
    """
    if not regions:
        return
    grant(
        role,
        ["sagemaker:ListTrainingJobs"],
        ["*"],
        because="The action does not support resources; jobs of other owners are ignored",
    )
    stops = ["sagemaker:DescribeTrainingJob", "sagemaker:StopTrainingJob", "sagemaker:ListTags"]
    grant(role, stops, training_jobs(grid, regions), because=WHOSE)
