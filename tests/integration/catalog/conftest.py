from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.postgres_server import PostgresServer, running
from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from tests.integration.control_plane.account import Account
from tests.support.packages import needs
from tests.support.strict_dsql import strict_dsql
from traingrid.catalog.database import Catalog
from traingrid.catalog.engines import catalog_url
from traingrid.catalog.sync import GridRecords

_FOLDER = Path(__file__).parent
DATABASES = ["sqlite", "postgresql", "dsql"]
"""`dsql` is PostgreSQL with the documented limits of Aurora DSQL (tests/support/strict_dsql.py)."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start a server."""
    for item in items:
        if item.path.is_relative_to(_FOLDER) and _uses_server(item):
            item.add_marker(needs("postgresql"))


def _uses_server(item: pytest.Item) -> bool:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    databases = {parameters.get("url"), parameters.get("shared_catalog")}
    return "postgres" in getattr(item, "fixturenames", ()) or not databases.isdisjoint(("postgresql", "dsql"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server."""
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def dsql(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """A server that clusters of Aurora DSQL are schemas of."""
    with strict_dsql(postgres.url()):
        yield postgres


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    return _empty(request, tmp_path)


@pytest.fixture
def catalog(url: str) -> Catalog:
    """A catalog with empty tables."""
    return _created(url)


@pytest.fixture(scope="module", params=DATABASES)
def shared_catalog(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """A catalog that all tests of a module share, because they write nothing or expect that nothing is written."""
    return _created(_empty(request, tmp_path_factory.mktemp("catalog")))


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """A grid with a ledger in a local AWS."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("localcloud"), batch_stop_grace_seconds=1)
    with LocalCloud(settings) as cloud, pytest.MonkeyPatch.context() as patch:
        for name, value in user_environment(cloud.endpoint_url).items():
            patch.setenv(name, value)
        yield Account()


@pytest.fixture
def grid(account: Account) -> GridRecords:
    """The records of the account's grid, whose ledger is empty, because each new catalog copies all of it."""
    account.empty_ledger()
    return GridRecords.of(account.deployment)


def _empty(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{folder}/catalog.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    if request.param == "dsql":
        request.getfixturevalue("dsql")
        return f"dsql://{server.new_schema().rpartition('%3D')[2]}.dsql.us-east-1.on.aws"
    return server.new_schema()


def _created(url: str) -> Catalog:
    catalog = Catalog(catalog_url(url))
    catalog.create()
    return catalog
