"""The request filter refuses foreign host names, web pages, and callers without the secret."""

import http.client
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

import boto3
import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from localcloud.credentials import access_keys
from localcloud.credentials.secret import DUMMY_KEY
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import role
from tests.support.module_time import replace_time

Client = Callable[..., Any]
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def sent(cloud: LocalCloud, request: Any, **changed: str) -> tuple[int, str]:
    """Send a request with some headers replaced; return status and body."""
    address = urlsplit(request.url)
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(cloud.endpoint_url).port or 0)
    target = address.path + (f"?{address.query}" if address.query else "")
    body = request.data if isinstance(request.data, bytes) else str(request.data or "").encode()
    connection.request(request.method, target, body, dict(request.headers.items()) | changed)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def identity(cloud: LocalCloud, secret: str = "", key: str = DUMMY_KEY) -> Any:
    """Return a signed GetCallerIdentity request."""
    body = "Action=GetCallerIdentity&Version=2011-06-15"
    request = AWSRequest(method="POST", url=f"{cloud.endpoint_url}/", data=body, headers=FORM)
    SigV4Auth(Credentials(key, secret or cloud.secret), "sts", "us-east-1").add_auth(request)
    return request


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "s3.localhost", "a.b.localhost", "[::1]"])
def test_requests_to_names_of_this_machine_are_answered(cloud: LocalCloud, name: str) -> None:
    port = urlsplit(cloud.endpoint_url).port
    request = AWSRequest(method="GET", url=f"http://{name}:{port}/localcloud/status")
    SigV4Auth(Credentials(DUMMY_KEY, cloud.secret), "localcloud", "us-east-1").add_auth(request)
    assert sent(cloud, request, Host=f"{name}:{port}")[0] == 200


@pytest.mark.parametrize(
    "name",
    ["evil.example:{port}", "localhost.evil.example:{port}", "127.0.0.1.evil.example:{port}", "127.0.0.1",
     "127.0.0.1:80", "evil.example", "", "localhost:{port}.evil.example"],
)  # fmt: skip
def test_foreign_host_names_that_resolve_to_this_machine_are_refused(cloud: LocalCloud, name: str) -> None:
    port = urlsplit(cloud.endpoint_url).port
    status, text = sent(cloud, identity(cloud), Host=name.format(port=port))
    assert (status, "the request's host is" in text) == (403, True)


@pytest.mark.parametrize(
    ("header", "value"), [("Origin", "null"), ("Origin", "http://localhost"), ("Sec-Fetch-Site", "none")]
)
def test_a_browsers_request_is_refused_even_with_a_valid_signature(cloud: LocalCloud, header: str, value: str) -> None:
    assert sent(cloud, identity(cloud))[0] == 200
    status, text = sent(cloud, identity(cloud), **{header: value})
    assert (status, f"this request has the header {header}" in text) == (403, True)


def test_pages_of_other_origins_cannot_read_responses(cloud: LocalCloud, client: Client) -> None:
    seen: list[dict[str, str]] = []
    s3 = client("s3")
    s3.meta.events.register("after-call.s3", lambda http_response, **_: seen.append(dict(http_response.headers)))
    s3.list_buckets()
    assert not [name for name in seen[0] if name.lower().startswith("access-control")]
    preflight = AWSRequest(method="OPTIONS", url=f"{cloud.endpoint_url}/", headers={"Origin": "http://evil.example"})
    assert sent(cloud, preflight)[0] == 403


@pytest.mark.parametrize("key", [DUMMY_KEY, f"{DUMMY_KEY}-210987654321", access_keys.CLOUDFORMATION_KEY])
def test_a_wrong_secret_is_refused(cloud: LocalCloud, key: str) -> None:
    assert sent(cloud, identity(cloud, key=key))[0] == 200
    status, text = sent(cloud, identity(cloud, secret="localcloud", key=key))
    assert status == 403
    assert "<Code>SignatureDoesNotMatch</Code>" in text
    assert 'eval "$(localcloud env)"' in text


def test_another_body_another_path_and_another_header_are_refused(cloud: LocalCloud) -> None:
    request = identity(cloud)
    request.data = "Action=CreateUser&UserName=eve&Version=2010-05-08"
    assert sent(cloud, request)[0] == 403
    request = identity(cloud)
    request.url += "other"
    assert sent(cloud, request)[0] == 403
    assert sent(cloud, identity(cloud), **{"Content-Type": "text/plain"})[0] == 403
    assert sent(cloud, identity(cloud), **{"X-Amz-Date": "20200101T000000Z"})[0] == 403


