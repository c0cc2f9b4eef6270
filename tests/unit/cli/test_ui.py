"""`traingrid ui`: prints the address of the page, and ends without a traceback when it is interrupted."""

import os
import signal
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.local_page import LocalGrid
from tests.support.sample_grid import GOOD
from traingrid.api.control_plane import ControlPlane
from traingrid.cli.ui import _campaign_facts, ui
from traingrid.errors import TraingridError
from traingrid.ledger.ledger import Ledger


@pytest.mark.parametrize("words", [[], ["--write"]])
def test_the_printed_address_opens_the_page_until_an_interrupt(
    ledger: Ledger, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[str] = []
    pages: list[bytes] = []
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setattr("click.echo", printed.append)
    monkeypatch.setattr(ControlPlane, "of", lambda _: LocalGrid(ledger).plane)

    def visit() -> None:
        deadline = time.monotonic() + 30
        while len(printed) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        try:
            with urllib.request.urlopen(printed[0].removeprefix("Open "), timeout=30) as answer:
                pages.append(answer.read())
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    visitor = threading.Thread(target=visit)
    visitor.start()
    ended = CliRunner().invoke(ui, words, obj=Path("grid.yaml"))
    visitor.join()
    assert (ended.exit_code, ended.exception) == (0, None)
    assert b"<title>traingrid</title>" in pages[0]
    assert ("and change it" in printed[1]) is bool(words)
    assert printed[2] == "Stopped. Jobs continue."


def test_a_grid_without_a_catalog_needs_none(tmp_path: Path) -> None:
    grid_file = tmp_path / "grid.yaml"
    grid_file.write_text(GOOD)
    assert _campaign_facts(grid_file, None) is None
    (tmp_path / "catalog.db").touch()
    with pytest.raises(TraingridError, match=r"has no tables\. Create them: traingrid catalog init"):
        _campaign_facts(grid_file, None)
    with pytest.raises(TraingridError, match="does not exist"):
        _campaign_facts(grid_file, f"sqlite:///{tmp_path}/other.db")
