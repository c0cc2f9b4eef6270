"""Updates: every grid can be changed to every other grid while jobs run, or the region guard refuses the update."""

from collections.abc import Iterator
from typing import NoReturn

import pytest

from tests.integration.posture.configurations import CONFIGURATIONS
from tests.integration.posture.updates import Deployed, deployed, lost_by_jobs, overlapping_subnets, replacements
from traingrid.deploy.open_lines import OpenLine
from traingrid.deploy.region_guard import RegionGuard
from traingrid.names import REGIONS_QUESTION


def reachable(before: str) -> list[str]:
    """Return the configurations with the same name and home Region, which are therefore the same grid."""
    grid = CONFIGURATIONS[before]
    return [
        name
        for name, other in CONFIGURATIONS.items()
        if name != before and (other.name, other.home) == (grid.name, grid.home)
    ]


UPDATED = [name for name in CONFIGURATIONS if reachable(name)]


def refusal(before: Deployed, after: Deployed, *, jobs: bool) -> str:
    """Return the region guard's refusal if a line is open in every Region (`jobs`), or if none is."""
    old, new = before.question(), after.question()

    def never(region: str) -> NoReturn:
        raise AssertionError(region)

    guard = RegionGuard(
        grid="traingrid",
        home="us-east-1",
        regions=new["Regions"],
        open_lines=lambda: [OpenLine(submission="0123abcd", regions=frozenset())] if jobs else [],
        inventory=never,
        stack_status=lambda _: "UPDATE_IN_PROGRESS",
    )
    stay = [region for region in old["Regions"] if region in new["Regions"]]  # removing a Region is tested elsewhere
    properties = {"OldResourceProperties": {**old, "Regions": stay, "Elsewhere": {}}, "ResourceProperties": new}
    properties["ResourceProperties"] = {**new, "Elsewhere": {}}
    return guard.refusal({"ResourceType": REGIONS_QUESTION, "RequestType": "Update", "StackId": "s", **properties})


def failures(before: Deployed, after: Deployed) -> Iterator[str]:
    """Yield the errors with which AWS would refuse the update."""
    for one in replacements(before, after):
        if one.custom_name:
            yield f"{one.where}: {one.custom_name} would be replaced under its own name, for {one.paths}"
    yield from overlapping_subnets(before, after)


@pytest.mark.parametrize("before", UPDATED, ids=lambda name: name.replace(" ", "-"))
def test_aws_accepts_every_update(before: str) -> None:
    found = {
        after: problems
        for after in reachable(before)
        if (problems := list(failures(deployed(before), deployed(after))))
        and not refusal(deployed(before), deployed(after), jobs=False)
    }
    assert found == {}


@pytest.mark.parametrize("before", UPDATED, ids=lambda name: name.replace(" ", "-"))
def test_updates_that_delete_resources_of_running_jobs_are_refused(before: str) -> None:
    found = {
        after: lost
        for after in reachable(before)
        if (lost := list(lost_by_jobs(deployed(before), deployed(after))))
        and not refusal(deployed(before), deployed(after), jobs=True)
    }
    assert found == {}


def test_without_jobs_only_changes_of_zones_are_refused() -> None:
    refused = {
        tuple(sorted((before, after)))
        for before in UPDATED
        for after in reachable(before)
        if refusal(deployed(before), deployed(after), jobs=False)
    }
    assert {pair for pair in refused if "private network in chosen zones" not in pair} == set()
