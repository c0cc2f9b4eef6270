"""Overview: failures follow the filters, rejections fill no phone, and a narrow table keeps the result of a job."""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.local_page import LocalGrid, RunningPage, running_page
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.rejections import Rejection
from traingrid.ledger.timestamps import timestamp

FAILURES = "#failures-details"


@pytest.fixture
def newest(local: LocalGrid) -> list[Job]:
    """The newest submission, without a failure, after one with a failure; and two manifests that were rejected."""
    (failed,) = local.submit(["a job"], submission="00000001")
    local.open(failed, "00000001", state=JobState.FAILED, failure="algorithm", reason="KeyError: 'labels'")
    now = time.time()
    for name in ("a", "b"):
        rejected = Rejection(
            manifest=f"s3://m/{name}.csv", version="v", at=timestamp(now), errors=1, reason=f"no {name}"
        )
        local.ledger.record_rejection(rejected)
    jobs = local.submit(["a job", "the next job"], submission="0123abcd")
    local.open(jobs[0], state=JobState.COMPLETED, metrics={"loss": 0.25}, artifact="s3://b/model.tar.gz")
    return jobs


@pytest.fixture
def page(local: LocalGrid, newest: list[Job]) -> Iterator[RunningPage]:
    with running_page(local.plane) as running:
        yield running


def test_failures_of_earlier_submissions_are_closed_and_name_theirs(tab: Page, page: RunningPage) -> None:
    tab.goto(page.address)
    expect(tab.locator("#failures-of")).to_contain_text("algorithm")
    expect(tab.locator("#failures")).to_be_hidden()
    tab.locator(f"{FAILURES} summary").click()
    expect(tab.locator("#failures .job-link")).to_contain_text("a job")
    expect(tab.locator("#failures .job-link")).to_contain_text("us-east-1")
    expect(tab.locator("#failures .job-link")).to_contain_text("(00000001)")
    expect(tab.locator(".rows .row .group").first).to_have_text("autumn (0123abcd)/0")


def test_failures_are_those_of_the_chosen_submission(tab: Page, page: RunningPage) -> None:
    tab.goto(page.address)
    tab.get_by_role("combobox", name="Submission").select_option("0123abcd")
    expect(tab.locator("#failures-section")).to_be_hidden()
    tab.get_by_role("combobox", name="Submission").select_option("00000001")
    expect(tab.locator("#failures")).to_be_visible()
    expect(tab.locator("#failures")).to_contain_text("KeyError: 'labels'")


def test_several_rejections_are_one_line_that_can_be_opened(tab: Page, page: RunningPage) -> None:
    tab.goto(page.address)
    expect(tab.locator("#notices summary")).to_have_text("Several manifests were rejected; nothing of them trains.")
    expect(tab.get_by_text("s3://m/a.csv was rejected")).to_be_hidden()
    tab.locator("#notices summary").click()
    expect(tab.get_by_text("s3://m/a.csv was rejected")).to_be_visible()


def test_a_phone_shows_one_result_of_each_job(tab: Page, page: RunningPage) -> None:
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(page.address)
    expect(tab.locator(".rows .row", has_text="a job").first.locator(".loss")).to_have_text("0.25")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
