"""EKS backend: changes of a training job, and the log of its pods."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.eks.steps import REGION, finish, start
from tests.integration.localcloud.compute import wait_until
from tests.integration.localcloud.kubernetes.running_cluster import Cluster
from tests.support.eks_jobs import NAME, terminated
from traingrid.backends import logs_of
from traingrid.backends.eks.backend import Eks
from traingrid.grid.deployment import Deployment
from traingrid.kubernetes.client import POD, Client


def test_the_first_lists_are_news_once(eks: Eks, monkeypatch: pytest.MonkeyPatch) -> None:
    pages, listed, may_list = Client.pages, threading.Event(), threading.Event()

    def late(self: Client, kind: Any, *selection: str) -> Any:
        if threading.current_thread().name.startswith("watch"):
            if kind is POD:
                assert may_list.wait(120)
            else:
                listed.set()
        return pages(self, kind, *selection)

    start(eks)
    monkeypatch.setattr(Client, "pages", late)
    eks.has_news(NAME)
    assert listed.wait(120)
    time.sleep(0.2)
    assert not eks.has_news(NAME), "a description now could miss a change of the pods"
    may_list.set()
    wait_until(lambda: eks.has_news(NAME))
    eks.describe(NAME)
    time.sleep(0.2)
    assert not eks.has_news(NAME)


def test_a_change_is_news_until_the_training_job_is_described(eks: Eks, cluster: Cluster) -> None:
    assert not eks.has_news(NAME)
    start(eks)
    wait_until(lambda: eks.has_news(NAME))
    eks.describe(NAME)
    assert not eks.has_news(NAME)
    finish(cluster, "Complete")
    wait_until(lambda: eks.has_news(NAME))
    assert eks.describe(NAME)
    cluster.store.compact()
    finish(cluster, "Failed")
    wait_until(lambda: eks.has_news(NAME))


def test_the_log_of_an_evicted_pod_has_no_lines(deployment: Deployment, eks: Eks, add_pod: Callable[..., None]) -> None:
    start(eks)
    train = terminated(137, reason="Error")
    add_pod(phase="Failed", prepare=terminated(), train=train, reason="Evicted", message="The node was low on memory.")
    assert list(eks.log_lines(NAME, {})) == []
    assert logs_of(deployment, REGION, "eks").last_log_events(f"algo-1/{NAME}-0", 5, {}) == []
