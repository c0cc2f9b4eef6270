"""Job events: the home event bus, which receives state changes of training jobs from all Regions."""

from collections.abc import Mapping

from aws_cdk import Aws
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.accounts import account_root
from stacks.event_forwarding import queue_changes, state_changes
from stacks.event_function import EventFunction, Runtime
from traingrid import names
from traingrid.grid.model import GridSettings


class JobEvents(Construct):
    """An event bus, and lambda/record_job_event, which is invoked for every state change on the bus."""

    def __init__(
        self,
        scope: Construct,
        identifier: str,
        *,
        grid: GridSettings,
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
        self._take_events_of_own_account()
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

    def _take_events_of_own_account(self) -> None:
        """Let this account's rules target the bus: PutTargets of a Region's stack is refused without such a policy.

        https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-bus-to-bus.html requires a policy on the receiving
        bus, also within one account, and
        https://github.com/ministryofjustice/modernisation-platform-environments/pull/19002 reports PutTargets'
        AccessDeniedException without one. The steps in eb-cross-region.html do not include it. Within an account, the
        statement grants nothing by itself: a principal still needs events:PutEvents in its own policies
        (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html). It has no
        condition, because the keys of PutTargets' check are not documented.
        """
        self._accept("FromThisAccount", "this-account", Aws.ACCOUNT_ID, {})

    def _take_events_of_other_accounts(self, grid: GridSettings) -> None:
        """Let only the forwarding roles of other accounts put state changes of training jobs on the bus.

        The roles do not exist yet, so they are named in a condition instead of as principals. Conditions of bus
        policies: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-event-bus-perms.html.
        """
        for account in sorted(set(grid.other_accounts().values())):
            regions = [region for region, owner in grid.other_accounts().items() if owner == account]
            roles = [names.role_arn(account, names.forwarding_role(grid.name, region)) for region in regions]
            conditions = {"Condition": {"ArnEquals": {"aws:PrincipalArn": roles}}}
            self._accept(f"From{account}", f"account-{account}", account, conditions)

    def _accept(self, identifier: str, statement_id: str, account: str, conditions: Mapping[str, object]) -> None:
        statement = {
            "Effect": "Allow",
            "Principal": {"AWS": account_root(account)},
            "Action": "events:PutEvents",
            "Resource": self.bus.event_bus_arn,
            **conditions,
        }
        events.CfnEventBusPolicy(
            self,
            identifier,
            event_bus_name=self.bus.event_bus_name,
            statement_id=statement_id,
            statement=statement,
        )
