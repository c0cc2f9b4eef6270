"""Region guard: unfinished jobs prevent the removal of a Region or the grid, but never a rollback."""

import json
from typing import Any

import pytest

from tests.support.ledger_items import job_key
from tests.support.reconciler_world import DENIED, Region, World, open_lines
from tests.support.recorded_log import RecordedLog
from traingrid.aws.clients import periodic_client
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.deploy import region_guard
from traingrid.deploy.open_lines import OpenLines
from traingrid.deploy.region_guard import RegionGuard
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.names import JOBS_QUESTION, REGIONS_QUESTION
from traingrid.submission.files import jobs_key, normalised

pytestmark = pytest.mark.usefixtures("aws")

HOME, NEAR, FAR = "us-east-1", "us-west-2", "eu-west-1"
ALL = [HOME, NEAR, FAR]


@pytest.fixture
def world() -> World:
    return World()


def test_errors_of_a_cluster_name_the_role_of_the_guard(
    monkeypatch: pytest.MonkeyPatch, deployment: Deployment
) -> None:
    asked = list[tuple[Any, ...]]()
    monkeypatch.setattr(region_guard, "inventory_of", lambda *arguments: asked.append(arguments))
    RegionGuard.of(deployment).inventory(NEAR)
    assert asked == [(deployment, NEAR, periodic_client, f"arn:aws:iam::{deployment.account}:role/traingrid-guard")]


KEYS = {HOME: f"arn:aws:kms:{HOME}", FAR: f"arn:aws:kms:{FAR}"}


class Account:
    """A guard with Batch, SageMaker and CloudFormation under the control of a test."""

    def __init__(self, world: World, deployment: Deployment, ledger: Ledger) -> None:
        self.world, self.deployment, self.ledger, self.storage = world, deployment, ledger, Storage()
        self.stack = "UPDATE_IN_PROGRESS"

    def guard(self) -> RegionGuard:
        region: Any = Region
        lines = OpenLines(
            ledger=self.ledger,
            storage=self.storage,
            bucket=self.deployment.manifest_bucket,
        )
        return RegionGuard(
            grid="traingrid",
            home=HOME,
            regions=ALL,
            open_lines=lines.find,
            inventory=lambda name: region(self.world, name),
            stack_status=lambda _stack: self.stack,
        )

    def removing(self, *removed: str, **more: Any) -> str:
        """Return why these Regions cannot be removed."""
        wanted = {"Regions": [region for region in ALL if region not in removed], **more}
        event = {"OldResourceProperties": {"Regions": ALL}, "ResourceProperties": wanted}
        return self.guard().refusal(
            {"ResourceType": REGIONS_QUESTION, "RequestType": "Update", "StackId": "s", **event}
        )

    def changing(self, before: dict[str, Any], wanted: dict[str, Any]) -> str:
        """Return why a change of the control plane is refused."""
        same = {"Regions": ALL, "ChildRole": "traingrid-child", "Network": "public", "Queue": "traingrid"}
        event = {"OldResourceProperties": {**same, **before}, "ResourceProperties": {**same, **wanted}}
        return self.guard().refusal(
            {"ResourceType": REGIONS_QUESTION, "RequestType": "Update", "StackId": "s", **event}
        )

    def destroying(self) -> str:
        """Return why the grid cannot be destroyed."""
        self.stack = "DELETE_IN_PROGRESS"
        return self.guard().refusal({"ResourceType": JOBS_QUESTION, "RequestType": "Delete", "StackId": "s"})

    def accepted(self, *jobs: Job, submission: str = "0123abcd") -> None:
        """Write a submission of these jobs like the intake; no child has opened them."""
        self.ledger.claim_submission(submission, "request", {"jobs": len(jobs), "manifest": "s3://x/y", "version": "1"})
        body, _ = normalised([job.model_copy(update={"index": index}) for index, job in enumerate(jobs)])
        self.storage.write(S3Uri(self.deployment.manifest_bucket, jobs_key(submission)), body, "application/x")


@pytest.fixture
def account(world: World, deployment: Deployment, ledger: Ledger) -> Account:
    return Account(world, deployment, ledger)


def test_a_region_with_jobs_cannot_be_removed_and_the_error_lists_them(account: Account, job: Job) -> None:
    open_lines(account.ledger, job, [FAR, FAR, HOME])
    refusal = account.removing(FAR)
    assert refusal.startswith("eu-west-1 cannot be removed from the grid: 2 jobs of 0123abcd (2) have not ended")
    for step in ("`traingrid status`", "`traingrid cancel 0123abcd`", "abandoned_regions: [eu-west-1]"):
        assert step in refusal


