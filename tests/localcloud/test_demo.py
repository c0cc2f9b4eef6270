"""`make demo`, interrupted by a user."""

from pathlib import Path

import pytest

from examples.digits import demo


def test_an_interrupted_demo_stops_its_local_aws_and_prints_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def running() -> list[Path]:
        """Return the state files of running servers. A connection would prove little: ports are used again."""
        return list(tmp_path.rglob("server.json"))

    def interrupted(*_: object) -> None:
        assert len(running()) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "WORK", tmp_path)
    monkeypatch.setattr(demo, "deploy", interrupted)
    monkeypatch.setattr("os.environ", {})
    assert demo.run([]) == 130
    assert capsys.readouterr().err == "Interrupted. The demo's local AWS and its training jobs are stopped.\n"
    assert running() == []
