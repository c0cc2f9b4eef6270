"""The whole check-up of a grid, Regions side by side."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.checkup import account as accounts
from traingrid.checkup import deployed, quotas
from traingrid.checkup.finding import Finding, Verdict
from traingrid.checkup.left_stacks import left_stacks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traingrid.checkup.quotas import Need
    from traingrid.grid import Grid


def check_up(grid: Grid, account: str, needs: Sequence[Need]) -> Iterator[Finding]:
    """Yield what is found of a grid, from what must be so before a deployment to what jobs need after it.

    A Region that is switched off is not looked into, and neither are the things of a stack that is not there.

    Args:
        grid: The grid, as its file describes it.
        account: The account of the credentials.
        needs: What jobs need of quotas.
    """
    on = list(accounts.switched_on(grid))
    yield from on
    reachable = [found.region for found in on if found.verdict is not Verdict.WRONG]
    built = deployed.built(grid)
    with ThreadPoolExecutor(max_workers=max(1, len(reachable))) as pool:
        for found in pool.map(lambda region: list(_in_region(grid, account, region, needs, built)), reachable):
            yield from found
    yield from left_stacks(grid)


def _in_region(
    grid: Grid, account: str, region: str, needs: Sequence[Need], built: Mapping[str, str]
) -> Iterator[Finding]:
    yield accounts.bootstrapped(account, region)
    if region == grid.home:
        yield deployed.stack(names.images_stack(grid.name), region)
        yield deployed.stack(names.control_stack(grid.name), region)
        yield deployed.stack(names.guard_stack(grid.name), region)
        if uri := built.get("OrchestratorImage"):
            yield deployed.image("orchestrator's image", uri, region)
    elif region in grid.regions:
        yield deployed.stack(names.registry_stack(grid.name, region), region)
    if region in grid.regions:
        yield from quotas.granted(region, [need for need in needs if need.region == region])
        stack = deployed.stack(names.region_stack(grid.name, region), region)
        yield stack
        if stack.verdict is Verdict.GOOD:
            yield from deployed.things_of(grid, account, region, built.get("TrainingImages", "{}"))
