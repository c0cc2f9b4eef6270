from collections.abc import Iterator

import pytest

from tests.support import deployment
from verification import deployed_grid
from verification.faults.deployment import faulty_grid
from verification.faults.faulty_grid import FaultyGrid


@pytest.fixture(scope="module")
def without_cli() -> Iterator[None]:
    """Deploy without the CDK CLI, which takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deployed_grid, "deploy", deployment.deploy)
        yield


@pytest.fixture(scope="module")
def grid(without_cli: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyGrid]:
    """Deploy a grid with forked children, shared by all experiments of a module."""
    with faulty_grid(tmp_path_factory.mktemp("faults"), seed=1) as deployed:
        yield deployed
