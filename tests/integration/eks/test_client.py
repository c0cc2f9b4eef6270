"""Client: creates once, repeats reads, renews tokens, and follows changes until the history has been compacted."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, TypeAlias

import pytest

from tests.integration.eks.conftest import FixedTokens
from tests.integration.localcloud.kubernetes.running_cluster import TOKEN, Cluster, indexed_job
from tests.support.eks_jobs import CLUSTER_ARN
from traingrid.kubernetes import client as clients
from traingrid.kubernetes.client import JOB, MPI_JOB, Client
from traingrid.kubernetes.cluster import Cluster as Described
from traingrid.kubernetes.connection import RequestLimits
from traingrid.kubernetes.errors import ApiError, NoReplyError, UnavailableError
from traingrid.late_request import LateRequestError, refusing

Reply: TypeAlias = tuple[int, dict[str, str], Any]


@contextmanager
def a_server(*replies: Reply) -> Iterator[tuple[Client, list[str]]]:
    """Serve replies one after the other; None as the status closes the connection. Return a client and the requests."""
    coming, requests = list(replies), list[str]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            requests.append(f"{self.command} {self.headers['Authorization'].split()[1]}")
            code, headers, body = coming.pop(0)
            if not code:
                self.close_connection = True
                return
            content = json.dumps(body).encode()
            self.send_response(code)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the names that http.server calls

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    cluster = Described(name="c", arn="a", endpoint=f"http://127.0.0.1:{server.server_port}", authority="")
    try:
        yield (
            Client(cluster, "default", FixedTokens("old", "new"), RequestLimits(tries=3), sleep=lambda _: None),
            requests,
        )
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def _no_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda cadata: plain(cadata=cadata or None))


LOST: Reply = (0, {}, None)
BUSY: Reply = (429, {"Retry-After": "3"}, {"reason": "TooManyRequests", "message": "busy"})
FOUND: Reply = (200, {}, {"metadata": {"name": "x"}})
EXPIRED: Reply = (401, {}, {"reason": "Unauthorized", "message": "Unauthorized"})


def test_reads_are_repeated_after_errors_that_pass() -> None:
    with a_server(LOST, BUSY, FOUND) as (client, requests):
        assert client.get(JOB, "x")["metadata"] == {"name": "x"}
        assert len(requests) == 3


@pytest.mark.parametrize(
    ("raised", "cause"),
    [
        (TimeoutError("timed out"), "connection timed out"),
        (ConnectionRefusedError(111, "Connection refused"), "connection refused"),
        (OSError(101, "Network is unreachable"), "network is unreachable"),
        (socket.gaierror(-2, "Name or service not known"), "DNS does not resolve its name"),
    ],
)
def test_an_error_without_connection_names_the_host_and_the_cause(
    monkeypatch: pytest.MonkeyPatch, raised: OSError, cause: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise raised

    monkeypatch.setattr("urllib3.util.connection.create_connection", fail)
    cluster = Described(name="c", arn="a", endpoint="https://0a1b.gr7.eu-west-1.eks.amazonaws.com", authority="")
    with pytest.raises(NoReplyError) as error:
        Client(cluster, "default", FixedTokens("x"), sleep=lambda _: None).get(JOB, "x")
    text = f"The API server at 0a1b.gr7.eu-west-1.eks.amazonaws.com did not reply: {cause}."
    assert (str(error.value), error.value.what, error.value.message) == (text, text, cause)


def test_an_error_of_a_lost_reply_names_the_cause() -> None:
    with a_server(LOST, LOST, LOST) as (client, _), pytest.raises(NoReplyError) as error:
        client.get(JOB, "x")
    host = client.cluster.endpoint.removeprefix("http://")
    cause = "connection closed before the end of the reply"
    assert str(error.value) == f"The API server at {host} did not reply: {cause}."


def test_a_server_that_is_silent_is_reported_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"127.0.0.1:{server.getsockname()[1]}"
        for scheme, cause in (("http", "timed out while waiting for the reply"), ("https", "TLS handshake timed out")):
            cluster = Described(name="c", arn="a", endpoint=f"{scheme}://{host}", authority="")
            limits = RequestLimits(connect=0.1, read=0.1, tries=1)
            with pytest.raises(NoReplyError) as error:
                Client(cluster, "default", FixedTokens("x"), limits).get(JOB, "x")
            assert str(error.value) == f"The API server at {host} did not reply: {cause}."


def test_a_creation_is_sent_exactly_once() -> None:
    failing: tuple[Reply, ...] = (LOST, BUSY, (503, {}, {}))
    for failed in failing:
        with a_server(failed, FOUND) as (client, requests):
            with pytest.raises(UnavailableError):
                client.create(JOB, {})
            assert len(requests) == 1


def test_an_expired_token_is_renewed_once_also_for_a_creation() -> None:
    with a_server(EXPIRED, (201, {}, {"kind": "Job"})) as (client, requests):
        assert client.create(JOB, {}) == {"kind": "Job"}
        assert requests == ["POST old", "POST new"]


def test_tokens_that_are_refused_for_some_time_are_an_outage_that_a_creation_waits_for() -> None:
    with a_server(EXPIRED, EXPIRED, EXPIRED, (201, {}, {"kind": "Job"})) as (client, requests):
        assert client.create(JOB, {}) == {"kind": "Job"}
        assert requests == ["POST old", *["POST new"] * 3]
    with a_server(*[EXPIRED] * 9) as (client, requests):
        with pytest.raises(UnavailableError, match="401"):
            client.create(JOB, {})
        assert len(requests) == 4


def test_the_time_for_which_tokens_are_refused_ends_when_one_is_accepted() -> None:
    missing: Reply = (404, {}, {"reason": "NotFound", "message": "no"})
    with a_server(*[EXPIRED] * 8, missing, *[EXPIRED] * 4) as (client, _):
        seconds = iter(range(0, 1000, 10))
        client._connection._clock = lambda: float(next(seconds))
        refused = []
        for expected in (UnavailableError, UnavailableError, ApiError, UnavailableError):
            with pytest.raises(expected) as error:
                client.get(JOB, "x")
            refused.append(getattr(error.value, "refused_seconds", None))
    assert refused == [30.0, 70.0, None, 0.0]


CONFLICT: Reply = (409, {}, {"reason": "Conflict", "message": "Operation cannot be fulfilled on resourcequotas"})
TAKEN: Reply = (409, {}, {"reason": "AlreadyExists", "message": "taken"})


def test_an_object_is_ensured_by_its_name() -> None:
    with a_server(CONFLICT, LOST, TAKEN) as (client, requests):
        client.ensure(JOB, {})
        assert len(requests) == 3
    with a_server(*[CONFLICT] * 4) as (client, requests):
        with pytest.raises(ApiError, match="resourcequotas"):
            client.ensure(JOB, {})
        assert len(requests) == 3


def test_errors_that_do_not_pass_are_raised_at_once() -> None:
    reply: Reply = (403, {}, {"reason": "Forbidden", "message": "no", "details": {"kind": "jobs"}})
    with a_server(reply) as (client, _), pytest.raises(ApiError) as refused:
        client.get(JOB, "x")
    assert (refused.value.code, refused.value.reason, refused.value.kind) == (403, "Forbidden", "jobs")
    assert not isinstance(refused.value, UnavailableError)


def test_objects_are_created_found_patched_and_deleted(client: Client) -> None:
    made = client.create(JOB, indexed_job("one", labels={"a": "b"}))
    assert client.find(JOB, "one") == made
    assert client.find(JOB, "other") is None
    with pytest.raises(ApiError, match="AlreadyExists"):
        client.create(JOB, indexed_job("one"))
    patched = client.patch(JOB, "one", {"metadata": {"annotations": {"x": "1"}}})
    assert patched["metadata"]["annotations"] == {"x": "1"}
    with pytest.raises(ApiError, match="Precondition"):
        client.delete(JOB, "one", uid="another")
    assert client.delete(JOB, "one", uid=made["metadata"]["uid"])
    assert not client.delete(JOB, "one")


def test_a_kind_without_definition_is_not_found(client: Client) -> None:
    unknown = clients.Kind(version="kubeflow.org/v1", kind="MPIJob", plural="mpijobs")
    assert client.find(unknown, "x") is None
    assert client.find(MPI_JOB, "x") is None


def test_an_unknown_field_is_an_error(client: Client) -> None:
    made = indexed_job("one")
    made["spec"]["unknown"] = 1
    with pytest.raises(ApiError, match="strict decoding error"):
        client.create(JOB, made)


def test_lists_are_read_in_chunks(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "PAGE", 2)
    for number in range(5):
        client.create(JOB, indexed_job(f"job-{number}", labels={"a": str(number % 2)}))
    assert [len(page) for page, _ in client.pages(JOB)] == [2, 2, 1]
    assert [one["metadata"]["name"] for one in client.all(JOB, labels="a=1")] == ["job-1", "job-3"]


def test_a_watch_yields_changes_and_an_expired_version_is_an_error(client: Client, cluster: Cluster) -> None:
    *_, (_, version) = client.pages(JOB)
    client.create(JOB, indexed_job("one"))
    client.delete(JOB, "one")
    events = list(client.watch(JOB, version, seconds=1))
    assert [event["type"] for event in events] == ["ADDED", "DELETED"]
    cluster.store.compact()
    client.create(JOB, indexed_job("two"))
    with pytest.raises(ApiError) as gone:
        list(client.watch(JOB, version, seconds=1))
    assert gone.value.code == 410


def test_an_authority_without_key_identifiers_is_accepted(
    described: Described, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = ssl.create_default_context

    def strict(cadata: str) -> ssl.SSLContext:
        context = plain(cadata=cadata)
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default since Python 3.13
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    assert Client(described, "default", FixedTokens(TOKEN), sleep=lambda _: None).find(JOB, "x") is None


def test_a_certificate_of_another_authority_is_refused(described: Described, client: Client) -> None:
    stranger = Described(name="research", arn=CLUSTER_ARN, endpoint=described.endpoint, authority="")
    with pytest.raises(NoReplyError, match=r"did not reply: TLS error: certificate verify failed: "):
        Client(stranger, "default", FixedTokens(TOKEN), sleep=lambda _: None).get(JOB, "x")
    assert client.find(JOB, "x") is None


def test_a_late_creation_is_not_sent_with_a_new_token() -> None:
    with a_server((401, {}, {}), (201, {}, {})) as (client, requests):
        late = iter([False, True])
        with refusing(lambda: next(late)), pytest.raises(LateRequestError):
            client.create(JOB, indexed_job("a"))
        assert requests == ["POST old"]
