"""Event forwarding: sends state changes of training jobs and new datasets from a training Region to the home Region."""

from typing import Literal, cast

from aws_cdk import Aws
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.dataset_registration import new_datasets
from stacks.dead_letters import EVENT_AGE, EVENT_RETRIES, dead_letters
from stacks.grants import this_account
from traingrid import names
from traingrid.grid.model import GridSettings


def state_changes(grid: GridSettings) -> events.EventPattern:
    """Return the event pattern of training jobs whose names begin with the grid's name."""
    return events.EventPattern(
        source=["aws.sagemaker"],
        detail_type=["SageMaker Training Job State Change"],
        detail={"TrainingJobName": [{"prefix": f"{grid.name}-"}]},
    )


def queue_changes(grid: GridSettings) -> events.EventPattern:
    """Return the event pattern of the grid's service jobs, which have the same names as its training jobs.

    Batch chooses the names of the training jobs that it creates from them, so `state_changes` does not match those
    (https://docs.aws.amazon.com/batch/latest/userguide/service-job-events.html).
    """
    return events.EventPattern(
        source=["aws.batch"],
        detail_type=["Batch Service Job State Change"],
        detail={"jobName": [{"prefix": f"{grid.name}-"}]},
    )


_EVENTS = {
    "training": "state changes of training jobs",
    "queued": "state changes of queued jobs",
    "datasets": "new datasets",
}


class EventForwarding(Construct):
    """The rules on a Region's default bus that send the grid's state changes and markers to the home bus."""

    def __init__(
        self, scope: Construct, identifier: str, *, grid: GridSettings, region: str, key: kms.IKey | None
    ) -> None:
        super().__init__(scope, identifier)
        self._rules = names.forwarding_rules(grid.name)
        rules = [f"arn:aws:events:{region}:{Aws.ACCOUNT_ID}:rule/{name}" for name in self._rules.values()]
        conditions = {**this_account(), "ArnLike": {"aws:SourceArn": rules}}
        role = iam.Role(
            self,
            "Role",
            role_name=names.forwarding_role(grid.name, region),
            assumed_by=iam.ServicePrincipal("events.amazonaws.com", conditions=conditions),
            description=f"Sends state changes of training jobs and new datasets from {region} to the home Region",
        )
        home = grid.account if region in grid.other_accounts() else Aws.ACCOUNT_ID
        home_bus = events.EventBus.from_event_bus_arn(
            self, "HomeBus", f"arn:aws:events:{grid.home}:{home}:event-bus/{names.event_bus(grid.name)}"
        )
        self.dead_letters = dead_letters(self, key)
        self._forward("training", state_changes(grid), home_bus, role)
        if grid.service_queue(region):
            self._forward("queued", queue_changes(grid), home_bus, role)
        self._forward("datasets", new_datasets(grid.data_buckets(Aws.ACCOUNT_ID, region)), home_bus, role)

    def _forward(
        self,
        kind: Literal["training", "queued", "datasets"],
        pattern: events.EventPattern,
        bus: events.IEventBus,
        role: iam.Role,
    ) -> None:
        rule = events.Rule(
            self,
            {"training": "Rule", "queued": "QueuedRule", "datasets": "DatasetsRule"}[kind],
            rule_name=self._rules[kind],
            description=f"Sends {_EVENTS[kind]} to the home Region",
            event_pattern=pattern,
        )
        # The CDK's target grants the role events:PutEvents on the home bus, and nothing else.
        rule.add_target(targets.EventBus(bus, role=role, dead_letter_queue=self.dead_letters))
        # The CDK's target has no argument for this. Without it, EventBridge retries for 24 hours.
        retry = {"MaximumEventAgeInSeconds": EVENT_AGE.to_seconds(), "MaximumRetryAttempts": EVENT_RETRIES}
        cast(events.CfnRule, rule.node.default_child).add_property_override("Targets.0.RetryPolicy", retry)
