import pytest

from tests.support.local_page import LocalGrid
from traingrid.api import description
from traingrid.ledger.ledger import Ledger


@pytest.fixture
def local(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> LocalGrid:
    """A grid with its ledger and its objects in memory."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    grid = LocalGrid(ledger)
    monkeypatch.setattr(description, "Storage", lambda *_, **__: grid.storage)
    return grid
