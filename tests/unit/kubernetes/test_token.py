"""Tokens: presigned URLs with the cluster's name, signed again before they expire or after they were refused."""

import base64
from urllib.parse import parse_qs, urlsplit

import pytest

from traingrid.aws.clients import client_without_retries
from traingrid.kubernetes.token import CLUSTER_HEADER, Tokens

pytestmark = pytest.mark.usefixtures("aws")


def url_of(token: str) -> str:
    prefix, _, encoded = token.partition(".")
    assert prefix == "k8s-aws-v1"
    assert "=" not in encoded
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()


def test_a_token_is_a_presigned_url_of_the_clusters_region_with_a_signed_name() -> None:
    split = urlsplit(url_of(Tokens("research", "eu-west-1", client_without_retries).current()))
    query = parse_qs(split.query)
    assert split.netloc == "sts.eu-west-1.amazonaws.com"
    assert query["Action"] == ["GetCallerIdentity"]
    assert query["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert query["X-Amz-Expires"] == ["60"]


def test_the_clusters_name_changes_the_signature() -> None:
    one, other = (
        parse_qs(url_of(Tokens(name, "eu-west-1", client_without_retries).current())) for name in ("one", "other")
    )
    assert one["X-Amz-Signature"] != other["X-Amz-Signature"]


def test_the_tokens_of_two_clusters_share_a_client_and_have_their_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (Tokens(name, "eu-west-1", client_without_retries) for name in ("one", "other"))
    signed: list[str] = []
    events = client_without_retries("sts", "eu-west-1").meta.events
    events.register_last("before-sign.sts", lambda request, **_: signed.append(request.headers[CLUSTER_HEADER]))
    for tokens in (one, other, one):
        tokens.discard(tokens.current())
    assert signed == ["one", "other", "one"]
    assert client_without_retries("sts", "eu-west-1").get_caller_identity()["Account"], "the header is for tokens only"
    assert signed[3:] == [None]


def test_a_token_is_used_until_shortly_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    tokens = Tokens("research", "eu-west-1", client_without_retries, clock=lambda: now[0])
    monkeypatch.setattr(tokens, "_signed_token", iter(["token-1", "token-2"]).__next__)
    assert [tokens.current(), tokens.current()] == ["token-1", "token-1"]
    now[0] = 779.0
    assert tokens.current() == "token-1"
    now[0] = 780.0
    assert tokens.current() == "token-2"


def test_a_refused_token_is_replaced_unless_another_thread_has_replaced_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens("research", "eu-west-1", client_without_retries)
    monkeypatch.setattr(tokens, "_signed_token", iter(["first", "second", "third"]).__next__)
    first = tokens.current()
    tokens.discard(first)
    assert tokens.current() == "second"
    tokens.discard(first)
    assert tokens.current() == "second"
