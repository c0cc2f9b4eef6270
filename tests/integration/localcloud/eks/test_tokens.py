"""Only a fresh call of GetCallerIdentity that is signed for the cluster is a token."""

import base64
import time

import pytest
from botocore.credentials import Credentials

from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.eks.clusters import REGION, Clients, Sender, encoded, presigned, sender, session
from tests.support.module_time import replace_time

PODS = "/api/v1/namespaces/training/pods"
UNAUTHORIZED = (
    401,
    {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    },
)


def test_the_creator_of_a_cluster_is_its_administrator(administrator: Sender) -> None:
    assert administrator.ask("GET", PODS)[1]["items"] == []
    assert administrator.ask("GET", "/api/v1/nodes")[0] == 200


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"headers": {"x-k8s-aws-id": "other"}}, id="of another cluster"),
        pytest.param({"headers": {}}, id="without a cluster"),
        pytest.param({"action": "GetSessionToken"}, id="another action"),
        pytest.param({"expires": 901}, id="more than 15 minutes"),
    ],
)
def test_another_call_is_no_token(
    cloud: LocalCloud, client: Clients, administrator: Sender, user: Credentials, changed: dict[str, object]
) -> None:
    assert administrator.ask("GET", PODS)[0] == 200
    token = encoded(presigned(user, "research", cloud.endpoint_url, **changed))
    assert sender(client, "research", token).ask("GET", PODS) == UNAUTHORIZED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("X-Amz-Signature=", "X-Amz-Signature=0"),
        ("Version=2011-06-15", "Version=2012-06-15"),
        ("/?", "/x?"),
        ("127.0.0.1", "127.0.0.2"),
        ("http:", "https:"),
        ("/?", "/?more=1&"),
        ("X-Amz-Expires=60", "X-Amz-Expires=61"),
    ],
)
def test_a_changed_token_is_refused(
    cloud: LocalCloud, client: Clients, administrator: Sender, old: str, new: str
) -> None:
    assert administrator.ask("GET", PODS)[0] == 200
    url = presigned(Credentials("localcloud", cloud.secret), "research", cloud.endpoint_url)
    assert old in url
    assert sender(client, "research", encoded(url.replace(old, new, 1))).ask("GET", PODS) == UNAUTHORIZED


@pytest.mark.parametrize("token", ["", "k8s-aws-v1.", "k8s-aws-v1.%%", "k8s-aws-v1.aHR0cHM", "x" * 5000])
def test_other_texts_are_refused(client: Clients, cluster: str, token: str) -> None:
    assert sender(client, cluster, token).ask("GET", PODS) == UNAUTHORIZED


def test_a_token_with_padding_is_refused(cloud: LocalCloud, client: Clients, cluster: str, user: Credentials) -> None:
    url = presigned(user, cluster, cloud.endpoint_url)
    url += "" if len(url) % 3 else "&"
    token = "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode()
    assert token.endswith("=")
    assert sender(client, cluster, token).ask("GET", PODS) == UNAUTHORIZED


@pytest.mark.parametrize(("minutes", "status"), [(14, 200), (16, 401)])
def test_a_token_is_valid_for_fifteen_minutes(
    administrator: Sender, monkeypatch: pytest.MonkeyPatch, minutes: int, status: int
) -> None:
    now = time.time()
    replace_time(monkeypatch, "localcloud.wire.signature_check", time=lambda: now + 60 * minutes)
    assert administrator.ask("GET", PODS)[0] == status


def test_keys_that_were_not_issued_here_are_refused(cloud: LocalCloud, client: Clients, cluster: str) -> None:
    foreign = Credentials("AKIAIOSFODNN7EXAMPLE", "secret")
    token = encoded(presigned(foreign, cluster, cloud.endpoint_url))
    assert sender(client, cluster, token).ask("GET", PODS) == UNAUTHORIZED


def test_temporary_credentials_need_their_session_token(
    cloud: LocalCloud, client: Clients, cluster: str, administrator: Sender
) -> None:
    eks, arn = client("eks", REGION), "arn:aws:iam::123456789012:role/launch"
    eks.create_access_entry(clusterName=cluster, principalArn=arn)
    policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
    eks.associate_access_policy(
        clusterName=cluster, principalArn=arn, policyArn=policy, accessScope={"type": "cluster"}
    )
    keys = session(client, "launch")
    valid = encoded(presigned(keys, cluster, cloud.endpoint_url))
    without = encoded(presigned(Credentials(keys.access_key, keys.secret_key), cluster, cloud.endpoint_url))
    assert sender(client, cluster, valid).ask("GET", PODS)[0] == 200
    assert sender(client, cluster, without).ask("GET", PODS) == UNAUTHORIZED
    eks.delete_access_entry(clusterName=cluster, principalArn=arn)
    assert sender(client, cluster, valid).ask("GET", PODS) == UNAUTHORIZED


def test_a_user_of_another_account_has_no_access(cloud: LocalCloud, client: Clients, cluster: str) -> None:
    other = Credentials("localcloud-210987654321", cloud.secret)
    token = encoded(presigned(other, cluster, cloud.endpoint_url))
    assert sender(client, cluster, token).ask("GET", PODS) == UNAUTHORIZED
