from collections.abc import Callable

import pytest
from botocore.credentials import Credentials

from localcloud.credentials.secret import DUMMY_KEY
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.eks.clusters import (
    CLUSTER_TRUST,
    USER_TRUST,
    Clients,
    Sender,
    encoded,
    presigned,
    role,
    sender,
    wanted,
)

As = Callable[[Credentials], Sender]


@pytest.fixture(scope="module")
def user(cloud: LocalCloud) -> Credentials:
    """The keys of the account's user."""
    return Credentials(DUMMY_KEY, cloud.secret)


@pytest.fixture(scope="module")
def cluster(client: Clients) -> str:
    """A cluster `research`, of which the account's user is the administrator, and a role `launch`."""
    role(client, "cluster", CLUSTER_TRUST)
    role(client, "launch", USER_TRUST)
    client("eks", "eu-west-1").create_cluster(**wanted(client, "research"))
    return "research"


@pytest.fixture(scope="module")
def sent_by(cloud: LocalCloud, client: Clients, cluster: str) -> As:
    """Return a sender of requests with some credentials."""
    return lambda keys: sender(client, cluster, encoded(presigned(keys, cluster, cloud.endpoint_url)))


@pytest.fixture(scope="module")
def administrator(sent_by: As, user: Credentials) -> Sender:
    """The account's user, which has made the namespace `training`."""
    found = sent_by(user)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "training"}}
    assert found.ask("POST", "/api/v1/namespaces", namespace)[0] == 201
    return found
