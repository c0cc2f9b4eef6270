"""Guard stack: refuses to destroy the grid while jobs are open. It is deployed last, and so destroyed first.

With `catalog: dsql`, it also connects the ledger's stream with the function that follows it.
"""

from aws_cdk import Aws, CustomResource, Stack
from constructs import Construct

from stacks.accounts import home_environment
from stacks.control_stack import ControlStack
from stacks.region_guard import ANSWER_TIMEOUT
from traingrid import names
from traingrid.grid.model import GridSettings


class GuardStack(Stack):
    """A custom resource that makes CloudFormation ask lambda/guard_regions before the stack is deleted.

    It needs its own stack, because a Region's stack, with the execution role of its training jobs, is destroyed before
    the control stack. It must depend on all other stacks.

    The mapping of the ledger's stream is here because the protected table must be the last resource of the control
    stack: if a resource after it failed in a first deployment, the rollback could not delete the table. When the stack
    is deleted, the custom resource is first, so that a refusal changes nothing.
    """

    def __init__(self, scope: Construct, *, grid: GridSettings, control: ControlStack) -> None:
        super().__init__(
            scope,
            names.guard_stack(grid.name),
            env=home_environment(grid),
            description=f"traingrid {grid.name}: prevents deletion while jobs run",
        )
        function = f"arn:aws:lambda:{grid.home}:{Aws.ACCOUNT_ID}:function:{names.guard_function(grid.name)}"
        jobs = CustomResource(
            self,
            "Jobs",
            service_token=function,
            resource_type=names.JOBS_QUESTION,
            service_timeout=ANSWER_TIMEOUT,
        )
        if control.follower and control.ledger_stream:
            jobs.node.add_dependency(control.follower.follow(self, control.ledger_stream))
