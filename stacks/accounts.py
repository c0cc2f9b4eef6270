"""Accounts: the environments of the stacks, and the roles for training Regions in other accounts."""

from typing import get_args

from aws_cdk import Environment
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks import child_permissions, user_permissions, watcher_permissions
from stacks.dataset_registration import let_read_datasets
from stacks.eks_access import let_find_clusters
from stacks.grants import grant
from stacks.keys import use_key
from traingrid import names
from traingrid.grid.model import GridSettings
from traingrid.names import Part


def home_environment(grid: GridSettings) -> Environment:
    """Return the environment of the home Region's stacks: grid.yaml's account, or the one that the CDK deploys to."""
    return Environment(account=grid.account, region=grid.home)


def region_environment(grid: GridSettings, region: str) -> Environment:
    """Return the environment of the stacks of a training Region."""
    return Environment(account=grid.regions[region].account or grid.account, region=region)


def let_act_elsewhere(role: iam.Role, grid: GridSettings, part: Part) -> None:
    """Allow a role of the control plane to assume the roles in other accounts of its part, and no others."""
    acting = [
        names.role_arn(account, names.acting_role(grid.name, part, region))
        for region, account in grid.other_accounts().items()
    ]
    if acting:
        grant(role, ["sts:AssumeRole"], acting)


def account_root(account: str) -> str:
    """Return the ARN that represents a whole account as a principal. IAM there, or a condition, limits access."""
    return f"arn:aws:iam::{account}:root"


class ActingRoles(Construct):
    """The roles of a Region in another account: one for each part of the control plane, and one for users.

    Exactly one role of the home account may assume a part's role. The trust policy has the account as its principal,
    and the role in a condition. IAM would replace a role that is the principal itself by its unique id, which a role
    of the same name in a new control stack does not have
    (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html#principal-roles).

    Attributes:
        roles: The role of each part.
    """

    def __init__(
        self, scope: Construct, identifier: str, *, grid: GridSettings, region: str, key: kms.IKey | None
    ) -> None:
        super().__init__(scope, identifier)
        self._grid, self._region = grid, region
        self.roles: dict[Part, iam.Role] = {part: self._role(part) for part in get_args(Part)}
        launch, record, sweep = self.roles["launch"], self.roles["record"], self.roles["sweep"]
        register, use = self.roles["register"], self.roles["use"]
        child_permissions.let_train(launch, grid, [region])
        watcher_permissions.let_see(record, grid, [region])
        watcher_permissions.let_see_and_stop(sweep, grid, [region])
        watcher_permissions.let_see_and_stop(use, grid, [region])
        user_permissions.let_use(use, grid, region)
        user_permissions.let_check_up(use, grid, region)
        let_read_datasets(register, grid, [region], key)
        user_permissions.let_read_prices_and_capacity(use)
        for role in (launch, sweep, use):
            let_find_clusters(role, grid, [region])
        for role in (launch, use):
            use_key(role, key, region=region, services=["s3"])

    def _role(self, part: Part) -> iam.Role:
        home = self._grid.account or ""
        account_principal = iam.ArnPrincipal(account_root(home))
        only = names.role_arn(home, names.home_role(self._grid.name, part)) if part != "use" else ""
        return iam.Role(
            self,
            part.capitalize(),
            role_name=names.acting_role(self._grid.name, part, self._region),
            assumed_by=account_principal.with_conditions({"ArnEquals": {"aws:PrincipalArn": only}})
            if only
            else account_principal,
            description=f"Lets account {home} act in {self._region}: {part}",
        )
