"""Proxy: a team's page answers only the users whom a reverse proxy has signed in, and records who changed what."""

import re
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from tests.support.local_page import SUBMISSION, LocalGrid, RunningPage, running_page
from traingrid.api.control_plane import ControlPlane
from traingrid.cli.main import cli
from traingrid.errors import UsageError
from traingrid.submission.cancel import Canceller, CancelReport
from traingrid.ui.proxy import Proxy

ADDRESS = "https://grid.example.com"
USER = "x-amzn-oidc-identity"
HEADERS: dict[str, str | None] = {"Host": "grid.example.com", "Cookie": None, USER: "ada"}


@pytest.fixture
def page(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningPage]:
    local.submit(["night"])
    monkeypatch.setattr(ControlPlane, "caller", lambda _: "arn:server")
    monkeypatch.setattr(Canceller, "end", lambda *_: CancelReport())
    proxy = Proxy.of(ADDRESS, ["127.0.0.0/8"])
    with running_page(local.plane, writes=True, polls=False, proxy=proxy) as running:
        yield running


def test_a_signed_in_user_reads_without_cookie_or_token(page: RunningPage) -> None:
    for path in ("/", "/api/state", "/static/page.js"):
        status, headers, _ = page.request(path, "GET", None, **HEADERS)
        assert (status, "set-cookie" in headers) == (200, False)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({USER: None}, f"The reverse proxy names no user in the header {USER}."),
        ({USER: ""}, f"The reverse proxy names no user in the header {USER}."),
        ({USER: "a" * 257}, f"The reverse proxy names no user in the header {USER}."),
        ({USER: "a\x7fb"}, f"The reverse proxy names no user in the header {USER}."),
        ({"Host": "evil.example"}, "This server answers only requests for grid.example.com."),
        ({"Host": "127.0.0.1"}, "This server answers only requests for grid.example.com."),
        ({"Origin": "https://evil.example"}, "This server answers only requests of its page."),
        ({"Origin": "http://grid.example.com"}, "This server answers only requests of its page."),
        ({"Sec-Fetch-Site": "cross-site"}, "This server answers only requests of its page."),
    ],
)
def test_other_requests_are_refused(page: RunningPage, changed: dict[str, str | None], reason: str) -> None:
    status, _, content = page.request("/api/state", "GET", None, **(HEADERS | changed))
    assert (status, content.decode().strip()) == (403, reason)


@pytest.mark.parametrize(("path", "expected"), [("/", 200), ("/api/state", 403)])
def test_a_link_or_a_login_of_another_site_may_open_only_the_page(page: RunningPage, path: str, expected: int) -> None:
    browser = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert page.request(path, "GET", None, **(HEADERS | browser))[0] == expected
    assert page.request(path, "GET", None, **(HEADERS | browser | {"Sec-Fetch-Dest": "iframe"}))[0] == 403
    assert page.request(path, "POST", None, **(HEADERS | browser))[0] == 403


def test_a_name_may_have_any_letters(page: RunningPage, local: LocalGrid) -> None:
    header = "Jos\u00e9 \u0103".encode().decode("latin-1")
    body = {"submission": SUBMISSION, "index": 0}
    status, _, _ = page.request("/api/cancel", "POST", body, **(HEADERS | {USER: header, "Origin": ADDRESS}))
    assert status == 200
    (cancel,) = local.ledger.cancels(SUBMISSION).values()
    assert cancel.by == "Jos\u00e9 \u0103 through arn:server"


def test_the_session_of_the_printed_address_is_not_enough(page: RunningPage) -> None:
    status, _, _ = page.request(f"/?token={page.page.secrets.token}", Host="grid.example.com")
    assert status == 403


def test_another_address_is_refused_whatever_its_headers_say(local: LocalGrid) -> None:
    with running_page(local.plane, polls=False, proxy=Proxy.of(ADDRESS, ["10.0.4.0/24"])) as page:
        for path in ("/", "/health"):
            status, _, content = page.request(path, "GET", None, **HEADERS, X_Forwarded_For="10.0.4.7")
            assert (status, content) == (403, b"This server answers only its reverse proxy.\n")


def test_the_health_check_of_a_load_balancer_needs_no_user(page: RunningPage) -> None:
    assert page.request("/health", Host=f"127.0.0.1:{page.port}", Cookie=None)[0] == 200


def test_a_change_is_recorded_with_the_user(page: RunningPage, local: LocalGrid) -> None:
    body = {"submission": SUBMISSION, "index": 0}
    status, _, content = page.request("/api/cancel", "POST", body, **HEADERS)
    assert (status, content) == (403, b"A change requires the header Origin.\n")
    status, _, _ = page.request("/api/cancel", "POST", body, **HEADERS, Origin=ADDRESS)
    assert status == 200
    (cancel,) = local.ledger.cancels(SUBMISSION).values()
    assert cancel.by == "ada through arn:server"


@pytest.mark.parametrize(
    ("address", "networks", "problem"),
    [
        ("http://grid.example.com", ["10.0.0.0/8"], "has not the form https://HOST"),
        ("grid.example.com", ["10.0.0.0/8"], "has not the form https://HOST"),
        ("https://a@grid.example.com", ["10.0.0.0/8"], "has not the form https://HOST"),
        ("https://grid.example.com/grid", ["10.0.0.0/8"], "has not the form https://HOST"),
        (ADDRESS, [], "The addresses of the proxy are missing"),
        (ADDRESS, ["10.0.0.1/8"], "A network of the proxy is not valid: 10.0.0.1/8 has host bits set"),
    ],
)
def test_an_invalid_proxy_is_a_sentence(address: str, networks: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=re.escape(problem)):
        Proxy.of(address, networks)


def test_the_address_may_have_a_port_and_a_slash() -> None:
    proxy = Proxy.of("https://Grid.example.com:8443/", ["fd00::/8", "10.0.4.0/24"])
    assert (proxy.url, proxy.host) == ("https://grid.example.com:8443", "grid.example.com:8443")
    assert proxy.is_from_it(("fd00::7", 1))
    assert not proxy.is_from_it(("10.0.5.1", 1))
    assert not proxy.is_from_it(None)


def test_options_of_the_proxy_need_its_address() -> None:
    result = CliRunner().invoke(cli, ["ui", "--proxy", "10.0.4.0/24"])
    assert result.exit_code != 0
    assert "have no effect without --address" in str(result.exception) + result.output
