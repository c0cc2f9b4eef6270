"""The times of the parts of the test commands, and parts that are left out when no time is left."""

import json
from pathlib import Path

import pytest

from bench import lanes


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lanes, "FOLDER", tmp_path)
    return tmp_path


def test_a_part_has_the_exit_status_of_its_command(folder: Path) -> None:
    assert lanes.main(["run", "a part", "--until", "inf", "--", "sh", "-c", "exit 3"]) == 3
    assert json.loads((folder / "a-part.json").read_text())["status"] == 3
    assert lanes.table().splitlines()[1].endswith("failed (3)")


def test_a_part_without_time_is_left_out_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert lanes.main(["run", "late", "--until", "5", "--", "sh", "-c", "exit 3"]) == 0
    assert capsys.readouterr().out == "late: left out, because no time is left: sh -c 'exit 3'\n"
    assert lanes.table().splitlines()[1].endswith("left out")
