"""Left stacks: finds stacks in Regions that grid.yaml no longer has in an account.

`cdk deploy` does not remove these stacks, and `cdk destroy` does not find them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.aws.clients import client, periodic_client
from traingrid.deploy.checkup.finding import GRID_FILE, Finding, Verdict, run_check
from traingrid.threads import map_in_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid.model import GridSettings

_AT_ONCE = 16


def left_stacks(grid: GridSettings, account: str) -> Iterator[Finding]:
    """Find the grid's stacks in the caller's account, in Regions that the grid no longer has in this account.

    Each finding has the command that deletes the stack. Regions that moved to another account are included.
    """
    regions: list[str] = []
    own_regions = {region for region in grid.regions if grid.account_of(region, grid.account or account) == account}

    def look() -> Finding:
        region_list = client("ec2", grid.home).describe_regions()["Regions"]
        regions.extend(sorted({description["RegionName"] for description in region_list} - own_regions))
        return Finding(subject="Regions of the account", verdict=Verdict.GOOD)

    looking = run_check("", "stacks in other Regions", look, "ec2:DescribeRegions")
    if looking.verdict is not Verdict.GOOD:
        yield looking
        return
    stacks = map_in_order(lambda region: _stacks(grid.name, region), regions, _AT_ONCE)
    for region, stack_names in zip(regions, stacks, strict=True):
        for name in stack_names:
            yield Finding(
                region=region,
                subject=f"stack {name}",
                verdict=Verdict.GOOD,
                reason=f"its Region is not in {GRID_FILE} for this account; deleting the stack retains its buckets",
                fix=f"aws cloudformation delete-stack --region {region} --stack-name {name}",
            )


def _stacks(grid: str, region: str) -> list[str]:
    cloudformation = periodic_client("cloudformation", region)
    return [
        name
        for name in (names.region_stack(grid, region), names.registry_stack(grid, region))
        if is_there(cloudformation, name)
    ]


def is_there(cloudformation: Any, name: str) -> bool:
    """Return True if the stack exists. Access denied counts as absent: the grid has no stack in such a Region."""
    try:
        cloudformation.describe_stacks(StackName=name)
    except (ClientError, BotoCoreError):
        return False
    return True
