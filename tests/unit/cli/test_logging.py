"""Logs of a command: --verbose and --debug write to standard error, without credentials."""

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import ActingRole, client, periodic_client
from traingrid.cli import main
from traingrid.log import configure_cli

GRID = Path(__file__).resolve().parents[3] / "grid.yaml"
TOKEN, SECRET = "a-session-token", "a-secret-key"  # not credentials of an account
CONFIDENTIAL = ("Authorization", "authorization", "AWS4-HMAC-SHA256", "Signature=", TOKEN, SECRET)
"""Parts of signed requests and credentials that no log may contain."""

Output = pytest.CaptureFixture[str]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command in this process and return its exit status."""
    monkeypatch.setattr(sys, "argv", ["traingrid", "--grid", str(GRID), *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    return int(ended.value.code or 0)


@pytest.fixture
def credentials(aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary credentials, which are sent with each request."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)


def confidential(text: str) -> list[str]:
    return [part for part in CONFIDENTIAL if part in text]


def test_a_command_logs_nothing_by_default(credentials: None, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    assert run(monkeypatch, "status") == 1
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("Error: The grid traingrid is not deployed")
    assert "INFO" not in errors


def test_verbose_logs_the_steps_to_standard_error(
    credentials: None, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    assert run(monkeypatch, "--verbose", "status") == 1
    output, errors = capsys.readouterr()
    assert output == ""
    step = "INFO traingrid.api.deployed: reading the deployment of grid traingrid from stack traingrid-control"
    assert step in errors
    assert "DEBUG" not in errors
    assert "Traceback" not in errors


def test_debug_logs_calls_and_the_traceback_but_no_credentials(
    credentials: None, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    assert run(monkeypatch, "--debug", "status") == 1
    errors = capsys.readouterr().err
    assert "DEBUG traingrid.aws.clients: AWS call: cloudformation DescribeStacks in us-east-1" in errors
    assert "Traceback (most recent call last):" in errors
    assert "Error: The grid traingrid is not deployed" in errors
    assert confidential(errors) == []


def test_debug_does_not_log_the_credentials_of_an_assumed_role(credentials: None, capsys: Output) -> None:
    configure_cli(debug=True)
    role = ActingRole(arn="arn:aws:iam::123456789012:role/other", session="child", home="us-east-1")
    made = client("s3", "us-east-1", role)
    made.list_buckets()
    own = made._request_signer._credentials.get_frozen_credentials()
    errors = capsys.readouterr().err
    assert "AWS call: sts AssumeRole in us-east-1" in errors
    assert f"AWS call: s3 ListBuckets in us-east-1 as {role.arn}" in errors
    assert [part for part in (own.access_key, own.secret_key, own.token) if part in errors] == []
    assert confidential(errors) == []


class _Throttling(BaseHTTPRequestHandler):
    """AWS during an outage."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An endpoint that throttles every request."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Throttling)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    variables = {"ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "ACCESS_KEY_ID": "test"}
    for name, value in (variables | {"SECRET_ACCESS_KEY": SECRET, "SESSION_TOKEN": TOKEN}).items():
        monkeypatch.setenv(f"AWS_{name}", value)
    yield
    server.shutdown()
    server.server_close()


def test_debug_logs_the_retries_of_a_request_but_no_credentials(outage: None, capsys: Output) -> None:
    configure_cli(debug=True)
    with pytest.raises(ClientError):
        periodic_client("sts", "us-east-1").get_caller_identity()
    errors = capsys.readouterr().err
    assert errors.count("Retry needed, retrying request after delay of") == 2
    assert confidential(errors) == []


def test_an_unexpected_error_is_one_sentence_and_a_traceback_with_debug(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    def of(_grid: Path) -> ControlPlane:
        raise TypeError("a fault of traingrid")

    monkeypatch.setattr(ControlPlane, "of", of)
    assert run(monkeypatch, "status") == 1
    errors = capsys.readouterr().err
    assert errors.startswith("Error: unexpected TypeError: a fault of traingrid")
    assert "traingrid --debug" in errors
    assert "Traceback" not in errors
    assert run(monkeypatch, "--debug", "status") == 1
    errors = capsys.readouterr().err
    assert "Traceback" in errors
    assert 'raise TypeError("a fault of traingrid")' in errors
