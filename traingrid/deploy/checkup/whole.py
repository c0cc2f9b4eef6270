"""Complete check-up: runs all checks of a grid, Regions in parallel."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from traingrid import names
from traingrid.aws.clients import ActingRole
from traingrid.deploy.checkup import account as accounts
from traingrid.deploy.checkup import cluster, cluster_objects, deployed, quotas
from traingrid.deploy.checkup.account_quotas import account_quotas, vpc_quota
from traingrid.deploy.checkup.batch_queue import batch_queue
from traingrid.deploy.checkup.deployed import NOT_DEPLOYED
from traingrid.deploy.checkup.file_systems import mounts
from traingrid.deploy.checkup.finding import Finding, Verdict
from traingrid.deploy.checkup.home_event_bus import home_event_bus
from traingrid.deploy.checkup.job_network import job_network
from traingrid.deploy.checkup.left_stacks import left_stacks
from traingrid.deploy.checkup.linked_roles import linked_roles
from traingrid.deploy.checkup.needs import Needs
from traingrid.deploy.checkup.notifications import notifications
from traingrid.grid.confinement import NEXT_STEP, RULE, unconfined
from traingrid.grid.model import GridSettings
from traingrid.threads import map_in_order


def check_up(grid: GridSettings, account: str, needs: Needs) -> Iterator[Finding]:
    """Run all checks of a grid, from the preconditions of a deployment to the resources that jobs need.

    Skip Regions that are disabled, and the resources of stacks that do not exist.

    Args:
        grid: The grid, as its file describes it.
    """
    home = grid.account or account
    own_regions = {region for region in grid.regions if grid.account_of(region, home) == account}
    if home == account:
        own_regions.add(grid.home)
    switched_on = list(accounts.switched_on(grid.home, own_regions))
    yield from switched_on
    reachable = [finding.region for finding in switched_on if finding.verdict is not Verdict.WRONG]
    checkup_input = _Wanted(grid=grid, needs=needs, built=deployed.built(grid) if home == account else {})
    in_regions = map_in_order(
        lambda region: list(_check_region(checkup_input, account, region)), reachable, len(reachable)
    )
    for findings in in_regions:
        yield from findings
    yield from left_stacks(grid, account)
    for region in unconfined(grid):
        yield Finding(region=region, subject="residency", verdict=Verdict.UNKNOWN, reason=RULE, fix=NEXT_STEP)
    if home != account:
        yield accounts.unchecked_finding(grid.home, home)
    for region in grid.regions:
        if (owner := grid.account_of(region, home)) != account:
            role = accounts.acting_as(grid, home, region) if home == account else None
            yield from _check_foreign(checkup_input, owner, region, role)


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """The inputs of the checks in every Region; `built` holds the outputs of the builds stack."""

    grid: GridSettings
    needs: Needs
    built: Mapping[str, str]


def _check_region(checkup_input: _Wanted, account: str, region: str) -> Iterator[Finding]:
    """Check a Region of the caller's own account."""
    grid = checkup_input.grid
    home = grid.account or account
    yield accounts.check_bootstrap(account, region, trust="" if home == account else home)
    if region == grid.home and home == account:
        yield deployed.stack(names.images_stack(grid.name), region)
        yield deployed.stack(names.builds_stack(grid.name), region)
        yield from _check_control_plane(grid, account)
        yield deployed.stack(names.guard_stack(grid.name), region)
        if uri := checkup_input.built.get("OrchestratorImage"):
            yield deployed.image("orchestrator's image", uri, region, rebuild=grid.rebuild)
    if region in grid.regions and grid.account_of(region, home) == account:
        yield from _check_training(checkup_input, account, region)


def _check_control_plane(grid: GridSettings, account: str) -> Iterator[Finding]:
    """Check the control plane, and the account's quotas and roles that it needs."""
    yield from account_quotas(grid)
    yield from linked_roles(grid.home)
    stack = deployed.stack(names.control_stack(grid.name), grid.home)
    if stack.reason == NOT_DEPLOYED and grid.network.kind != "existing":
        yield vpc_quota(grid)
    yield stack
    if stack.verdict is Verdict.GOOD:
        yield from batch_queue(grid)
        yield from home_event_bus(grid, account)
        yield from notifications(grid)


def _check_foreign(checkup_input: _Wanted, account: str, region: str, role: ActingRole | None) -> Iterator[Finding]:
    """Check a Region of another account, or report that the caller has no access to it."""
    if role is None or not accounts.reaches(region, role):
        yield accounts.unchecked_finding(region, account)
        return
    yield from accounts.switched_on(checkup_input.grid.home, [region], role)
    yield accounts.check_bootstrap(account, region, role, trust=checkup_input.grid.account or "")
    yield from _check_training(checkup_input, account, region, role)


def _check_training(
    checkup_input: _Wanted, account: str, region: str, role: ActingRole | None = None
) -> Iterator[Finding]:
    """Check the resources that jobs need in a training Region; `role` is the role to assume in another account."""
    grid = checkup_input.grid
    if region in grid.replicas():
        yield deployed.stack(names.registry_stack(grid.name, region), region, role)
    needs = [need for need in checkup_input.needs.instances if need.region == region]
    yield from job_network(grid.regions[region], region, needs, role)
    yield from mounts(grid.regions[region], region, role)
    yield from quotas.check_quotas(region, needs, role)
    checked_cluster = cluster.CheckedCluster.of(grid, account, region, role, checkup_input.needs.clusters)
    if checked_cluster:
        yield from _check_cluster(checked_cluster)
    stack = deployed.stack(names.region_stack(grid.name, region), region, role)
    yield stack
    if stack.verdict is Verdict.GOOD:
        yield from deployed.things_of(grid, account, region, checkup_input.built.get("TrainingImages", ""), role)
        if checked_cluster:
            yield from cluster.access(checked_cluster)


def _check_cluster(checked_cluster: cluster.CheckedCluster) -> Iterator[Finding]:
    """Check the cluster of a Region, which exists before the deployment."""
    finding, description = cluster.check_cluster(checked_cluster)
    yield finding
    if description:
        yield from cluster.preconditions(checked_cluster, description)
        yield from cluster_objects.objects(checked_cluster)
