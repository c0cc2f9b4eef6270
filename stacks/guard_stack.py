"""The stack that is deployed last and so destroyed first: it asks whether jobs have yet to end before anything goes."""

from aws_cdk import Aws, CustomResource, Stack
from constructs import Construct

from stacks.accounts import home_environment
from stacks.region_guard import ANSWER_TIMEOUT
from traingrid import names
from traingrid.grid import Grid


class GuardStack(Stack):
    """One question to lambda/guard_regions, which CloudFormation asks when the stack is deleted.

    A stack of its own, because a Region's stack, with the role that its training jobs run with, goes before the control
    stack does. It must depend on all others.
    """

    def __init__(self, scope: Construct, *, grid: Grid) -> None:
        super().__init__(
            scope,
            names.guard_stack(grid.name),
            env=home_environment(grid),
            description=f"traingrid {grid.name}: keeps the grid while jobs run",
        )
        function = f"arn:aws:lambda:{grid.home}:{Aws.ACCOUNT_ID}:function:{names.guard_function(grid.name)}"
        CustomResource(
            self,
            "Jobs",
            service_token=function,
            resource_type=names.JOBS_QUESTION,
            service_timeout=ANSWER_TIMEOUT,
        )
