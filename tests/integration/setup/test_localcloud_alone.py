"""localcloud without traingrid: its wheel in an empty environment serves a program that uses only boto3."""

import os
import re
from pathlib import Path

import pytest

from tests.integration.setup.test_extras import IMPORT_ALL, ROOT, environment, run
from tests.integration.setup.test_wheel import copy_sources

PROGRAM = ROOT / "examples/boto3_only/train.py"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has only the wheel of localcloud and its requirements."""
    folder = tmp_path_factory.mktemp("alone")
    return environment(folder / "environment", f"file://{copy_sources(folder / 'sources')}/localcloud")


def test_every_module_is_imported_without_traingrid(programs: Path, tmp_path: Path) -> None:
    imported = run(tmp_path, str(programs / "python"), "-c", IMPORT_ALL, "localcloud", PATH=os.environ["PATH"])
    assert imported.returncode == 0, imported.stderr
    assert run(tmp_path, str(programs / "python"), "-c", "import traingrid").returncode == 1


def test_a_boto3_program_prints_the_log_of_its_training_job(programs: Path, tmp_path: Path) -> None:
    """The commands of the example's docstring, with its own program instead of a real training image."""
    localcloud = str(programs / "localcloud")
    variables = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    up = run(tmp_path, localcloud, "up", **variables)
    try:
        assert up.returncode == 0, up.stderr
        variables |= dict(re.findall(r"^export (\w+)=(\S+)$", up.stdout, re.MULTILINE))
        (command,) = re.findall(r"localcloud push (.+)$", PROGRAM.read_text(), re.MULTILINE)
        pushed = run(tmp_path, "sh", "-c", f"localcloud push {command}", **variables)
        assert pushed.returncode == 0, pushed.stderr
        trained = run(tmp_path, str(programs / "python"), str(PROGRAM), **variables)
        assert trained.returncode == 0, trained.stderr
        assert re.fullmatch(r"hello-\w+: Completed\n  hello from a training job\n", trained.stdout)
    finally:
        down = run(tmp_path, localcloud, "down", **variables)
    assert (down.returncode, down.stderr) == (0, "stopped\n")


def test_a_command_without_a_server_names_the_next_step(programs: Path, tmp_path: Path) -> None:
    ended = run(tmp_path, str(programs / "localcloud"), "env", PATH=os.environ["PATH"])
    assert ended.returncode == 1
    assert 'Start one: eval "$(localcloud up)"' in ended.stderr
