"""Clients: callers in one process share a client until its credentials, session or settings change."""

import gc
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest

from traingrid.aws import clients
from traingrid.aws.clients import client, client_without_retries, periodic_client, renew
from traingrid.late_request import LateRequestError, refusing

pytestmark = pytest.mark.usefixtures("aws")


def test_callers_share_a_client() -> None:
    assert client("s3", "us-east-1") is client("s3", "us-east-1")


def test_each_region_and_each_kind_of_retry_has_its_own_client() -> None:
    made = [
        client("s3", "us-east-1"),
        client("s3", "eu-west-1"),
        client_without_retries("s3", "us-east-1"),
        periodic_client("s3", "us-east-1"),
    ]
    assert len({id(one) for one in made}) == 4
    assert [one.meta.config.retries["total_max_attempts"] for one in made] == [8, 8, 1, 3]


def test_renewed_credentials_need_a_new_client() -> None:
    before = client("s3", "us-east-1")
    renew()
    assert client("s3", "us-east-1") is not before


def test_another_default_session_has_its_own_clients() -> None:
    before = client("s3", "us-east-1")
    boto3.setup_default_session()
    assert client("s3", "us-east-1") is not before


def test_a_changed_setting_needs_a_new_client(monkeypatch: pytest.MonkeyPatch) -> None:
    before = client("s3", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert client("s3", "us-east-1").meta.endpoint_url == "http://127.0.0.1:1"
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert client("s3", "us-east-1") is before


def test_the_clients_of_a_discarded_session_are_freed() -> None:
    freed = weakref.ref(client("s3", "us-east-1"))
    boto3.setup_default_session()
    gc.collect()
    assert freed() is None


def test_threads_create_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[Any] = []
    everyone = threading.Barrier(8)

    def create(*_: Any) -> object:
        created.append(object())
        return created[-1]

    def request(_: int) -> Any:
        everyone.wait(120)
        return client("s3", "us-east-1")

    monkeypatch.setattr(clients, "_create_client", create)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(request, range(8))) == set(created)
    assert len(created) == 1


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_does_not_use_the_connections_of_its_parent() -> None:
    parent = client("s3", "us-east-1")
    with clients._lock:  # as another thread may hold it
        child = os.fork()
        if child == 0:
            os._exit(client("s3", "us-east-1") is parent)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert client("s3", "us-east-1") is parent


def test_a_late_request_is_signed_and_not_sent() -> None:
    signed = list[str]()
    queue = client_without_retries("sqs", "us-east-1")
    queue.meta.events.register("before-sign", lambda **_: signed.append("signed"))
    with refusing(lambda: bool(signed)), pytest.raises(LateRequestError):
        queue.create_queue(QueueName="late")
    queue.create_queue(QueueName="later")
    assert (len(signed), len(queue.list_queues()["QueueUrls"])) == (2, 1)


def test_a_late_write_to_dynamodb_is_not_sent() -> None:
    with refusing(lambda: True), pytest.raises(LateRequestError):
        client("dynamodb", "us-east-1").delete_table(TableName="any")


def test_other_requests_that_may_be_repeated_are_never_late() -> None:
    with refusing(lambda: True):
        assert "QueueUrls" not in client("sqs", "us-east-1").list_queues()