def test_each_removed_region_is_checked_separately(account: Account, job: Job) -> None:
    open_lines(account.ledger, job, [FAR])
    assert account.removing(NEAR) == ""
    assert "us-west-2" not in account.removing(NEAR, FAR)


def test_a_region_can_be_removed_when_its_jobs_have_ended(account: Account, job: Job) -> None:
    open_lines(account.ledger, job, [FAR])
    account.ledger.record_job(job_key(), {"state": JobState.COMPLETED})
    assert account.removing(FAR) == ""


def test_a_line_that_may_move_to_a_region_prevents_its_removal(account: Account, roaming: Job) -> None:
    account.ledger.claim_submission("0123abcd", "x", {"jobs": 1, "manifest": "s3://x/y", "version": "1"})
    account.ledger.open_job("0123abcd", roaming, roaming.regions)
    assert "1 job of 0123abcd (1) has not ended" in account.removing(FAR)


@pytest.mark.parametrize("submitted", [True, False])
def test_an_unopened_line_prevents_the_removal_of_its_region(account: Account, job: Job, submitted: bool) -> None:
    account.accepted(job, job.model_copy(update={"region": FAR}))
    if submitted:
        account.ledger.record_submitted("0123abcd", "array")
    assert "1 job of" in account.removing(FAR)
    assert account.removing(NEAR) == ""


def test_an_unknown_training_job_prevents_the_removal_of_its_region(account: Account) -> None:
    account.world.runs("89abcdef", 0, FAR, "Stopping")
    assert "eu-west-1 cannot be removed from the grid: 1 training job running" in account.removing(FAR)


def test_where_sagemaker_does_not_answer_the_ledger_decides(account: Account, job: Job, log: RecordedLog) -> None:
    account.world.fails[FAR] = DENIED
    assert account.removing(FAR) == ""
    (line,) = log.of("unreachable")
    assert (line["level"], line["region"]) == ("ERROR", "eu-west-1")
    assert "eu-west-1 is checked by the ledger and 0 training jobs only" in line["message"]
    open_lines(account.ledger, job, [FAR])
    assert "1 job of" in account.removing(FAR)


def test_an_abandoned_region_can_always_be_removed(account: Account, job: Job) -> None:
    open_lines(account.ledger, job, [FAR])
    assert account.removing(FAR, Abandoned=[FAR]) == ""


def test_moving_a_region_to_another_account_counts_as_removal(account: Account, job: Job) -> None:
    open_lines(account.ledger, job, [FAR])
    assert "1 job of" in account.removing(Elsewhere={FAR: "210987654321"})
    assert account.removing(Elsewhere={NEAR: "210987654321"}) == ""


def test_adding_a_region_is_never_refused(account: Account, job: Job) -> None:
    open_lines(account.ledger, job, [FAR])
    assert account.removing() == ""


