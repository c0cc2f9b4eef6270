"""`traingrid tensorboard`: copies the data, starts TensorBoard if it is installed, and reports unread Regions."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.python_programs import write_program
from traingrid.api.control_plane import ControlPlane
from traingrid.cli.main import cli
from traingrid.errors import TraingridError
from traingrid.metrics.tensorboard_runs import TensorBoardRuns


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The errors of Regions; each copy changes two files."""
    found: dict[str, str] = {}

    def sync(files: TensorBoardRuns) -> int:
        files.errors.update(found)
        return 2

    nothing: Any = None
    plane = ControlPlane(deployment=nothing, ledger=nothing, batch=nothing, storage=nothing)
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: plane)
    monkeypatch.setattr(ControlPlane, "submission_id", lambda _plane, given: given)
    monkeypatch.setattr(TensorBoardRuns, "sync", sync)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    return found


def run(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, ["tensorboard", "0123abcd", "--logdir", str(folder), *options])


def test_without_tensorboard_the_data_is_copied_and_the_command_printed(errors: dict[str, str], tmp_path: Path) -> None:
    lines = run(tmp_path).output.splitlines()
    command = f"Install it and run: tensorboard --logdir {tmp_path}"
    assert lines == [f"copied 2 files into {tmp_path}", f"TensorBoard is not installed. {command}"]


def test_regions_that_could_not_be_read_fail_the_command(errors: dict[str, str], tmp_path: Path) -> None:
    errors |= {"us-west-2": "no answer", "eu-west-1": "access denied"}
    error = run(tmp_path, "--once").exception
    assert isinstance(error, TraingridError)
    assert error.what.endswith("could not be copied. eu-west-1: access denied; us-west-2: no answer.")


def test_the_end_of_tensorboard_ends_the_command(
    errors: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--logdir", str(tmp_path), "--port", "6006"]
    source = f"import sys, time\ntime.sleep(0.3)\nsys.exit(sys.argv[1:] != {words!r})\n"
    program = write_program(tmp_path / "viewer", source)
    monkeypatch.setattr(shutil, "which", lambda _name: str(program))
    monkeypatch.setattr("traingrid.cli.tensorboard._SYNC_SECONDS", 0.05)
    errors |= {"us-west-2": "no answer"}
    ended = run(tmp_path)
    assert isinstance(ended.exception, TraingridError)
    assert ended.exception.what == "TensorBoard has ended with exit code 0."
    assert ended.stderr == "warning: the TensorBoard data of us-west-2 is not up to date: no answer\n"  # once
