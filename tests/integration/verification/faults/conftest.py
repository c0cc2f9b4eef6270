from collections.abc import Iterator

import pytest

from verification.faults.deployment import faulty_grid
from verification.faults.faulty_grid import FaultyGrid


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyGrid]:
    """Deploy a grid with forked children, shared by all experiments of a module."""
    with faulty_grid(tmp_path_factory.mktemp("faults"), seed=1) as deployed:
        yield deployed
