from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.interrupts import allow_interrupts
from tests.support.local_page import LocalGrid
from tests.support.packages import chromium, require
from traingrid.api import description
from traingrid.ledger.ledger import Ledger
from traingrid.ui import poller
from verification.model.table import ModelTable

pytest_plugins = ["tests.support.skipped_tests"]
PATIENCE_MILLISECONDS = 60_000
allow_interrupts()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A Chromium of the system; Playwright downloads none."""
    require("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A tab whose page must not report any error, for example of its Content-Security-Policy."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, color_scheme="light")
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if "Content Security" in message.text else None)
    yield page
    context.close()
    assert errors == []


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> LocalGrid:
    """A grid whose ledger and objects are in memory, and a poller that reads it often."""
    memory = ModelTable(lambda _service, _operation, effect: effect(), lambda _old, _new: None)
    monkeypatch.setattr("traingrid.ledger.ledger.Table", lambda *_: memory)
    monkeypatch.setattr(poller, "SHORTEST_SECONDS", 0.1)
    monkeypatch.setattr(poller, "SHORTEST_LOOK_SECONDS", 0.1)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    grid = LocalGrid(Ledger("ledger"))
    monkeypatch.setattr(description, "Storage", lambda *_, **__: grid.storage)
    return grid
