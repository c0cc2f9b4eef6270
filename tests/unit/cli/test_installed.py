"""Missing parts of an installation: each is one sentence, the command that provides it, and exit code 2."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from localcloud.server import lifecycle
from tests.unit.cli.test_main import run
from traingrid import __version__
from traingrid.cli import installed

LOCAL_COMMANDS = ["up", "down", "status", "grant"]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout, in a path with blanks, in which nothing has been installed."""
    root = tmp_path / "my checkout"
    root.mkdir()
    for name in ("app.py", "cdk.json"):
        (root / name).touch()
    monkeypatch.setattr(installed, "_FOLDER", root)
    return root


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    (tmp_path / "m.csv").write_text("us-east-1,s3://b/c\n")
    return str(tmp_path / "m.csv")


def hide(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Make a module appear as not installed (https://docs.python.org/3/library/sys.html#sys.modules)."""
    monkeypatch.setitem(sys.modules, module, None)


def test_the_version_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"traingrid, version {__version__}\n"


@pytest.mark.parametrize("command", LOCAL_COMMANDS)
@pytest.mark.parametrize("module", installed.LOCAL)
def test_a_local_command_names_the_missing_extra(
    command: str, module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide(monkeypatch, module)
    assert run(monkeypatch, "local", command) == 2
    error = capsys.readouterr().err
    assert f"the Python package {module}, which the extra `local` installs" in error
    assert "pip install ./localcloud '.[local]'" in error


@pytest.mark.parametrize(
    "words", [["catalog", "init"], ["catalog", "sql", "SELECT 1"], ["manifest", "--query", "newest"]]
)
@pytest.mark.parametrize("module", installed.CATALOG)
def test_a_command_of_the_catalog_names_the_missing_extra(
    *,
    words: list[str],
    module: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    hide(monkeypatch, module)
    assert run(monkeypatch, *words) == 2
    error = capsys.readouterr().err
    assert f"the Python package {module}, which the extra `catalog` installs" in error
    assert "pip install '.[catalog]'" in error


@pytest.mark.parametrize("module", installed.PLAN)
def test_plan_names_the_missing_extra(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    hide(monkeypatch, module)
    assert run(monkeypatch, "plan", "--query", "newest") == 2
    error = capsys.readouterr().err
    assert f"the Python package {module}, which the extra `plan` installs" in error
    assert "pip install '.[plan]'" in error


@pytest.mark.parametrize("module", installed.UI)
def test_ui_names_the_missing_extra(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide(monkeypatch, module)
    assert run(monkeypatch, "ui") == 2
    error = capsys.readouterr().err
    assert f"the Python package {module}, which the extra `ui` installs" in error
    assert "pip install '.[ui]'" in error


def test_rehearse_names_the_missing_extra(
    *, checkout: Path, manifest: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in ("node_modules/.bin/cdk", ".venv/bin/python", "build/layer/python"):
        (checkout / path).mkdir(parents=True)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    hide(monkeypatch, "moto")
    assert run(monkeypatch, "rehearse", manifest) == 2
    assert "pip install ./localcloud '.[local]'" in capsys.readouterr().err


def test_a_command_that_needs_the_checkout_names_its_missing_checks(
    *, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide(monkeypatch, "verification")
    assert run(monkeypatch, "local", "push") == 2
    error = capsys.readouterr().err
    assert "requires the checks of the checkout" in error
    assert "`make setup-control`" in error


@pytest.mark.parametrize("words", [["local", "push"], ["rehearse"]])
def test_a_command_that_needs_the_checkout_names_the_command_that_prepares_it(
    *,
    words: list[str],
    tmp_path: Path,
    manifest: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(installed, "_FOLDER", tmp_path)
    assert run(monkeypatch, *words, *([manifest] if words == ["rehearse"] else [])) == 2
    error = capsys.readouterr().err
    assert f"of a checkout, which an installed package lacks: traingrid runs from {tmp_path}." in error
    assert "`make setup-control`" in error


def test_rehearse_names_nodejs_if_it_is_missing(
    *, checkout: Path, manifest: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    assert run(monkeypatch, "rehearse", manifest) == 2
    error = capsys.readouterr().err
    assert "requires Node.js for the CDK CLI" in error
    assert f"`make -C '{checkout}' setup-control`" in error


@pytest.mark.parametrize("missing", ["node_modules/.bin/cdk", ".venv/bin/python", "build/layer/python"])
def test_rehearse_names_the_part_of_the_checkout_that_is_not_installed(
    *,
    missing: str,
    checkout: Path,
    manifest: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for path in {"node_modules/.bin/cdk", ".venv/bin/python", "build/layer/python"} - {missing}:
        (checkout / path).mkdir(parents=True)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert run(monkeypatch, "rehearse", manifest) == 2
    error = capsys.readouterr().err
    assert f"requires {checkout / missing}, which does not exist" in error
    assert f"make -C '{checkout}' setup-control" in error


def test_local_up_reports_jobs_that_it_cannot_run(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = SimpleNamespace(endpoint="http://127.0.0.1:1")
    monkeypatch.setattr(lifecycle, "condition", lambda _folder: SimpleNamespace(state="stopped"))
    monkeypatch.setattr(lifecycle, "up", lambda *_: server)
    monkeypatch.setattr(lifecycle, "export_lines", lambda _server: "export AWS_REGION=us-east-1")

    def notes() -> str:
        assert run(monkeypatch, "local", "up") == 0
        printed = capsys.readouterr()
        assert printed.out == "export AWS_REGION=us-east-1\n"
        return re.sub(r"^(localcloud answers at|kubectl uses) .*\n", "", printed.err, flags=re.MULTILINE)

    assert f"It cannot train: the training environment is not installed. Install it: make -C '{checkout}' setup." in (
        notes()
    )
    (checkout / ".venv-training/bin/python").mkdir(parents=True)
    assert notes() == ""
    (checkout / "cdk.json").unlink()
    assert "It cannot run jobs, because traingrid is installed without its checkout." in notes()


def test_the_real_checkout_is_found() -> None:
    assert installed.checkout() == Path(__file__).resolve().parents[3]
