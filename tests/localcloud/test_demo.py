"""`make demo`, interrupted by a user."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from examples.digits import demo


def test_an_interrupted_demo_stops_its_local_aws_and_prints_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoints = []

    def interrupted(endpoint: str, *_: object) -> None:
        endpoints.append(endpoint)
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "WORK", tmp_path)
    monkeypatch.setattr(demo, "deploy", interrupted)
    monkeypatch.setattr("os.environ", {})
    assert demo.run([]) == 130
    assert capsys.readouterr().err == "Interrupted. The demo's local AWS and its training jobs are stopped.\n"
    address = urlsplit(endpoints[0])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=1)
