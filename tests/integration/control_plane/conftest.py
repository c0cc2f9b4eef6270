from collections.abc import Iterator

import pytest

from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from tests.integration.control_plane.account import Account
from traingrid.api.control_plane import ControlPlane


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A local AWS that answers passes of the reconciler one after the other; a grid makes one in five minutes."""
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("localcloud"),
        api_rates=False,
        batch_stop_grace_seconds=1,
        training_stop_grace_seconds=1,
    )
    with LocalCloud(settings) as running:
        yield running


@pytest.fixture(scope="module")
def account(cloud: LocalCloud) -> Iterator[Account]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in user_environment(cloud.endpoint_url).items():
            patch.setenv(name, value)
        yield Account()


@pytest.fixture
def commanded(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands find this account for every grid.yaml."""
    plane = ControlPlane(
        deployment=account.deployment,
        ledger=account.ledger,
        batch=None,  # type: ignore[arg-type]  # not called
        storage=account.storage,
    )
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: plane)
