"""`make demo` and `make demo-catalog`, interrupted by a user."""

import subprocess
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest

import examples.catalog.demo
import examples.digits.demo
import examples.launchers.demo
import examples.torch_ddp.demo


def listening() -> set[int]:
    """Return the ports on which this process listens. A connection would prove little: others reuse a free port."""
    ours = set()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            ours.add(str(path.readlink()))
    rows = [row.split() for row in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].partition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in ours}


@pytest.mark.parametrize(
    "demo", [examples.digits.demo, examples.catalog.demo, examples.launchers.demo, examples.torch_ddp.demo]
)
def test_an_interrupted_demo_stops_its_local_aws_and_prints_one_sentence(
    demo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ports: list[int] = []

    def interrupted(endpoint: str, *_: object) -> None:
        ports.append(int(urlsplit(endpoint).port or 0))
        assert ports[0] in listening()
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "WORK", tmp_path)
    monkeypatch.setattr(demo, "deploy", interrupted)
    monkeypatch.setattr("os.environ", {})
    assert examples.digits.demo.run([], demo.main) == 130
    assert capsys.readouterr().err == "Interrupted. The demo's local AWS and its training jobs are stopped.\n"
    assert ports[0] not in listening()


def test_another_terminal_reaches_the_run_by_the_printed_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = examples.digits.demo
    monkeypatch.setattr(demo, "user_environment", lambda url: {"AWS_ENDPOINT_URL": url, "AWS_SECRET_ACCESS_KEY": "a'b"})
    work = tmp_path / "it's a folder"
    work.mkdir()
    text = demo.another_terminal("http://127.0.0.1:1234", demo.GRID_FILE, work)
    setting = text.splitlines()[1].strip()
    program = f"{setting} && env && traingrid --version"
    shell = subprocess.run(
        ["sh", "-c", program], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert "AWS_ENDPOINT_URL=http://127.0.0.1:1234" in shell.stdout.splitlines()
    assert "AWS_SECRET_ACCESS_KEY=a'b" in shell.stdout.splitlines()
    assert "traingrid, version" in shell.stdout
    assert (work / "environment.sh").stat().st_mode & 0o077 == 0
