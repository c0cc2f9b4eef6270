"""lambda/guard_regions, and the question that an update of the control stack begins with."""

from typing import Any

from aws_cdk import Aws, CustomResource, Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct

from stacks.event_function import EventFunction, Runtime
from stacks.grants import grant
from stacks.network import zones
from traingrid import names
from traingrid.grid import Grid

LONGEST_ANSWER = Duration.minutes(5)
"""It reads the whole ledger, as a sweep does."""

ANSWER_TIMEOUT = Duration.minutes(20)
"""Lambda tries an event three times, a minute and two minutes apart."""


class RegionGuard(Construct):
    """Refuses an update that removes a Region in which jobs have not ended, or something else that open jobs need.

    `before` says what must not change until it has answered: a role that may no longer train in a Region would fail
    the lines that are about to go there, even if the update is taken back a minute later.
    """

    def __init__(self, scope: Construct, identifier: str, *, grid: Grid, runtime: Runtime) -> None:
        super().__init__(scope, identifier)
        guard = EventFunction(
            self,
            "Answer",
            name=names.guard_function(grid.name),
            handler="lambda.guard_regions.handler",
            description="Refuses deployments that take a Region, or the grid, from jobs that have not ended",
            runtime=runtime,
            timeout=LONGEST_ANSWER,
        )
        self.function = guard.function
        self.role: iam.Role = guard.role
        self.dead_letters: sqs.Queue = guard.dead_letters
        self._question = CustomResource(
            self,
            "Regions",
            service_token=guard.function.function_arn,
            resource_type=names.REGIONS_QUESTION,
            service_timeout=ANSWER_TIMEOUT,
            properties={
                "Regions": sorted(grid.regions),
                "Abandoned": sorted(grid.abandoned_regions),
                "Elsewhere": dict(sorted(grid.elsewhere().items())),
                **_held_by_jobs(grid),
            },
        )
        self._question.node.add_dependency(guard)

    def before(self, *parts: IConstruct) -> None:
        """Let parts of the stack be changed only after the answer."""
        for part in parts:
            part.node.add_dependency(self._question)


def _held_by_jobs(grid: Grid) -> dict[str, Any]:
    """Return what open jobs need as it is; traingrid/guarded_changes.py decides about each change."""
    return {
        "ChildRole": names.home_role(grid.name, "launch"),
        "Network": grid.network.kind,
        "Encryption": grid.encryption.kind,
        "Keys": dict(sorted(grid.encryption.keys.items())),
        "Zones": [] if grid.network.kind == "existing" else zones(grid),
        "Queue": names.job_queue(grid.name, shared=bool(grid.shares)),
        "ServiceQueues": {region: queue for region in sorted(grid.regions) if (queue := grid.service_queue(region))},
    }


def let_look(role: iam.Role, grid: Grid, bucket: s3.Bucket, ledger: dynamodb.ITable) -> None:
    """Allow a role to see what has not ended, and what CloudFormation is doing. It can change nothing."""
    grant(role, ["dynamodb:Scan"], [ledger.table_arn])
    submissions = f"{bucket.bucket_arn}/{names.SUBMISSION_PREFIX}*"
    grant(role, ["s3:GetObject"], [submissions], because="Any submission; their ids are hashes")
    # Without it S3 answers AccessDenied for a file that the intake has not written yet, as if it were forbidden.
    grant(role, ["s3:ListBucket"], [bucket.bucket_arn])
    grant(
        role,
        ["batch:DescribeJobs", "sagemaker:ListTrainingJobs"],
        ["*"],
        because="The actions know no resource; what is not of this grid is not looked at",
    )
    grant(
        role,
        ["cloudformation:DescribeStacks"],
        [_stack(grid, name) for name in (names.control_stack(grid.name), names.guard_stack(grid.name))],
        because="The end of a stack's id is CloudFormation's choice",
    )


def _stack(grid: Grid, name: str) -> str:
    return f"arn:aws:cloudformation:{grid.home}:{Aws.ACCOUNT_ID}:stack/{name}/*"
