"""Training Regions in other accounts: where their stacks go, and who of the home Region's account acts in them."""

from aws_cdk import Environment
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks import child_permissions, user_permissions, watcher_permissions
from stacks.grants import grant
from stacks.keys import use_key
from traingrid import names
from traingrid.grid import Grid
from traingrid.names import Part


def home_environment(grid: Grid) -> Environment:
    """Return where the stacks of the home Region go: whatever account deploys them, unless grid.yaml says which."""
    return Environment(account=grid.account, region=grid.home)


def region_environment(grid: Grid, region: str) -> Environment:
    """Return where the stacks of a training Region go."""
    return Environment(account=grid.regions[region].account or grid.account, region=region)


def let_act_elsewhere(role: iam.Role, grid: Grid, part: Part) -> None:
    """Allow a role of the control plane to take on exactly the roles that its part has in other accounts."""
    acting = [
        names.role_arn(account, names.acting_role(grid.name, part, region))
        for region, account in grid.elsewhere().items()
    ]
    if acting:
        grant(role, ["sts:AssumeRole"], acting)


def account_root(account: str) -> str:
    """Return what stands for a whole account as a principal: who of it may, its own IAM or a condition says."""
    return f"arn:aws:iam::{account}:root"


class ActingRoles(Construct):
    """The roles of a Region in another account than home's: one for each part of the control plane, one for people.

    A part's role is taken on by one role of the home Region's account. It is named in a condition, beside its account
    as the principal: a role that is the principal itself is kept by its id, so that one of the same name that a new
    control stack makes would be a stranger to it
    (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html#principal-roles).
    """

    def __init__(self, scope: Construct, identifier: str, *, grid: Grid, region: str, key: kms.IKey | None) -> None:
        super().__init__(scope, identifier)
        self._grid, self._region = grid, region
        launch, record, sweep, use = (self._role(part) for part in ("launch", "record", "sweep", "use"))
        child_permissions.let_train(launch, grid, [region])
        watcher_permissions.let_see(record, grid, [region])
        watcher_permissions.let_see_and_stop(sweep, grid, [region])
        watcher_permissions.let_see_and_stop(use, grid, [region])
        user_permissions.let_use(use, grid, region)
        user_permissions.let_check_up(use, grid, region)
        for role in (launch, use):
            use_key(role, key, region=region, services=["s3"])

    def _role(self, part: Part) -> iam.Role:
        home = self._grid.account or ""
        whole = iam.ArnPrincipal(account_root(home))
        only = names.role_arn(home, names.home_role(self._grid.name, part)) if part != "use" else ""
        return iam.Role(
            self,
            part.capitalize(),
            role_name=names.acting_role(self._grid.name, part, self._region),
            assumed_by=whole.with_conditions({"ArnEquals": {"aws:PrincipalArn": only}}) if only else whole,
            description=f"What account {home} does in {self._region}: {part}",
        )
