"""Contract: the backend of EKS meets the rules of every backend, with a cluster whose controllers do nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.eks.steps import REGION, finish
from tests.integration.localcloud.kubernetes.running_cluster import Cluster
from tests.support.backend_contract import RULES, Rule, ServiceInTest
from tests.support.eks_jobs import eks_job
from traingrid.backends import logs_of
from traingrid.backends.eks.backend import Eks
from traingrid.backends.eks.inventory import EksInventory
from traingrid.grid.deployment import Deployment
from traingrid.kubernetes.client import Client
from traingrid.kubernetes.errors import UnavailableError


@contextmanager
def without_replies() -> Iterator[None]:
    """Let creations take effect and time out."""
    create: Callable[..., Any] = Client.create

    def lose(self: Client, *arguments: Any) -> None:
        create(self, *arguments)
        raise UnavailableError(0, "", "timed out")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "create", lose)
        yield


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_backend_meets_the_rule(cluster: Cluster, deployment: Deployment, eks: Eks, rule: Rule) -> None:
    rule(
        ServiceInTest(
            backend=eks,
            inventory=EksInventory(deployment, REGION),
            logs=logs_of(deployment, REGION, "eks"),
            job=eks_job(),
            without_replies=without_replies,
            complete=lambda: finish(cluster, "Complete"),
            write=lambda _line: None,
        )
    )
