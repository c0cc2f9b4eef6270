"""Report: a browser opens the file without any request, and finds it accessible."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.local_page import SUBMISSION, LocalGrid
from tests.support.reported_submission import SCRIPT, curves, submit_reported
from tests.ui.test_page import violations
from traingrid.api.grid import Grid
from traingrid.api.submission import Submission
from traingrid.metrics.history import MetricHistory


@pytest.fixture
def report(local: LocalGrid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The report of jobs in all states."""
    monkeypatch.setattr(MetricHistory, "read", curves())
    submit_reported(local)
    return Submission(Grid(local.plane), SUBMISSION).report(tmp_path / "report.html")


def test_a_report_opens_from_a_file_without_any_request(tab: Page, report: Path) -> None:
    requests: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("dialog", lambda dialog: pytest.fail(f"a script runs: {dialog.message}"))
    tab.goto(report.as_uri())
    tab.wait_for_load_state("networkidle")
    assert requests == [report.as_uri()]
    expect(tab.get_by_role("rowheader", name=SCRIPT, exact=True).first).to_be_visible()
    expect(tab.locator("svg.plot")).to_have_count(5)
    page = tab.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    assert page == "rgb(245, 246, 248)"  # its style is allowed by its policy


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_core_reports_nothing_about_a_report(tab: Page, report: Path, scheme: str) -> None:
    tab.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    tab.goto(report.as_uri())
    assert violations(tab) == []


def test_a_printed_report_is_light_and_shows_its_tables_completely(tab: Page, report: Path) -> None:
    tab.emulate_media(media="print", color_scheme="dark")
    tab.set_viewport_size({"width": 740, "height": 1050})  # A4 within the browser's margins
    tab.goto(report.as_uri())
    assert tab.locator("body").evaluate("body => getComputedStyle(body).color") == "rgb(23, 32, 44)"
    too_wide = "tables => tables.filter(table => table.getBoundingClientRect().right > innerWidth + 1).length"
    assert tab.locator("table").evaluate_all(too_wide) == 0


def test_a_report_fits_a_narrow_window(tab: Page, report: Path) -> None:
    tab.set_viewport_size({"width": 390, "height": 800})
    tab.goto(report.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_report_without_styles_is_readable(browser: Browser, report: Path, tmp_path: Path) -> None:
    head, _, rest = report.read_text().partition("<style>")
    stripped = tmp_path / "stripped.html"
    stripped.write_text(head + rest.partition("</style>")[2])
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(stripped.as_uri())
    expect(tab.locator("svg.plot polyline").first).to_have_attribute("fill", "none")
    expect(tab.get_by_role("table").first).to_contain_text("digits night")
    context.close()