@pytest.mark.parametrize(
    ("before", "wanted", "words"),
    [
        ({"Network": "private"}, {"Network": "public"}, "The network cannot change from private to public"),
        ({}, {"Network": "existing"}, "Put the previous `network` back into grid.yaml"),
        ({"Network": "existing"}, {"Network": "private"}, "The network cannot change from existing to private"),
        ({}, {"Queue": "traingrid-shared"}, "The job queue traingrid cannot be replaced by traingrid-shared"),
        ({"ServiceQueues": {FAR: "q"}}, {"ServiceQueues": {}}, "The service queue q of eu-west-1 cannot be removed"),
        ({"ServiceQueues": {FAR: "q"}}, {"ServiceQueues": {FAR: "r"}}, "`service_queue` of eu-west-1 back"),
        ({"Clusters": {FAR: "a/b/c"}}, {"Clusters": {}}, "of eu-west-1 cannot change from a/b/c to none"),
        ({"Clusters": {FAR: "a/b/c"}}, {"Clusters": {FAR: "a/d/c"}}, "Put the previous `eks` of eu-west-1 back"),
        ({"ChildRole": ""}, {}, "This version cannot be deployed now"),
        ({"Encryption": "kms"}, {"Encryption": "s3"}, "The encryption cannot change from kms to s3"),
        ({"Encryption": "kms"}, {"Encryption": "kms", "Keys": KEYS}, "cannot change from kms to other keys"),
        ({"Encryption": "kms", "Keys": KEYS}, {"Encryption": "kms"}, "cannot change from kms to other keys"),
        (
            {"Encryption": "kms", "Keys": KEYS},
            {"Encryption": "kms", "Keys": {**KEYS, FAR: "arn:aws:kms:another"}},
            "cannot change from kms to other keys",
        ),
    ],
)
def test_settings_that_open_jobs_need_change_only_after_their_end(
    account: Account, job: Job, before: dict[str, Any], wanted: dict[str, Any], words: str
) -> None:
    assert account.changing(before, wanted) == ""
    open_lines(account.ledger, job, [FAR])
    refusal = account.changing(before, wanted)
    assert words in refusal
    assert "`traingrid cancel 0123abcd`" in refusal


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ({}, {"Network": "private"}),
        ({"Encryption": "s3"}, {"Encryption": "kms"}),
        ({}, {"Encryption": "s3", "Keys": {}}),
        ({"Encryption": "kms", "Keys": {HOME: "a"}}, {"Encryption": "kms", "Keys": {HOME: "a", FAR: "b"}}),
        ({"Zones": ["a", "b"]}, {"Zones": []}),
        ({}, {"ServiceQueues": {FAR: "q"}}),
        ({"ServiceQueues": {NEAR: "q"}}, {"ServiceQueues": {}}),
        ({"ServiceQueues": {FAR: "q"}}, {"ServiceQueues": {}, "Regions": [HOME, NEAR], "Abandoned": [FAR]}),
        ({}, {"Clusters": {FAR: "a/b/c"}}),
        ({"Clusters": {NEAR: "a/b/c"}}, {"Clusters": {}}),
        ({"Clusters": {FAR: "a/b/c"}}, {"Clusters": {}, "Regions": [HOME, NEAR], "Abandoned": [FAR]}),
        ({"ChildRole": "", "Elsewhere": {NEAR: "1"}}, {"Elsewhere": {NEAR: "1"}}),
    ],
)
def test_changes_that_do_not_affect_open_jobs_are_accepted(
    account: Account, job: Job, before: dict[str, Any], wanted: dict[str, Any]
) -> None:
    open_lines(account.ledger, job, [FAR])
    assert account.changing(before, wanted) == ""


def test_the_zones_of_a_deployed_network_never_change(account: Account) -> None:
    refusal = account.changing({"Zones": ["a", "b"]}, {"Zones": ["b", "c"]})
    assert refusal.startswith("The zones of a deployed network cannot change from a, b to b, c")
    assert "Set `zones: [a, b]`" in refusal
    assert "`make destroy`" in refusal


def test_a_rollback_is_never_refused(account: Account, job: Job) -> None:
    open_lines(account.ledger, job, [FAR])
    account.stack = "UPDATE_ROLLBACK_IN_PROGRESS"
    assert account.removing(FAR) == ""


def test_a_grid_with_jobs_is_not_destroyed_and_the_error_has_the_fix(account: Account, job: Job) -> None:
    open_lines(account.ledger, job, [FAR, HOME])
    account.world.runs("0123abcd", 0, FAR)
    refusal = account.destroying()
    running = "2 jobs of 0123abcd (2) have not ended, 1 training job running"
    assert refusal.startswith(f"traingrid cannot be destroyed: {running}. Nothing was removed.")
    assert "delete-stack --region us-east-1 --stack-name traingrid-guard --deletion-mode FORCE_DELETE_STACK" in refusal


def test_an_idle_grid_can_be_destroyed(account: Account, job: Job) -> None:
    open_lines(account.ledger, job, [FAR])
    account.ledger.record_job(job_key(), {"state": JobState.FAILED})
    assert account.destroying() == ""


def test_many_submissions_are_counted_and_not_all_named(account: Account, job: Job) -> None:
    for number in range(40):
        open_lines(account.ledger, job, [FAR], submission=f"{number:08x}")
    refusal = account.removing(FAR)
    assert "40 jobs of" in refusal
    assert "and 37 more" in refusal
    assert len(json.dumps(refusal)) < 1000


def test_the_guard_releases_the_training_jobs_of_a_grid_that_may_be_destroyed(account: Account) -> None:
    name = account.world.keeps("0123abcd", 0, FAR)
    account.world.fails[f"ended {HOME}"] = DENIED
    account.stack = "DELETE_IN_PROGRESS"
    assert account.destroying() == ""
    assert account.world.released == [name]


def test_the_guard_releases_nothing_while_jobs_run(account: Account, job: Job) -> None:
    account.world.keeps("0123abcd", 0, FAR)
    open_lines(account.ledger, job, [HOME])
    account.stack = "DELETE_IN_PROGRESS"
    assert "cannot be destroyed" in account.destroying()
    assert account.world.released == []
