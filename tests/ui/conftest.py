import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.interrupts import allow_interrupts
from tests.support.local_page import LocalGrid
from traingrid.ledger.ledger import Ledger
from traingrid.ui import poller
from verification.model.table import ModelTable

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE_MILLISECONDS = 60_000
allow_interrupts()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A Chromium of the system; Playwright downloads none."""
    if CHROMIUM is None:
        missing = "Chromium is not installed: apt-get install chromium"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


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
    """A grid whose ledger is in memory, and a poller that reads it often."""
    memory = ModelTable(lambda _service, _operation, effect: effect(), lambda _old, _new: None)
    monkeypatch.setattr("traingrid.ledger.ledger.Table", lambda *_: memory)
    monkeypatch.setattr(poller, "SHORTEST_SECONDS", 0.1)
    monkeypatch.setattr(poller, "SHORTEST_LOOK_SECONDS", 0.1)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    return LocalGrid(Ledger("ledger"))
