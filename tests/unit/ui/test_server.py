"""Server: requests of other pages, hosts and users are refused, and only --write has routes that change anything."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.support.local_page import SUBMISSION, LocalGrid, RunningPage, running_page
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import renew
from traingrid.errors import UsageError
from traingrid.submission.cancel import Canceller, CancelReport
from traingrid.submission.retry import Retried, Retrier
from traingrid.ui.server import STATIC, listening_socket


@pytest.fixture
def page(local: LocalGrid) -> Iterator[RunningPage]:
    local.submit(["night"])
    with running_page(local.plane, polls=False) as running:
        yield running


@pytest.fixture
def writing(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningPage]:
    local.submit(["night"])
    monkeypatch.setattr(ControlPlane, "caller", lambda _: "arn:ada")
    with running_page(local.plane, writes=True, polls=False) as running:
        yield running


def changes(page: RunningPage) -> dict[str, str | None]:
    return {"Origin": page.url, "X-Traingrid-Token": page.page.secrets.token}


def test_the_printed_address_opens_a_session(page: RunningPage) -> None:
    status, headers, content = page.request(f"/?token={page.page.secrets.token}", Cookie=None)
    assert status == 200
    assert b"<title>traingrid</title>" in content
    assert re.fullmatch(rf"traingrid-{page.port}=[\w-]+; Path=/; HttpOnly; SameSite=Strict", headers["set-cookie"])
    assert page.page.secrets.token not in headers["set-cookie"]


@pytest.mark.parametrize(
    "path", ["/", "/?token=", "/?token=wrong", "/static/page.js", "/api/events", "/api/state", "/nothing"]
)
def test_a_request_without_session_or_token_is_refused(page: RunningPage, path: str) -> None:
    for cookie in (None, "traingrid=1", f"traingrid-{page.port}=wrong", "\xff;;="):
        status, headers, content = page.request(path, Cookie=cookie)
        assert (status, content) == (403, b"Open the address that `traingrid ui` has printed, with its token.\n")
        assert "set-cookie" not in headers


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.:{port}", ""]
)
def test_another_host_name_is_refused_despite_the_session(page: RunningPage, host: str) -> None:
    status, _, content = page.request("/", Host=host.format(port=page.port))
    assert (status, content) == (403, b"This server answers only requests for 127.0.0.1 and localhost.\n")


def test_localhost_is_a_host_name_of_the_page(page: RunningPage) -> None:
    assert page.request("/", Host=f"localhost:{page.port}")[0] == 200


@pytest.mark.parametrize(
    "header", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}]
)
def test_another_origin_is_refused_despite_the_session(page: RunningPage, header: dict[str, str]) -> None:
    assert page.request("/api/events", **header)[0] == 403


def test_every_answer_has_the_security_headers(page: RunningPage) -> None:
    for path, cookie in (("/", page.cookie), ("/", None), ("/static/page.css", page.cookie)):
        headers = page.request(path, Cookie=cookie)[1]
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "no-referrer"


def test_the_page_has_no_inline_script_or_style_and_no_other_address(page: RunningPage) -> None:
    content = page.request("/")[2].decode()
    assert not re.search(r"<style|style=|\son\w+=|https?:", content)
    assert re.findall(r"<script(.*?)></script>", content) == [' type="module" src="/static/page.js"']


def test_the_browser_loads_all_modules_at_once(page: RunningPage) -> None:
    modules = {f"/static/{path.name}" for path in STATIC.glob("*.js")} - {"/static/page.js"}
    assert set(re.findall(r'<link rel="modulepreload" href="(.*?)">', page.request("/")[2].decode())) == modules
    for path in (*modules, "/static/page.js"):
        status, headers, _ = page.request(path)
        assert (status, headers["content-type"]) == (200, "text/javascript; charset=utf-8")


@pytest.mark.parametrize("path", ["/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd"])
def test_only_files_of_the_page_are_served(page: RunningPage, path: str) -> None:
    assert page.request(path)[0] == 404


def test_a_page_without_write_has_no_routes_that_change_anything(page: RunningPage) -> None:
    for path in ("/api/cancel", "/api/retry"):
        assert page.request(path, "POST", {"submission": SUBMISSION}, **changes(page))[0] == 404


@pytest.mark.parametrize("left_out", ["Origin", "X-Traingrid-Token", "Cookie"])
def test_a_change_requires_origin_token_and_session(
    writing: RunningPage, left_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Canceller, "cancel", lambda *_: pytest.fail("it was cancelled"))
    for wrong in (None, "http://evil.example"):
        headers = changes(writing) | {left_out: wrong}
        assert writing.request("/api/cancel", "POST", {"submission": SUBMISSION}, **headers)[0] == 403


def test_a_cancel_is_recorded_for_one_job(writing: RunningPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Canceller, "end", lambda *_: CancelReport())
    body = {"submission": SUBMISSION, "index": 0, "reason": "too slow"}
    status, _, content = writing.request("/api/cancel", "POST", body, **changes(writing))
    assert status == 200
    assert b"The cancel is recorded." in content
    (cancel,) = writing.page.plane.ledger.cancels(SUBMISSION).values()
    assert (cancel.by, cancel.reason) == ("arn:ada", "too slow")


def test_a_retry_reports_jobs_that_are_left_out(writing: RunningPage, monkeypatch: pytest.MonkeyPatch) -> None:
    done = Retried(batch_jobs=["b"], indices=[0], left={1: "it has not ended"}, late=[])
    asked: list[object] = []

    def retry(_: Retrier, *given: str, index: int | None) -> Retried:
        asked.append((*given, index))
        return done

    monkeypatch.setattr(Retrier, "retry", retry)
    status, _, content = writing.request("/api/retry", "POST", {"submission": SUBMISSION}, **changes(writing))
    assert (status, content) == (200, b'{"sentences":["1 job retried.","Job 1 is not retried: it has not ended."]}')
    writing.request("/api/retry", "POST", {"submission": SUBMISSION, "index": 0}, **changes(writing))
    assert asked == [(SUBMISSION, "arn:ada", index) for index in (None, 0)]


@pytest.mark.parametrize(
    "body", [None, [], {}, {"submission": "../x"}, {"submission": SUBMISSION, "all": True}, {"submission": "ffffffff"}]
)
def test_an_invalid_change_is_refused_with_a_sentence(writing: RunningPage, body: object) -> None:
    status, _, content = writing.request("/api/cancel", "POST", body, **changes(writing))
    assert status == 400, content
    assert b"Traceback" not in content


def test_an_unknown_job_is_a_sentence(page: RunningPage) -> None:
    status, _, content = page.request("/api/jobs/ffffffff/0")
    assert (status, b"There is no submission ffffffff" in content) == (400, True)
    assert b"Its indexes are 0 to 0." in page.request(f"/api/jobs/{SUBMISSION}/9")[2]


def test_an_unexpected_error_is_a_sentence_without_a_traceback(
    page: RunningPage, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise LookupError("a defect")

    monkeypatch.setattr("traingrid.ui.server.job_page", fails)
    status, headers, content = page.request(f"/api/jobs/{SUBMISSION}/0")
    assert (status, content) == (500, b'{"error":"Unexpected LookupError: a defect","next_step":""}')
    assert "content-security-policy" in headers
    assert "Traceback" not in capfd.readouterr().err


def test_a_request_with_expired_credentials_names_the_next_step(
    page: RunningPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def expired(*_: object) -> None:
        raise ClientError({"Error": {"Code": "ExpiredToken", "Message": ""}}, "GetObject")

    monkeypatch.setattr("traingrid.ui.server.job_page", expired)
    status, _, content = page.request(f"/api/jobs/{SUBMISSION}/0")
    assert status == 502
    assert json.loads(content)["error"].startswith("The AWS credentials have expired")
    assert "aws sso login" in json.loads(content)["next_step"]


def test_renewed_credentials_are_read_from_the_users_file(
    page: RunningPage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    found = []
    for key in ("OLD", "NEW"):
        file.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = secret\n")
        page.page.renew_credentials()
        found.append(page.page.plane.storage._s3._request_signer._credentials.access_key)
    renew()
    assert found == ["OLD", "NEW"]


def test_the_port_is_one_of_this_machine_only() -> None:
    with listening_socket(0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_a_port_in_use_is_a_sentence(page: RunningPage) -> None:
    with pytest.raises(UsageError, match=rf"Port {page.port} of 127.0.0.1 cannot be used: Address already in use"):
        listening_socket(page.port)
