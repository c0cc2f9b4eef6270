"""SageMaker's lists: they reach back as far as a training job can be active, and end in time with empty pages, too."""

from datetime import UTC, datetime

import pytest

from tests.support.module_time import replace_time
from tests.support.reconciler_world import World, a_reconciler
from tests.support.training_history import SECONDS_OF_A_PAGE, History
from traingrid.backends.inventory import ListingTimeoutError, Window
from traingrid.backends.joint_inventory import JointInventory
from traingrid.backends.sagemaker.inventory import SageMakerInventory
from traingrid.backends.training_job import TrainingJob
from traingrid.grid.deployment import Deployment
from traingrid.ledger.ledger import Ledger
from traingrid.reconciler.open_work import RECENT_SECONDS
from traingrid.reconciler.reach import UnreachedError

HOME = "us-east-1"


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> History:
    history = History(pages=400)
    reconciler = (
        f"traingrid.reconciler.{module}" for module in ("reconciler", "active_jobs", "stops", "unwatched_lines")
    )
    for module in ("traingrid.backends.sagemaker.inventory", *reconciler):
        replace_time(monkeypatch, module, time=lambda: history.now)
    return history


def inventory_of(history: History, deployment: Deployment) -> SageMakerInventory:
    return SageMakerInventory(deployment, HOME, lambda *_: history)


def test_empty_pages_end_at_the_given_time_and_the_newest_jobs_come_first(
    history: History, deployment: Deployment
) -> None:
    found: list[TrainingJob] = []
    with pytest.raises(ListingTimeoutError, match="in us-east-1 is over"):
        found.extend(inventory_of(history, deployment).listed("InProgress", window=Window(deadline=history.now + 10)))
    assert (len(found), history.read) == (1, 20)
    assert (history.requests[0]["SortBy"], history.requests[0]["SortOrder"]) == ("CreationTime", "Descending")


def test_the_last_page_is_complete_also_after_the_given_time(history: History, deployment: Deployment) -> None:
    history.pages = 1
    assert len(list(inventory_of(history, deployment).listed("InProgress", window=Window(deadline=history.now)))) == 1


def test_a_job_that_moves_to_the_next_page_is_listed_once(history: History, deployment: Deployment) -> None:
    history.pages, history.repeats = 3, True
    assert len(list(inventory_of(history, deployment).listed())) == 1


def test_a_list_reaches_back_to_the_given_time(history: History, deployment: Deployment) -> None:
    history.pages = 1
    inventory = inventory_of(history, deployment)
    assert (list(inventory.listed(window=Window(since=60.0))) and list(inventory.listed())) != []
    bounded, whole = history.requests
    assert bounded["CreationTimeAfter"] == datetime.fromtimestamp(60, UTC)
    assert "CreationTimeAfter" not in whole


def test_other_backends_are_listed_although_the_list_of_sagemaker_is_late(
    history: History, deployment: Deployment
) -> None:
    late, cluster = inventory_of(history, deployment), inventory_of(History(pages=1), deployment)
    joint = JointInventory({"sagemaker": late, "eks": cluster})
    found: list[TrainingJob] = []
    with pytest.raises(ListingTimeoutError):
        found.extend(joint.listed(window=Window(deadline=history.now + 10)))
    assert len(found) == 2


def test_a_pass_reports_a_list_that_is_late_and_uses_the_jobs_that_it_has(
    history: History, deployment: Deployment, ledger: Ledger, aws: None
) -> None:
    reconciler, began = a_reconciler(World(), deployment, ledger), history.now
    reconciler.regions, reconciler.inventory = [HOME], lambda _: inventory_of(history, deployment)
    with pytest.raises(UnreachedError, match="took too long; 1 training jobs were listed") as raised:
        reconciler.run_pass(within=40.0)
    assert raised.value.done.running == 1
    assert history.now - began <= 40.0 * 0.75 + SECONDS_OF_A_PAGE, "a quarter is left for the work in progress"
    since = history.requests[0]["CreationTimeAfter"].timestamp()
    assert since == pytest.approx(began - RECENT_SECONDS, abs=1)
