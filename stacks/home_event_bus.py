"""Job events: the home event bus, which receives state changes of training jobs from all Regions."""

from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.accounts import account_root
from stacks.event_forwarding import queue_changes, state_changes
from stacks.event_function import EventFunction, Runtime
from traingrid import names
from traingrid.grid.model import Grid


class JobEvents(Construct):
    """An event bus, and lambda/record_job_event, which is invoked for every state change on the bus."""

    def __init__(
        self,
        scope: Construct,
        identifier: str,
        *,
        grid: Grid,
        runtime: Runtime,
    ) -> None:
        super().__init__(scope, identifier)
        self.bus = events.EventBus(self, "Bus", event_bus_name=names.event_bus(grid.name))
        recorder = EventFunction(
            self,
            "Record",
            handler="lambda.record_job_event.handler",
            description="Records state changes of training jobs in the ledger",
            runtime=runtime,
            pattern=state_changes(grid),
            bus=self.bus,
            role_name=names.home_role(grid.name, "record"),
        )
        self._take_events_of_other_accounts(grid)
        if any(map(grid.service_queue, grid.regions)):
            recorder.also_on(
                "QueuedRule",
                pattern=queue_changes(grid),
                bus=self.bus,
                description="Records state changes of queued jobs in the ledger",
            )
        self.function = recorder.function
        self.role: iam.Role = recorder.role
        self.dead_letters: sqs.Queue = recorder.dead_letters

    def _take_events_of_other_accounts(self, grid: Grid) -> None:
        """Let only the forwarding roles of other accounts put state changes of training jobs on the bus.

        The roles do not exist yet, so they are named in a condition instead of as principals. Conditions of bus
        policies: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-event-bus-perms.html.
        """
        for account in sorted(set(grid.elsewhere().values())):
            regions = [region for region, of in grid.elsewhere().items() if of == account]
            roles = [names.role_arn(account, names.forwarding_role(grid.name, region)) for region in regions]
            statement = {
                "Effect": "Allow",
                "Principal": {"AWS": account_root(account)},
                "Action": "events:PutEvents",
                "Resource": self.bus.event_bus_arn,
                "Condition": {"ArnEquals": {"aws:PrincipalArn": roles}},
            }
            events.CfnEventBusPolicy(
                self,
                f"From{account}",
                event_bus_name=self.bus.event_bus_name,
                statement_id=f"account-{account}",
                statement=statement,
            )
