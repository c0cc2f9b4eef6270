"""Page: a browser shows the grid live, filters it, and survives a restart of the server."""

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.local_page import MANIFEST, REGIONS, SUBMISSION, LocalGrid, RunningPage, running_page
from tests.support.local_rounds import train_rounds
from tests.ui.conftest import PATIENCE_MILLISECONDS
from tests.unit.api.test_logs import FakeBackend
from traingrid.api import logs as reading
from traingrid.api.control_plane import ControlPlane
from traingrid.catalog.campaign_facts import CampaignFacts
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger import first_item
from traingrid.ledger import ledger as ledger_module
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.timestamps import timestamp
from traingrid.metrics.history import MetricHistory
from traingrid.metrics.points import MetricPoint
from traingrid.submission.cancel import Canceller, CancelReport
from traingrid.submission.journal import Begun
from traingrid.ui.campaigns import Campaigns

AXE = Path(__file__).resolve().parents[2] / "setup/ui/node_modules/axe-core/axe.min.js"
SCRIPT = "<script>alert(1)</script>"
NAMES = ["digits night", "digits day", SCRIPT, "harbour", "snow", "fog", "tunnel", "bridge"]
expect.set_options(timeout=PATIENCE_MILLISECONDS)


@pytest.fixture
def jobs(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Eight jobs in four Regions: three train, two have failed, one is completed, one waits, and one is pending."""
    jobs = local.submit(NAMES)
    for index in range(3):
        local.train(jobs[index], epoch=7 - index, loss=0.1 + index / 10, validation_top1=0.95 - index / 50)
    why = "AlgorithmError: ExecuteUserScriptError:\n\x1b[31mValueError\x1b[0m: nan loss"
    local.open(jobs[3], state=JobState.FAILED, failure="algorithm", reason=why, training_seconds=312)
    metrics = {"epoch": 20.0, "loss": 0.02, "validation_top1": 0.991}
    local.open(jobs[4], state=JobState.COMPLETED, training_seconds=401, metrics=metrics, artifact="s3://b/model.tar.gz")
    local.open(jobs[5], state=JobState.WAITING, reason="The quota of ml.p3.16xlarge is used up.")
    local.open(jobs[6], state=JobState.FAILED, failure="data", reason="ClientError: No S3 objects found")
    streams = {f"traingrid-{SUBMISSION}-3/algo-1-1": [(time.time_ns() // 10**6, "\x1b[31mlast words <b>")]}
    monkeypatch.setattr(reading, "logs_of", lambda *_: FakeBackend({f"traingrid-{SUBMISSION}-3": streams}))
    monkeypatch.setattr(MetricHistory, "read", curve)
    return jobs


def curve(_: MetricHistory, index: int | None = None) -> list[MetricPoint]:
    """Return the loss and the rate of ten epochs."""
    values = [("loss", 2 / epoch + (index or 0) / 10, epoch) for epoch in range(1, 11)]
    values += [("images_per_second", 1800.0 + 20 * epoch, epoch) for epoch in range(1, 11)]
    return [
        MetricPoint(
            index=index or 0, region="us-east-1", attempt=1, metric=metric, value=value, step=None, epoch=epoch,
            time=datetime.fromtimestamp(1e9 + epoch, UTC),
        )
        for metric, value, epoch in values
    ]  # fmt: skip


@pytest.fixture
def page(local: LocalGrid, jobs: list[Job]) -> Iterator[RunningPage]:
    with running_page(local.plane) as running:
        yield running


def row(tab: Page, name: str) -> Locator:
    return tab.locator(".rows .row", has_text=name)


def rows(tab: Page) -> Locator:
    return tab.locator(".rows .row:not([hidden])")


def violations(tab: Page) -> list[str]:
    """Return the findings of axe-core."""
    tab.evaluate(AXE.read_text())  # the debugger's protocol is not subject to the page's policy
    found: dict[str, Any] = tab.evaluate("axe.run()")
    return [f"{one['id']}: {node['html']}" for one in found["violations"] for node in one["nodes"]]


def test_the_page_shows_regions_jobs_and_failures(tab: Page, page: RunningPage) -> None:
    tab.goto(page.address)
    expect(rows(tab)).to_have_count(8)
    assert "token" not in tab.url
    expect(tab.locator(".lane", has_text="us-east-1")).to_contain_text("digits night")
    expect(tab.locator(".failure", has_text="algorithm")).to_contain_text("Next: Read its log")
    expect(tab.locator(".tile", has_text="running").locator(".figure")).to_have_text("3")
    expect(row(tab, "snow").locator(".accuracy")).to_have_text("0.991")
    expect(row(tab, SCRIPT).locator(".name")).to_have_text(SCRIPT)


def test_the_end_of_an_epoch_is_shown_without_a_reload(
    tab: Page, page: RunningPage, local: LocalGrid, jobs: list[Job]
) -> None:
    tab.goto(page.address)
    expect(row(tab, "digits night").locator(".epoch")).to_have_text("7/20")
    local.train(jobs[0], epoch=8, loss=0.05)
    expect(row(tab, "digits night").locator(".epoch")).to_have_text("8/20")
    local.open(jobs[0], state=JobState.COMPLETED)
    expect(row(tab, "digits night").locator(".state")).to_have_text("Completed")


def test_filters_show_matching_jobs_only(tab: Page, page: RunningPage) -> None:
    tab.goto(page.address)
    expect(rows(tab)).to_have_count(8)
    tab.get_by_role("combobox", name="Region").select_option("eu-west-1")
    expect(rows(tab)).to_have_count(2)
    tab.get_by_role("combobox", name="State").select_option("Failed")
    expect(rows(tab)).to_have_count(1)
    tab.get_by_role("button", name="Clear", exact=True).click()
    tab.get_by_role("searchbox").fill("quota")
    expect(rows(tab)).to_have_count(1)
    expect(tab.locator("#count")).to_have_text("1 of 8")
    tab.get_by_role("button", name="0 stopped").click()
    expect(tab.locator("#count")).to_have_text("0 of 8")
    expect(tab.locator(".empty")).to_be_visible()


def test_jobs_are_sorted_by_a_metric_with_completed_ones_first(
    tab: Page, page: RunningPage, local: LocalGrid, jobs: list[Job]
) -> None:
    local.open(jobs[7], state=JobState.STOPPED, metrics={"validation_top1": 0.999}, artifact="s3://b/model.tar.gz")
    tab.goto(page.address)
    expect(row(tab, "bridge").locator(".state")).to_have_text("Stopped")
    tab.locator("[data-column=accuracy] .sort").click()
    names = rows(tab).locator(".name")
    expect(names).to_have_text(["snow", *NAMES[:3], "fog", "bridge", "harbour", "tunnel"])
    tab.locator("[data-column=accuracy] .sort").click()
    expect(names).to_have_text(["snow", *reversed(NAMES[:3]), "fog", "bridge", "harbour", "tunnel"])


def test_a_failed_job_shows_its_reason_action_and_last_log_lines(tab: Page, page: RunningPage) -> None:
    tab.goto(page.address)
    row(tab, "harbour").click()
    panel = tab.locator("#panel")
    expect(panel.get_by_role("log")).to_contain_text("\\x1b[31mlast words <b>")
    expect(panel).to_contain_text("Next: Read its log (traingrid logs), fix the program")
    expect(panel).to_contain_text("eu-central-1,s3://ragab-ml-fra/campaign-3,harbour")
    expect(panel).to_contain_text(f"traingrid --grid grid.yaml submit {SUBMISSION}-3.csv")
    tab.keyboard.press("Escape")
    expect(panel).to_be_hidden()


def test_curves_of_selected_jobs_are_overlaid(tab: Page, page: RunningPage) -> None:
    tab.goto(page.address)
    for name in ("digits night", "digits day"):
        row(tab, name).locator(".select").click()
    expect(tab.locator(".curve canvas")).to_have_count(2)
    expect(tab.locator("#legend li")).to_have_count(2)
    loss = tab.get_by_role("group", name="loss: digits night 0.2, digits day 0.3")
    expect(loss).to_be_visible()


def test_the_jobs_of_the_newest_submission_are_drawn_without_a_click(
    tab: Page, page: RunningPage, local: LocalGrid
) -> None:
    tab.goto(page.address)
    expect(tab.locator("#curves-of")).to_have_text("of autumn")
    expect(tab.locator("#legend li")).to_have_count(4)  # the others have reported nothing
    expect(tab.locator(".curve canvas")).to_have_count(2)
    (job,) = local.submit(["winter"], submission="89abcdef", manifest=MANIFEST.replace("autumn", "winter"))
    local.train(job, "89abcdef", epoch=1, loss=0.5)
    expect(tab.locator("#curves-of")).to_have_text("of winter")
    expect(tab.locator("#legend li")).to_have_text(["winter (us-east-1)"])


def test_the_timeline_shows_the_attempts_of_each_job(tab: Page, page: RunningPage, local: LocalGrid) -> None:
    (job,) = local.submit(["winter"], submission="89abcdef")
    key = local.train(job, "89abcdef", epoch=1)
    outcome: AttemptFacts = {"region": job.region, "state": JobState.FAILED, "failure": "lost_node"}
    later = timestamp(time.time() + 600)
    outcome |= {"ended_at": later, "billable_seconds": 500}
    local.ledger.next_attempt(key, outcome, "eu-west-1")
    tab.goto(page.address)
    bars = tab.locator("#timeline .track", has_text="winter").get_by_role("img")
    expect(bars).to_have_attribute(
        "aria-label", re.compile(r"^waited 1 min 40 s, attempt 1 in us-east-1 failed \(lost_node\) after 8 min 20 s")
    )
    expect(bars.locator(".part[data-kind=bad]")).to_be_visible()
    tab.locator("#timeline .track-name").first.click()
    expect(tab.locator("#panel-title")).to_have_text("winter")


@pytest.fixture
def sweep(local: LocalGrid) -> list[str]:
    """A sweep of two submissions with three completed trials each; the best one has the rate 0.4."""
    bucket = local.deployment.manifest_bucket
    begun = Begun(spec={"objective": {"metric": "score", "direction": "minimize"}})
    local.storage.objects[f"s3://{bucket}/sweeps/rates/000000.json"] = begun.model_dump_json().encode()
    submissions = ["00000001", "00000002"]
    for batch, submission in enumerate(submissions):
        uri = f"s3://{bucket}/manifests/sweeps/rates/{batch:06d}-abc.csv"
        names = [f"rates-{batch * 3 + trial:04d}" for trial in range(3)]
        line = {"hp.rate": f"0.{batch}{{index}}", "hp.optimizer": f"adam{batch}", "hp.epochs": "9"}
        for job in local.submit(names, submission=submission, line=line, manifest=uri):
            metrics = {"epoch": 9.0, "score": 1.0 - batch / 2 + job.index / 10, "loss": 0.1}
            local.open(job, submission, state=JobState.COMPLETED, metrics=metrics, artifact="s3://b/model.tar.gz")
    return submissions


def test_a_sweep_is_one_group_with_its_best_trial_and_hyperparameters(
    tab: Page, page: RunningPage, sweep: list[str]
) -> None:
    tab.goto(page.address)
    expect(rows(tab)).to_have_count(14)
    tab.get_by_role("combobox", name="Submission").select_option(label="sweep rates")
    expect(rows(tab)).to_have_count(6)
    expect(tab.locator("#best")).to_have_text("Best: rates-0003 with score 0.5 · rate 0.10 · optimizer adam1")
    expect(tab.locator("#effects .curve")).to_have_count(2)
    tab.locator("[data-column=hp-0] .sort").click()
    expect(rows(tab).locator(".hp-0")).to_have_text(["0.00", "0.01", "0.02", "0.10", "0.11", "0.12"])
    expect(tab.locator("[role=columnheader].reason")).to_have_count(0)  # no job has one
    assert violations(tab) == []
    tab.locator("#best button").click()
    expect(tab.locator("#panel-title")).to_have_text("rates-0003")


def test_rounds_show_the_best_model_and_a_timeline_of_each_region(
    tab: Page, page: RunningPage, local: LocalGrid
) -> None:
    train_rounds(local, [0.5, 0.81, 0.73], missing=2)
    tab.goto(page.address)
    tab.get_by_role("combobox", name="Submission").select_option(label="rounds cells")
    expect(tab.locator("#best-round")).to_have_text("Best: round 2 with validation top1 0.81")
    table = tab.locator("#rounds-table")
    expect(table.locator("tbody tr")).to_have_count(4)
    expect(table.locator("tbody tr").nth(1)).to_contain_text("left out")
    expect(table.locator("tbody tr").nth(3)).to_contain_text("running")
    expect(tab.locator("#rounds-plot canvas")).to_have_count(1)
    expect(tab.locator("#timeline .track-name")).to_have_text([*sorted(REGIONS), "merges"])
    expect(tab.locator("#rounds-commands")).to_contain_text("download bbbb0002 0")
    expect(tab.locator("#effects-section")).to_be_hidden()
    expect(tab.locator("#legend li")).to_have_count(8)
    expect(tab.locator("#legend")).not_to_contain_text("merge")
    assert violations(tab) == []
    tab.locator("#best-round button").click()
    expect(tab.locator("#panel-title")).to_have_text("cells-002-merge")


def test_jobs_of_a_new_submission_are_listed_first(tab: Page, page: RunningPage, local: LocalGrid) -> None:
    tab.goto(page.address)
    expect(rows(tab)).to_have_count(len(NAMES))
    local.train(local.submit(["newest"], submission="00000009")[0], "00000009")
    expect(rows(tab).locator(".name").first).to_have_text("newest")


def test_a_link_opens_the_same_view(tab: Page, page: RunningPage, sweep: list[str]) -> None:
    tab.goto(page.address)
    tab.get_by_role("combobox", name="Submission").select_option(label="sweep rates")
    tab.locator("[data-column=hp-0] .sort").click()
    tab.locator("[data-column=hp-0] .sort").click()
    row(tab, "rates-0004").click()
    link = tab.url
    tab.goto("about:blank")
    tab.goto(link)
    expect(tab.locator("#panel-title")).to_have_text("rates-0004")
    names = rows(tab).locator(".name")
    expect(names).to_have_text([f"rates-000{number}" for number in (5, 4, 3, 2, 1, 0)])


def test_old_jobs_are_left_out_unless_they_are_open(
    tab: Page, local: LocalGrid, jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (ledger_module, first_item):
        monkeypatch.setattr(module, "now", lambda: timestamp(time.time() - 8 * 86400))
    old = local.submit(["long ago", "still open"], submission="00000001")
    local.open(old[0], "00000001", state=JobState.FAILED, failure="data", reason="an old error")
    local.train(old[1], "00000001")
    with running_page(local.plane) as page:
        tab.goto(page.address)
        expect(tab.locator("#count")).to_have_text("9 of 10")
        expect(row(tab, "still open")).to_be_visible()
        expect(tab.locator("#failures")).not_to_contain_text("an old error")
        tab.get_by_role("combobox", name="Jobs of").select_option("all time")
        expect(tab.locator("#count")).to_have_text("10")
        expect(tab.locator("#failures")).to_contain_text("an old error")


def test_the_log_can_be_searched_and_wrapped(tab: Page, page: RunningPage, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [(time.time_ns() // 10**6, text) for text in ("epoch 1 " + "x" * 300, "KeyError: 'labels'")]
    streams = {f"traingrid-{SUBMISSION}-3/algo-1-1": lines}
    monkeypatch.setattr(reading, "logs_of", lambda *_: FakeBackend({f"traingrid-{SUBMISSION}-3": streams}))
    tab.goto(page.address)
    row(tab, "harbour").click()
    log = tab.get_by_role("log")
    expect(log).to_contain_text("epoch 1")
    assert log.evaluate("log => log.scrollWidth > log.clientWidth")
    tab.get_by_label("wrap lines").check()
    assert log.evaluate("log => log.scrollWidth <= log.clientWidth")
    tab.get_by_role("searchbox", name="Search the log").fill("keyerror")
    expect(log).to_have_text(re.compile(r"^[0-9:]{8} KeyError: 'labels'$"))


@pytest.mark.parametrize("width", [390, 1920])
def test_no_part_is_wider_than_the_screen(tab: Page, page: RunningPage, sweep: list[str], width: int) -> None:
    tab.set_viewport_size({"width": width, "height": 844})
    tab.goto(f"{page.address}#group=sweep:rates")
    expect(tab.locator("#effects .curve")).to_have_count(2)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    grid = tab.get_by_role("grid")
    assert grid.evaluate("grid => grid.scrollWidth <= grid.clientWidth")
    assert violations(tab) == []
    row(tab, "rates-0001").click()
    expect(tab.locator("#panel-title")).to_have_text("rates-0001")
    assert tab.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("width", [390, 1400])
def test_rounds_are_not_wider_than_the_screen(tab: Page, page: RunningPage, local: LocalGrid, width: int) -> None:
    train_rounds(local, [0.5, 0.81, 0.73], missing=2)
    tab.set_viewport_size({"width": width, "height": 900})
    tab.goto(f"{page.address}#group=rounds:cells")
    expect(tab.locator("#rounds-plot canvas")).to_have_count(1)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert violations(tab) == []


def test_the_table_is_used_with_the_keyboard(tab: Page, page: RunningPage) -> None:
    tab.goto(page.address)
    expect(rows(tab)).to_have_count(8)
    tab.get_by_role("grid").focus()
    for key in ("ArrowDown", "Space", "ArrowDown", "Enter"):
        tab.keyboard.press(key)
    expect(row(tab, "digits day")).to_have_attribute("aria-selected", "true")
    expect(tab.locator("#panel-title")).to_have_text(SCRIPT)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_reports_nothing(tab: Page, page: RunningPage, theme: str) -> None:
    tab.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
    tab.goto(page.address)
    expect(tab.locator("html")).to_have_attribute("data-theme", theme)
    expect(rows(tab)).to_have_count(8)
    assert violations(tab) == []
    row(tab, "digits night").locator(".select").click()
    expect(tab.locator(".curve canvas")).to_have_count(2)
    row(tab, "harbour").click()
    expect(tab.get_by_role("log")).to_contain_text("last words")
    expect(tab.locator("#panel h3", has_text="Commands")).to_be_visible()
    assert violations(tab) == []


def test_the_button_changes_the_theme_for_good(tab: Page, page: RunningPage) -> None:
    tab.goto(page.address)
    tab.get_by_role("button", name="Dark").click()
    expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    tab.reload()
    expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    expect(rows(tab)).to_have_count(8)


def test_a_region_that_does_not_answer_is_marked_and_the_others_are_shown(
    tab: Page, page: RunningPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "logs_of", lambda *_: FakeBackend({}, down=True))
    tab.goto(page.address)
    row(tab, "digits day").click()
    expect(tab.locator(".lane.down")).to_contain_text("us-west-2")
    expect(tab.locator(".lane.down")).to_have_count(1)
    expect(rows(tab)).to_have_count(8)


def test_a_browser_connects_again_and_gets_what_it_missed(
    tab: Page, page: RunningPage, local: LocalGrid, jobs: list[Job]
) -> None:
    tab.goto(page.address)
    expect(rows(tab)).to_have_count(8)
    # The rows do not come from the stream of events, which connects after them. A change of a row does.
    local.open(jobs[0], state=JobState.COMPLETED)
    expect(row(tab, "digits night").locator(".state")).to_have_text("Completed")
    page.page.feed.close()
    expect(tab.locator("#connection")).to_contain_text("reconnecting")
    local.open(jobs[5], state=JobState.FAILED, failure="quota", reason="no quota")
    expect(row(tab, "fog").locator(".state")).to_have_text("Failed")
    expect(tab.locator("#connection")).to_have_text("live")


def test_a_page_of_an_earlier_run_of_the_server_names_the_next_step(
    tab: Page, local: LocalGrid, jobs: list[Job]
) -> None:
    with running_page(local.plane) as page:
        tab.goto(page.address)
        expect(rows(tab)).to_have_count(8)
    with running_page(local.plane, port=page.port):
        expect(tab.locator("#connection")).to_contain_text("open the address that `traingrid ui` has printed last")
    expect(rows(tab)).to_have_count(8)


def test_a_cancel_is_confirmed_and_recorded(
    tab: Page, local: LocalGrid, jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ControlPlane, "caller", lambda _: "arn:ada")
    monkeypatch.setattr(Canceller, "end", lambda *_: CancelReport())
    with running_page(local.plane, writes=True) as page:
        tab.goto(page.address)
        row(tab, "digits night").click()
        tab.get_by_role("button", name="Cancel job").click()
        dialog = tab.get_by_role("dialog")
        expect(dialog).to_contain_text("Cancel digits night?")
        dialog.get_by_role("button", name="Keep as it is").click()
        expect(dialog).to_be_hidden()
        assert local.ledger.cancels(SUBMISSION) == {}
        tab.get_by_role("button", name="Cancel job").click()
        assert violations(tab) == []
        dialog.get_by_label("Reason").fill("too slow")
        dialog.get_by_role("button", name="Cancel the job").click()
        expect(dialog).to_contain_text("The cancel is recorded.")
        expect(row(tab, "digits night").locator(".state")).to_contain_text("cancelled")
    (cancel,) = local.ledger.cancels(SUBMISSION).values()
    assert cancel.reason == "too slow"


def test_campaigns_of_the_catalog_have_jobs_planned_copies_and_a_filter(
    tab: Page, local: LocalGrid, jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    value: dict[str, Any] = {
        "names": ["oslo", SCRIPT],
        "jobs": {SUBMISSION: [0, 0, 1, -1, -1, -1, -1, -1]},
        "error": "",
        "moves": [],
    }
    value["runs"] = {"oslo": {"runs": 12, "dollars": 3.5}}
    move = {"campaign": "oslo", "source": "s3://a/b", "target": "s3://c/d", "from": "us-east-1", "to": "eu-west-1"}
    value["moves"] = [{**move, "bytes": 512 * 10**9, "dollars": 10.24, "state": "copying", "percent": 40, "jobs": 2}]
    monkeypatch.setattr(Campaigns, "_page_data", lambda *_: value)
    answers: list[CampaignFacts | None] = [None, CampaignFacts()]
    with running_page(local.plane, read_facts=lambda: answers[0]) as page:
        tab.goto(page.address)
        expect(rows(tab)).to_have_count(8)
        campaign = tab.get_by_role("combobox", name="Campaign")
        for hidden in (tab.locator("#campaigns-section"), campaign):
            expect(hidden).to_be_hidden()
        del answers[0]
        page.page.poller.campaigns.read()
        oslo = tab.locator("#campaigns .lane", has_text="oslo")
        expect(oslo).to_contain_text("2 running")
        expect(oslo).to_contain_text("12 runs in the catalog, $3.50")
        expect(oslo.locator(".moves li")).to_have_text(
            "us-east-1 → eu-west-1 copying, 40 % · 512 GB · $10.24 · for 2 jobs"
        )
        campaign.select_option("oslo")
        expect(rows(tab)).to_have_count(2)
        assert violations(tab) == []
        answers.clear()  # the next read fails
        page.page.poller.campaigns.read()
        expect(tab.locator("#campaigns-error")).to_contain_text("The catalog does not answer. Unexpected IndexError")
        expect(rows(tab)).to_have_count(2)


def test_a_page_without_write_offers_no_change(tab: Page, page: RunningPage) -> None:
    tab.goto(page.address)
    row(tab, "digits night").click()
    expect(tab.get_by_role("button", name="Show curves")).to_be_visible()
    expect(tab.get_by_role("button", name="Cancel job")).to_have_count(0)
    expect(tab.locator("#mode")).to_have_text("read-only")


def test_ten_thousand_jobs_are_few_rows_of_the_document(tab: Page, local: LocalGrid, record_property: Any) -> None:
    """The times are reported, not checked, because they depend on the machine's load."""
    jobs = [job for part in range(2) for job in submitted(local, part)]
    with running_page(local.plane) as page:
        wait_until_read(page)
        tab.goto(page.address)
        expect(tab.locator("#count")).to_have_text("10,000")
        assert rows(tab).count() < 60
        tab.get_by_role("grid").focus()
        tab.keyboard.press("End")
        expect(row(tab, "job 4999")).to_be_visible()
        for part, job in enumerate(jobs[:200]):
            local.train(job, submission_of(0), epoch=part)
        expect(tab.locator(".tile", has_text="running").locator(".figure")).to_have_text("200")
        drawn: list[float] = tab.evaluate(
            "performance.getEntriesByName('traingrid-update', 'measure').map(one => one.duration)"
        )
        paint = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    times = {
        "first paint": round(paint),
        "first drawing": round(drawn[0], 1),
        "updates": [round(t, 1) for t in drawn[1:]],
    }
    record_property("milliseconds", json.dumps(times))
    print(f"\n10,000 jobs, in ms: {times}")


def submission_of(part: int) -> str:
    return f"0000000{part}"


def submitted(local: LocalGrid, part: int) -> list[Job]:
    return local.submit([f"job {index}" for index in range(5000)], submission=submission_of(part))


def wait_until_read(page: RunningPage) -> None:
    deadline = time.monotonic() + 120
    while page.page.feed.row(f"{submission_of(0)}/0") is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
