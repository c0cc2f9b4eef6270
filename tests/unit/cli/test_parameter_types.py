"""Completion of ids of submissions and of names of Regions by the shell."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.shell_completion import ShellComplete

from traingrid.api.control_plane import ControlPlane
from traingrid.cli.main import cli
from traingrid.errors import TraingridError
from traingrid.ledger.damage import Damaged

GRID = """\
name: mine
home: us-east-1
regions: {us-east-1: {}, us-west-2: {}, eu-west-1: {}}
images: {resnet: {repository: training, tag: "1"}}
job: {image: resnet, instance_type: ml.g5.xlarge}
"""
DAMAGED = Damaged(place="An item", problem="has no state", next_step="Delete it.")


def completions(words: str, incomplete: str) -> list[str]:
    found = ShellComplete(cli, {}, "traingrid", "_TRAINGRID_COMPLETE").get_completions(words.split(), incomplete)
    return [item.value for item in found]


@pytest.fixture(autouse=True)
def submissions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[object]:
    """The items of the ledger of the grid in this folder."""
    items: list[object] = [SimpleNamespace(submission=name) for name in ("0a1b2c3d", "0a9f0e1d", "77777777")]
    ledger = SimpleNamespace(submissions=lambda: iter(items))
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: SimpleNamespace(ledger=ledger))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.yaml").write_text(GRID)
    return items


@pytest.mark.parametrize(
    "words", ["status", "logs", "describe", "retry", "cancel", "compare 77777777", "merge", "cost --submission"]
)
def test_ids_of_submissions_are_completed(words: str) -> None:
    assert completions(words, "0a") == ["0a1b2c3d", "0a9f0e1d"]


def test_only_the_newest_submissions_are_read_and_a_damaged_one_has_no_id(submissions: list[object]) -> None:
    submissions[:] = [DAMAGED, *(SimpleNamespace(submission=f"{number:08x}") for number in range(1000))]
    assert len(completions("status", "")) == 49


@pytest.mark.parametrize("words", ["upload FOLDER", "cancel 0a1b2c3d --region", "eks access"])
def test_regions_of_the_grid_are_completed(words: str) -> None:
    assert completions(words, "us-") == ["us-east-1", "us-west-2"]


def test_the_grid_of_the_command_counts(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(GRID.replace("us-west-2", "us-east-2"))
    assert completions("--grid other.yaml upload .", "us-") == ["us-east-1", "us-east-2"]


def test_what_cannot_be_read_has_no_completion(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused(_grid: Path) -> None:
        raise TraingridError("The grid is not deployed.")

    monkeypatch.setattr(ControlPlane, "of", refused)
    assert completions("status", "") == []
    (tmp_path / "grid.yaml").write_text("name: [")
    assert completions("upload .", "") == []
    (tmp_path / "grid.yaml").unlink()
    assert completions("upload .", "") == []
