from collections.abc import Iterator

import pytest

from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import control_plane, two_regions
from tests.support.process import log, logging_as_before
from tests.support.shared_models import service_models_beside_localcloud
from traingrid.api.control_plane import ControlPlane

__all__ = ["log", "logging_as_before", "service_models_beside_localcloud"]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A localcloud with a grid of two Regions."""
    with two_regions(tmp_path_factory.mktemp("cloud")) as running:
        yield running


@pytest.fixture(scope="module")
def plane(cloud: LocalCloud) -> Iterator[ControlPlane]:
    """The control plane as the CLI accesses it, with a user's environment."""
    with control_plane(cloud) as seen:
        yield seen
