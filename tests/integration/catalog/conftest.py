from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.catalog.postgres import Postgres, running
from traingrid.catalog.database import Catalog
from traingrid.catalog.engines import catalog_url


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/catalog.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_schema()


@pytest.fixture
def catalog(url: str) -> Catalog:
    """A catalog with empty tables."""
    catalog = Catalog(catalog_url(url))
    catalog.create()
    return catalog
