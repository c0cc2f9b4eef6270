"""Running grid: the page of `traingrid ui --write` in a browser, while a deployed grid trains in a localcloud."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from localcloud.faults.plan import CallFault, FaultPlan
from tests.ui.conftest import PATIENCE_MILLISECONDS
from tests.ui.running_grid import EPOCHS, PageProcess, RunningGrid, page_process, running_grid
from traingrid.aws.clients import client
from verification.deployed_grid import until

NIGHT, DAY, ENDLESS, BROKEN = JOBS = ["night", "day", "endless", "broken"]
expect.set_options(timeout=PATIENCE_MILLISECONDS)


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGrid]:
    with running_grid(tmp_path_factory.mktemp("cloud")) as running:
        yield running


@pytest.fixture(scope="module")
def submission(grid: RunningGrid) -> str:
    """Four jobs in two Regions: the first two have trained an epoch, one waits for its first, and one has failed."""
    made = grid.submit(JOBS)
    grid.finish(BROKEN, broken=True)
    for name in (NIGHT, DAY):
        grid.allow(name, 1)
        grid.reports_an_epoch(made, JOBS.index(name))
    return made


@pytest.fixture(scope="module")
def page(grid: RunningGrid, submission: str) -> Iterator[PageProcess]:
    with page_process(grid.work / "grid.yaml", "--write") as running:
        yield running


@pytest.fixture
def opened(tab: Page, page: PageProcess) -> Page:
    """The page with its jobs, and a mark that a reload would remove."""
    tab.goto(page.address)
    expect(tab.locator(".rows .row:not([hidden])")).to_have_count(len(JOBS))
    tab.evaluate("window.notReloaded = true")
    return tab


def cell(job: str, column: str) -> str:
    """Return the selector of a cell of the table."""
    return f".rows .row:has(.name:text-is('{job}')) .{column}"


def test_the_page_shows_the_jobs_that_train(opened: Page, grid: RunningGrid) -> None:
    for job, region in ((NIGHT, "us-east-1"), (DAY, "eu-west-1")):
        expect(opened.locator(cell(job, "epoch"))).to_have_text("1/3")
        expect(opened.locator(".lane", has_text=region)).to_contain_text(job)
    expect(opened.locator(cell(NIGHT, "rate"))).to_have_text("1,001")
    expect(opened.locator("#connection")).to_have_text("live")


def test_the_end_of_an_epoch_appears_in_the_table_and_the_curves_without_a_reload(
    opened: Page, grid: RunningGrid
) -> None:
    for job in (NIGHT, DAY):
        opened.locator(cell(job, "select")).click()
    loss = opened.get_by_role("group", name="train_loss: night 1, day 1")
    expect(loss.locator("canvas")).to_be_visible()
    expect(opened.locator("#legend li")).to_have_count(2)
    grid.allow(NIGHT, 2)
    expect(opened.locator(cell(NIGHT, "epoch"))).to_have_text("2/3")
    expect(opened.get_by_role("group", name="train_loss: night 0.5, day 1")).to_be_visible()
    assert opened.evaluate("window.notReloaded")


def test_expired_credentials_are_a_notice_and_the_page_recovers(opened: Page, grid: RunningGrid) -> None:
    expired = CallFault(effect="expire", service="dynamodb", caller="")
    grid.cloud.faults.set(FaultPlan(calls=(expired,)))
    try:
        expect(opened.locator(".notice.error")).to_contain_text("The AWS credentials have expired")
        expect(opened.locator(".notice.error")).to_contain_text("aws sso login")
        expect(opened.locator(cell(NIGHT, "name"))).to_be_visible()
    finally:
        grid.cloud.faults.set(FaultPlan())
    expect(opened.locator(".notice")).to_have_count(0)


def test_filters_show_the_jobs_of_a_region_and_of_a_state(opened: Page, grid: RunningGrid, submission: str) -> None:
    rows = opened.locator(".rows .row:not([hidden])")
    opened.get_by_role("combobox", name="Region").select_option("eu-west-1")
    expect(rows).to_have_count(2)
    opened.get_by_role("combobox", name="State").select_option("Failed")
    expect(rows.locator(".name")).to_have_text([BROKEN])
    opened.get_by_role("combobox", name="Submission").select_option(submission)
    expect(rows).to_have_count(1)


def test_a_failed_job_shows_the_end_of_its_log_with_escaped_bytes(
    opened: Page, grid: RunningGrid, submission: str
) -> None:
    opened.locator(cell(BROKEN, "name")).click()
    panel = opened.locator("#panel")
    log = panel.get_by_role("log")
    expect(log).to_contain_text("\\x1b[31mred\\x1b[0m <b>bold</b>")
    expect(log).to_contain_text("last words")
    expect(log.locator("b")).to_have_count(0)
    expect(panel.locator(".why")).to_contain_text("ValueError: the loss is <NaN>")
    command = f"traingrid --grid {grid.work / 'grid.yaml'} logs {submission} {JOBS.index(BROKEN)}"
    expect(panel.get_by_role("region", name="log", exact=True)).to_have_text(command)


def test_a_cancel_by_clicking_stops_the_training_job(opened: Page, grid: RunningGrid, submission: str) -> None:
    grid.reaches(submission, JOBS.index(ENDLESS), "InProgress")
    opened.locator(cell(ENDLESS, "name")).click()
    opened.get_by_role("button", name="Cancel job").click()
    dialog = opened.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("it does not end")
    dialog.get_by_role("button", name="Cancel the job").click()
    expect(dialog).to_contain_text("The cancel is recorded.")
    dialog.get_by_role("button", name="Close").click()
    expect(opened.locator(cell(ENDLESS, "state"))).to_have_text("Stopped")
    item = grid.plane.ledger.job(submission, JOBS.index(ENDLESS))
    assert item is not None
    described = client("sagemaker", item.region).describe_training_job(TrainingJobName=item.training_job)
    assert described["TrainingJobStatus"] == "Stopped"
    (cancel,) = grid.plane.ledger.cancels(submission).values()
    assert cancel.reason == "it does not end"


def test_a_retry_by_clicking_trains_one_failed_job_again(opened: Page, grid: RunningGrid, submission: str) -> None:
    grid.finish(BROKEN)
    opened.locator(cell(BROKEN, "name")).click()
    opened.get_by_role("button", name="Retry job").click()
    dialog = opened.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Job 3 of submission {submission} gets attempt 2")
    dialog.get_by_role("button", name="Retry the job").click()
    expect(dialog).to_contain_text("1 job retried.")
    dialog.get_by_role("button", name="Close").click()
    expect(opened.locator(cell(BROKEN, "state"))).to_have_text("Completed")
    expect(opened.locator("#panel .attempts li")).to_have_count(2)
    item = grid.plane.ledger.job(submission, JOBS.index(BROKEN))
    assert item is not None
    assert [attempt.state for attempt in item.attempts().values()] == ["Failed", "Completed"]


def test_the_page_survives_a_stop_and_a_start_of_the_server(tab: Page, grid: RunningGrid, submission: str) -> None:
    rows = tab.locator(".rows .row:not([hidden])")
    with page_process(grid.work / "grid.yaml") as first:
        tab.goto(first.address)
        expect(rows).to_have_count(len(JOBS))
        assert "Stopped. Jobs continue." in first.stop()
        expect(tab.locator("#connection")).to_contain_text("reconnecting")
        expect(rows).to_have_count(len(JOBS))
    with page_process(grid.work / "grid.yaml", "--port", str(first.port)) as second:
        expect(tab.locator("#connection")).to_contain_text("open the address that `traingrid ui` has printed last")
        other = tab.context.new_page()
        other.goto(second.address)
        expect(other.locator("#connection")).to_have_text("live")
        expect(tab.locator("#connection")).to_have_text("live")  # the browser has the new cookie
        grid.finish(NIGHT)
        for each in (tab, other):
            expect(each.locator(cell(NIGHT, "state"))).to_have_text("Completed")
            expect(each.locator(cell(NIGHT, "epoch"))).to_have_text(f"{EPOCHS}/{EPOCHS}")


def test_the_jobs_that_the_page_left_alone_complete(grid: RunningGrid, submission: str) -> None:
    for name in (NIGHT, DAY):
        grid.finish(name)
    until(lambda: grid.plane.status(submission).ended, "the submission ends")
    states = {job.name: str(job.state) for job in grid.plane.status(submission).jobs}
    assert states == {NIGHT: "Completed", DAY: "Completed", ENDLESS: "Stopped", BROKEN: "Completed"}
