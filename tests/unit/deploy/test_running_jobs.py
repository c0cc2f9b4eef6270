"""Running jobs: the lists of the guard reach back as far as a training job can be active, and end in time."""

import pytest

from stacks.region_guard import MAX_ANSWER_DURATION
from tests.support.module_time import replace_time
from tests.support.training_history import SECONDS_OF_A_PAGE, History
from traingrid.backends.inventory import MAX_ACTIVE_SECONDS
from traingrid.backends.sagemaker.inventory import SageMakerInventory
from traingrid.deploy.running_jobs import LISTING_SECONDS, running_jobs
from traingrid.grid.deployment import Deployment


def test_the_guard_lists_no_training_job_that_is_too_old_to_run_and_answers_in_time(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(pages=100_000)
    began = history.now
    for module in ("traingrid.backends.sagemaker.inventory", "traingrid.deploy.running_jobs"):
        replace_time(monkeypatch, module, time=lambda: history.now)
    found = running_jobs(lambda region: SageMakerInventory(deployment, region, lambda *_: history), ("a", "b"))
    assert [len(names) for names in found.values()] == [1, 1], "those that were listed count"
    assert history.now - began <= LISTING_SECONDS + 2 * SECONDS_OF_A_PAGE
    assert len(history.requests) == 2, "after the time, no state and no Region is asked for more than a page"
    for request in history.requests:
        assert request["CreationTimeAfter"].timestamp() == pytest.approx(began - MAX_ACTIVE_SECONDS, abs=1)


def test_the_answer_has_time_left_after_the_lists() -> None:
    assert MAX_ANSWER_DURATION.to_seconds() >= LISTING_SECONDS + 60