def test_an_old_signature_is_refused(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    request, now = identity(cloud), time.time()
    replace_time(monkeypatch, "localcloud.wire.signature_check", time=lambda: now + 16 * 60)
    status, text = sent(cloud, request)
    assert (status, "Signature expired" in text) == (403, True)


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_a_presigned_url_works_unchanged_until_it_expires(
    cloud: LocalCloud, client: Client, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client("s3").create_bucket(Bucket="presigned")
    client("s3").put_object(Bucket="presigned", Key="a b/ü+~.txt", Body=b"content")
    config = Config(signature_version=version)
    s3 = boto3.client(
        "s3",
        "us-east-1",
        endpoint_url=cloud.endpoint_url,
        config=config,
        aws_access_key_id=DUMMY_KEY,
        aws_secret_access_key=cloud.secret,
    )
    params = {"Bucket": "presigned", "Key": "a b/ü+~.txt", "ResponseContentType": "text/plain; charset=utf-8"}
    url = s3.generate_presigned_url("get_object", Params=params, ExpiresIn=60)
    assert sent(cloud, AWSRequest(method="GET", url=url)) == (200, "content")
    assert sent(cloud, AWSRequest(method="DELETE", url=url))[0] == 403
    assert sent(cloud, AWSRequest(method="GET", url=url.replace(quote("ü"), "u")))[0] == 403
    assert sent(cloud, AWSRequest(method="GET", url=url.replace("xpires=", "xpires=9")))[0] == 403
    now = time.time()
    replace_time(monkeypatch, "localcloud.wire.signature_check", time=lambda: now + 61)
    assert sent(cloud, AWSRequest(method="GET", url=url))[0] == 403


def test_issued_credentials_verify_only_with_their_own_secret_and_token(cloud: LocalCloud, client: Client) -> None:
    arn = role(client("iam"), "verified", "lambda.amazonaws.com")
    child = cloud.environment_for("us-east-1", arn, {})
    given = [
        (child["AWS_ACCESS_KEY_ID"], child["AWS_SECRET_ACCESS_KEY"], child["AWS_SESSION_TOKEN"]),
        tuple(client("sts").get_session_token()["Credentials"].values())[:3],
        tuple(client("sts").get_federation_token(Name="eve")["Credentials"].values())[:3],
    ]
    for key, secret, token in given:
        for trial, allowed in (
            ((key, secret, token), True),
            ((key, secret, None), False),
            ((key, cloud.secret, token), False),
            ((key, secret, token[:-2] + "xx"), False),
        ):
            session = boto3.Session(trial[0], trial[1], trial[2], region_name="us-east-1")
            sts = session.client("sts", endpoint_url=cloud.endpoint_url)
            if allowed:
                assert sts.get_caller_identity()["Account"] == "123456789012"
                continue
            with pytest.raises(ClientError, match=r"SignatureDoesNotMatch|InvalidClientTokenId"):
                sts.get_caller_identity()


@pytest.mark.parametrize("payload", ["UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"])
def test_unsigned_payloads_of_s3_require_signed_headers(cloud: LocalCloud, client: Client, payload: str) -> None:
    client("s3").create_bucket(Bucket="unsigned-payloads")

    class Signer(S3SigV4Auth):
        def payload(self, request: AWSRequest) -> str:
            return payload

    chunked = payload.startswith("STREAMING")
    extra = {"Content-Encoding": "aws-chunked", "X-Amz-Decoded-Content-Length": "4"} if chunked else {}
    body = b"4\r\nbody\r\n0\r\n\r\n" if chunked else b"body"
    for secret, expected in ((cloud.secret, 200), ("localcloud", 403)):
        url = f"{cloud.endpoint_url}/unsigned-payloads/{payload}"
        request = AWSRequest(method="PUT", url=url, data=body, headers=dict(extra))
        Signer(Credentials(DUMMY_KEY, secret), "s3", "us-east-1").add_auth(request)
        assert sent(cloud, request)[0] == expected
    stored = client("s3").get_object(Bucket="unsigned-payloads", Key=payload)["Body"].read()
    assert stored == b"body"


@pytest.mark.parametrize("path", ["status", "record", "faults", "other"])
def test_only_users_with_the_secret_can_open_the_servers_pages(cloud: LocalCloud, client: Client, path: str) -> None:
    arn = role(client("iam"), f"asks-{path}", "lambda.amazonaws.com")
    child = cloud.environment_for("us-east-1", arn, {})
    session = Credentials(child["AWS_ACCESS_KEY_ID"], child["AWS_SECRET_ACCESS_KEY"], child["AWS_SESSION_TOKEN"])
    user = Credentials(DUMMY_KEY, cloud.secret)
    expected = 404 if path == "other" else 200
    for credentials, status in ((user, expected), (session, 403), (Credentials(DUMMY_KEY, "wrong"), 403), (None, 403)):
        request = AWSRequest(method="GET", url=f"{cloud.endpoint_url}/localcloud/{path}")
        if credentials:
            SigV4Auth(credentials, "localcloud", "us-east-1").add_auth(request)
        assert sent(cloud, request)[0] == status


def test_an_invalid_entry_number_is_a_bad_request(cloud: LocalCloud) -> None:
    request = AWSRequest(method="GET", url=f"{cloud.endpoint_url}/localcloud/record?after=abc")
    SigV4Auth(Credentials(DUMMY_KEY, cloud.secret), "localcloud", "us-east-1").add_auth(request)
    assert sent(cloud, request) == (400, "after must be the number of an entry; got 'abc'.\n")
