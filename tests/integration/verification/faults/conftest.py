from collections.abc import Iterator

import pytest

from verification.faults.faulty_grid import Arena, arena


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """Deploy a grid with forked children, shared by all experiments of a module."""
    with arena(tmp_path_factory.mktemp("faults"), seed=1) as deployed:
        yield deployed
