"""Permissions of the intake: read manifests, write submissions, and submit to this grid's queue."""

from aws_cdk import Aws
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from stacks.grants import grant
from stacks.orchestrator import Orchestrator
from traingrid import names
from traingrid.grid.model import GridSettings


def let_accept(role: iam.Role, bucket: s3.Bucket, ledger: dynamodb.ITable) -> None:
    """Allow a role to read manifests, and to write submissions and reports."""
    grant(
        role,
        ["s3:GetObject", "s3:GetObjectVersion"],
        [f"{bucket.bucket_arn}/{names.MANIFEST_PREFIX}*"],
        because="Users choose the names of manifests",
    )
    reports = f"{bucket.bucket_arn}/{names.MANIFEST_PREFIX}*{names.REPORT_SUFFIX}"
    grant(
        role,
        ["s3:PutObject"],
        [f"{bucket.bucket_arn}/{names.SUBMISSION_PREFIX}*", reports],
        because="A report is next to its manifest; the suffix prevents overwriting manifests",
    )
    grant(role, ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], [ledger.table_arn])


def let_submit(role: iam.Role, grid: GridSettings, orchestrator: Orchestrator) -> None:
    """Allow a role to submit jobs to this grid's queue only.

    It can neither register a job definition nor pass a role, so it can only run the orchestrator.
    """
    batch = f"arn:aws:batch:{grid.home}:{Aws.ACCOUNT_ID}"
    submitted = [
        orchestrator.queue.job_queue_arn,
        f"{batch}:job-definition/{names.job_definition(grid.name)}:*",
        f"{batch}:job/*",
    ]
    because = (
        "Batch chooses the ids of jobs, and a deployment registers a new revision of the orchestrator's definition"
    )
    grant(role, ["batch:SubmitJob"], submitted, because=because)
    # For SubmitJob with tags, IAM also checks TagResource on SubmitJob's resources, not only on the new job: errors
    # name the job definition (https://github.com/wri/gfw-data-api/pull/175,
    # tests/integration/policies/refusals/batch.yaml).
    grant(
        role,
        ["batch:TagResource"],
        submitted,
        # ForAllValues also matches a request without tags; Null excludes it, as the intake always sends tags.
        conditions={
            "ForAllValues:StringEquals": {"aws:TagKeys": [names.TAG_GRID, names.TAG_SUBMISSION]},
            "Null": {"aws:TagKeys": "false"},
        },
        because=because,
    )
    grant(
        role,
        ["batch:ListJobs"],
        ["*"],
        because="The action does not support resources; it finds a submission whose reply was lost",
    )
