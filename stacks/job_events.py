"""The home bus: state changes of training jobs, from every Region, on their way to the ledger."""

from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.event_forwarding import queue_changes, state_changes
from stacks.event_function import EventFunction, Runtime
from traingrid import names
from traingrid.grid import Grid


class JobEvents(Construct):
    """An event bus and lambda/record_job_event, which is invoked for every state change that reaches it."""

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
        )
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
