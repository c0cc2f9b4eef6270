from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.containers.cluster import Cluster
from tests.containers.engine import build, require_containers

pytest_plugins = ["tests.support.skipped_tests"]


@pytest.fixture(scope="session")
def image() -> str:
    """The CPU image, built from this checkout."""
    require_containers()
    return build("cpu")


@pytest.fixture(scope="session")
def orchestrator() -> str:
    """The orchestrator's image, built from this checkout."""
    require_containers()
    return build("orchestrator")


@pytest.fixture
def cluster(image: str, tmp_path: Path) -> Iterator[Callable[[Sequence[str]], Cluster]]:
    """A function that creates the hosts of a training job, which are removed after the test."""
    made: list[Cluster] = []

    def make(hosts: Sequence[str]) -> Cluster:
        made.append(Cluster(image=image, folder=tmp_path, hosts=hosts))
        return made[-1]

    yield make
    for one in made:
        one.remove()
