"""Region guard: lambda/guard_regions, and the custom resource that calls it first in an update of the control stack."""

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
from traingrid.grid.model import GridSettings
from traingrid.grid.region import Region

MAX_ANSWER_DURATION = Duration.minutes(5)
"""The function reads the whole ledger, as a pass does."""

ANSWER_TIMEOUT = Duration.minutes(20)
"""Lambda tries an event up to three times, with delays of one and two minutes."""


class RegionGuard(Construct):
    """Refuses an update that removes a Region, or another resource, that open jobs need.

    `before` delays changes of other parts until the guard has responded. Otherwise a role that loses its permissions in
    a Region would fail the lines that are about to start there, even if the update is rolled back a minute later.
    """

    def __init__(self, scope: Construct, identifier: str, *, grid: GridSettings, runtime: Runtime) -> None:
        super().__init__(scope, identifier)
        guard = EventFunction(
            self,
            "Answer",
            name=names.guard_function(grid.name),
            handler="lambda.guard_regions.handler",
            description="Refuses deployments that remove a Region, or the grid, while jobs are open",
            runtime=runtime,
            timeout=MAX_ANSWER_DURATION,
            role_name=names.guard_role(grid.name),
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
                "Elsewhere": dict(sorted(grid.other_accounts().items())),
                **_held_by_jobs(grid),
            },
        )
        self._question.node.add_dependency(guard)

    def before(self, *parts: IConstruct) -> None:
        """Change these parts of the stack only after the guard has responded."""
        for part in parts:
            part.node.add_dependency(self._question)


def _held_by_jobs(grid: GridSettings) -> dict[str, Any]:
    """Return the settings that open jobs depend on; traingrid/deploy/guarded_changes.py decides about each change."""
    return {
        "ChildRole": names.home_role(grid.name, "launch"),
        "Network": grid.network.kind,
        "Encryption": grid.encryption.kind,
        "Keys": dict(sorted(grid.encryption.keys.items())),
        "Zones": [] if grid.network.kind == "existing" else zones(grid),
        "Queue": names.job_queue(grid.name, shared=bool(grid.shares)),
        "Clusters": {
            region: place for region, settings in sorted(grid.regions.items()) if (place := _cluster_place(settings))
        },
        "ServiceQueues": {region: queue for region in sorted(grid.regions) if (queue := grid.service_queue(region))},
    }


def _cluster_place(settings: Region) -> str:
    """Return the cluster, namespace and service account of a Region's pods; empty without a cluster."""
    return settings.eks.place if settings.eks else ""


def let_look(role: iam.Role, grid: GridSettings, bucket: s3.Bucket, ledger: dynamodb.ITable) -> None:
    """Allow a role to read which jobs are open, and the state of the stacks. It cannot change anything."""
    grant(role, ["dynamodb:GetItem", "dynamodb:Query", "dynamodb:Scan"], [ledger.table_arn])
    submissions = f"{bucket.bucket_arn}/{names.SUBMISSION_PREFIX}*"
    grant(role, ["s3:GetObject"], [submissions], because="Any submission; their ids are hashes")
    # Without it, S3 returns AccessDenied for a file that the intake has not written yet, as for a forbidden one.
    grant(role, ["s3:ListBucket"], [bucket.bucket_arn])
    grant(
        role,
        ["sagemaker:ListTrainingJobs"],
        ["*"],
        because="The action does not support resources; jobs of other owners are ignored",
    )
    grant(
        role,
        ["cloudformation:DescribeStacks"],
        [_stack(grid, name) for name in (names.control_stack(grid.name), names.guard_stack(grid.name))],
        because="CloudFormation appends an id of its choice to a stack's ARN",
    )


def _stack(grid: GridSettings, name: str) -> str:
    return f"arn:aws:cloudformation:{grid.home}:{Aws.ACCOUNT_ID}:stack/{name}/*"
