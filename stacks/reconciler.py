"""Reconciler: regularly checks the whole grid, closes lines without a child, and stops unwanted training jobs."""

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.event_function import EventFunction, Runtime
from traingrid import names
from traingrid.backoff import PASS_SECONDS
from traingrid.grid.model import GridSettings

MAX_PASS_DURATION = Duration.seconds(PASS_SECONDS - 30)
"""A pass ends before the next one begins. Two at once are harmless, but double the calls to SageMaker."""


class Reconciler(Construct):
    """lambda/reconcile, invoked on a schedule. Passes are idempotent, so that an event may be repeated."""

    def __init__(self, scope: Construct, identifier: str, *, grid: GridSettings, runtime: Runtime) -> None:
        super().__init__(scope, identifier)
        reconcile = EventFunction(
            self,
            "Sweep",
            handler="lambda.reconcile.handler",
            description="Closes jobs that have no active child, and stops unwanted training jobs",
            runtime=runtime,
            schedule=events.Schedule.rate(Duration.seconds(PASS_SECONDS)),
            timeout=MAX_PASS_DURATION,
            role_name=names.home_role(grid.name, "sweep"),
        )
        self.function = reconcile.function
        self.role: iam.Role = reconcile.role
        self.dead_letters: sqs.Queue = reconcile.dead_letters
