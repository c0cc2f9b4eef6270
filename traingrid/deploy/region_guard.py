"""Region guard: prevents a deployment from removing a Region or a grid that has unfinished jobs.

CloudFormation calls the guard before it changes anything (stacks/region_guard.py, stacks/guard_stack.py); a refusal
fails the deployment. CloudFormation also calls it during a rollback. Then the guard refuses nothing, because a failed
rollback leaves a stack that cannot be deployed.

If it refuses nothing, it releases the training jobs that the clusters of leaving Regions keep until their ends are
recorded, because their namespaces could not be deleted otherwise.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Self

from traingrid import names
from traingrid.aws.clients import client, periodic_client
from traingrid.aws.s3 import Storage
from traingrid.backends import inventory_of
from traingrid.backends.inventory import Inventory
from traingrid.deploy.custom_resource import answer
from traingrid.deploy.guarded_changes import GuardedChange, guarded_changes
from traingrid.deploy.open_lines import OpenLine, OpenLines
from traingrid.deploy.running_jobs import UNREACHABLE, running_jobs
from traingrid.grid.deployment import Deployment
from traingrid.ledger.ledger import Ledger

logger = logging.getLogger(__name__)
_ON_THE_WAY = ("UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS")
_SHOWN = 3  # submissions in a message; a response has at most 4,096 bytes


@dataclass(frozen=True)
class Left:
    """The unfinished lines and running training jobs.

    Attributes:
        lines: The number of unfinished lines by submission.
        training_jobs: The names of running training jobs; most belong to these lines.
    """

    lines: Counter[str] = field(default_factory=Counter)
    training_jobs: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.lines or self.training_jobs)

    def __str__(self) -> str:
        largest = [f"{submission} ({count})" for submission, count in self.lines.most_common(_SHOWN)]
        more = f" and {len(self.lines) - _SHOWN} more" if len(self.lines) > _SHOWN else ""
        total = self.lines.total()
        lines = f"{_count(total, 'job')} of {', '.join(largest)}{more} {'has' if total == 1 else 'have'} not ended"
        runs = f"{_count(len(self.training_jobs), 'training job')} running"
        if not self.training_jobs:
            return lines if self.lines else ""
        return f"{lines}, {runs}" if self.lines else runs

    @property
    def submission(self) -> str:
        """The submission to use in a suggested command."""
        largest = self.lines.most_common(1)
        return largest[0][0] if largest else "SUBMISSION"


@dataclass(frozen=True, kw_only=True)
class RegionGuard:
    """Answers the requests of CloudFormation.

    Attributes:
        open_lines: Returns the unfinished lines.
        stack_status: Returns the status of a stack by its id.
    """

    grid: str
    home: str
    regions: Collection[str]
    open_lines: Callable[[], Iterable[OpenLine]]
    inventory: Callable[[str], Inventory]
    stack_status: Callable[[str], str]

    @classmethod
    def of(cls, deployment: Deployment) -> Self:
        """Return the guard of a deployment."""
        grid = deployment.grid
        role = names.role_arn(deployment.account, names.guard_role(deployment.grid.name))
        lines = OpenLines(
            ledger=Ledger(deployment.table, grid.home, periodic_client),
            storage=Storage(grid.home, periodic_client),
            bucket=deployment.manifest_bucket,
        )
        return cls(
            grid=grid.name,
            home=grid.home,
            regions=list(grid.regions),
            open_lines=lines.find,
            inventory=lambda region: inventory_of(deployment, region, periodic_client, role),
            stack_status=_stack_status,
        )

    def answer(self, event: Mapping[str, Any]) -> None:
        """Answer a request of CloudFormation with success, or with the reason of a refusal and the next step."""
        try:
            refusal = self.refusal(event)
        except UNREACHABLE as error:
            refusal = (
                f"The check for unfinished jobs of {self.grid} failed: {error}. "
                f"Try again; `traingrid status` shows the jobs.{self._force_sentence(event)}"
            )
        name = f"{self.grid}-{event['LogicalResourceId']}"
        request = {**event, "PhysicalResourceId": event.get("PhysicalResourceId", name)}
        answer(request, "FAILED" if refusal else "SUCCESS", reason=refusal)

    def refusal(self, event: Mapping[str, Any]) -> str:
        """Return why a deployment may not continue, as sentences; empty if it may.

        Args:
            event: The request
                (https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref-requests.html).

        Raises:
            ClientError, BotoCoreError: The ledger or CloudFormation did not answer.
        """
        question = event["ResourceType"], event["RequestType"]
        if question == (names.REGIONS_QUESTION, "Update"):
            before, after = event["OldResourceProperties"], event["ResourceProperties"]
            removed_regions = _removed_regions(before, after)
            changes = list(guarded_changes(before, after))
            if (removed_regions or changes) and self._is_going_on(event):
                return self._update_problem(removed_regions, changes)
            return ""
        if question == (names.JOBS_QUESTION, "Delete") and self._is_going_on(event):
            return self._deletion_problem(event)
        return ""

    def _is_going_on(self, event: Mapping[str, Any]) -> bool:
        return self.stack_status(event["StackId"]) in _ON_THE_WAY

    def _update_problem(self, removed: Collection[str], changes: Iterable[GuardedChange]) -> str:
        """Return why Regions cannot leave the grid, and why other settings cannot change."""
        lines = list(self.open_lines())
        reasons = [_change_problem(change, lines) for change in changes]
        refusal = " ".join(filter(None, [*reasons, *self._region_problems(removed, lines)]))
        if not refusal:
            self._release(removed)
        return refusal

    def _region_problems(self, removed: Collection[str], lines: Collection[OpenLine]) -> list[str]:
        """Return why Regions cannot leave the grid."""
        reasons = []
        for region, running_names in running_jobs(self.inventory, removed).items():
            counter = Counter(line.submission for line in lines if line.may_be_in(region))
            if open_work := Left(counter, running_names):
                reasons.append(
                    f"{region} cannot be removed from the grid: {open_work}; they are in {region} or may move there. "
                    f"Add it to grid.yaml again and wait (`traingrid status`), or cancel them (`traingrid cancel "
                    f"{open_work.submission}`), and deploy again. If the Region is permanently lost, set "
                    f"`abandoned_regions: [{region}]` in grid.yaml."
                )
        return reasons

    def _deletion_problem(self, event: Mapping[str, Any]) -> str:
        """Return why the grid cannot be destroyed."""
        lines = Counter(line.submission for line in self.open_lines())
        open_work = Left(lines, list(chain(*running_jobs(self.inventory, self.regions).values())))
        if not open_work:
            self._release(self.regions)
            return ""
        return (
            f"{self.grid} cannot be destroyed: {open_work}. Nothing was removed. Wait for them (`traingrid status`), "
            f"or cancel them (`traingrid cancel {open_work.submission}`), and destroy again."
            f"{self._force_sentence(event)}"
        )

    def _force_sentence(self, event: Mapping[str, Any]) -> str:
        if event["ResourceType"] != names.JOBS_QUESTION:
            return ""
        return f" To destroy it despite them: {removed_by_force(names.guard_stack(self.grid), self.home)}"

    def _release(self, regions: Iterable[str]) -> None:
        """Release the ended training jobs of Regions; a cluster that does not answer prevents nothing."""
        for region in regions:
            try:
                inventory = self.inventory(region)
                count = sum(map(inventory.release, inventory.ended()))
                logger.info("%s: released %d training jobs", region, count, extra={"event": "released"})
            except UNREACHABLE as error:
                message = "%s: the training jobs of its cluster cannot be released: %s"
                logger.error(message, region, error, extra={"event": "unreachable", "region": region})


def _change_problem(change: GuardedChange, lines: Iterable[OpenLine]) -> str:
    """Return why a setting of the control plane cannot change; "" if no job depends on its present value."""
    if change.always:
        return f"{change.what}: {change.reason}. {change.way_back}."
    open_work = Left(Counter(line.submission for line in lines if not change.region or line.may_be_in(change.region)))
    if not open_work:
        return ""
    return (
        f"{change.what}: {open_work}, and {change.reason}. {change.way_back} and wait (`traingrid status`), or cancel "
        f"them (`traingrid cancel {open_work.submission}`), and deploy again."
    )


def removed_by_force(stack: str, region: str) -> str:
    """Return the command that deletes a stack and retains the resources that cannot be deleted.

    Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DeleteStack.html
    """
    command = f"aws cloudformation delete-stack --region {region} --stack-name {stack}"
    return f"{command} --deletion-mode FORCE_DELETE_STACK"


def _removed_regions(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the Regions that leave the grid or move to another account."""
    accounts, accounts_after = before.get("Elsewhere") or {}, after.get("Elsewhere") or {}
    stay = {region for region in after["Regions"] if accounts.get(region) == accounts_after.get(region)}
    return [region for region in before["Regions"] if region not in {*stay, *after.get("Abandoned", ())}]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _stack_status(stack: str) -> str:
    return str(client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])
