"""A local AWS with a cluster for the tests of a file, and a cluster with one node."""

import json
from collections.abc import Iterator

import pytest

from localcloud.credentials.environments import user_environment
from localcloud.faults.plan import Capacity, FaultPlan
from localcloud.kubernetes.controllers.provisioner import node_of
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from tests.integration.control_plane.account import OTHER
from tests.integration.control_plane.eks.account import ClusterAccount


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("localcloud"), api_rates=False, batch_stop_grace_seconds=1)
    with LocalCloud(settings) as running:
        yield running


@pytest.fixture(scope="module")
def account(cloud: LocalCloud) -> Iterator[ClusterAccount]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in user_environment(cloud.endpoint_url).items():
            patch.setenv(name, value)
        yield ClusterAccount()


@pytest.fixture
def one_node(cloud: LocalCloud, account: ClusterAccount, instance_type: str) -> Iterator[None]:
    """A cluster with one node of a type, which gets no other ones until the fault plan is empty."""
    cloud.faults.set(FaultPlan(capacity=(Capacity(region=OTHER),)))
    path, node = "/api/v1/nodes", node_of("only", OTHER, instance_type, labels={})
    account.cluster._json("POST", path, None, json.dumps(node).encode())
    account.cluster._json("PUT", f"{path}/only/status", None, json.dumps(node).encode())
    yield
    cloud.faults.set(FaultPlan())
    account.cluster._json("DELETE", f"{path}/only", None, b"")
