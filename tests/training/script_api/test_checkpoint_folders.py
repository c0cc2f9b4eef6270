"""Checkpoints of scripts: atomic, verified, and a limited number."""

from pathlib import Path

import pytest

from training_container.script_api import checkpoint_folders


def save(parent: Path, step: int, text: str = "weights") -> Path:
    return checkpoint_folders.save(parent, step, lambda folder: (folder / "model").write_text(text), keep=2, epoch=step)


def test_the_newest_checkpoint_has_its_files_step_and_state(tmp_path: Path) -> None:
    assert checkpoint_folders.newest(tmp_path / "none") is None
    save(tmp_path, 1)
    save(tmp_path, 2, "better")
    found = checkpoint_folders.newest(tmp_path)
    assert found is not None
    assert ((found.folder / "model").read_text(), found.step, found.state) == ("better", 2, {"epoch": 2})


def test_older_checkpoints_are_deleted(tmp_path: Path) -> None:
    kept = [save(tmp_path, step) for step in range(4)][-2:]
    assert sorted(tmp_path.iterdir()) == kept


def test_an_incomplete_checkpoint_is_reported_and_the_previous_one_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, 1)
    (save(tmp_path, 2) / "model").write_text("weight")
    found = checkpoint_folders.newest(tmp_path)
    assert found is not None
    assert found.step == 1
    assert "is skipped: model has 6 of its 7 bytes" in capsys.readouterr().out


def test_a_failed_write_leaves_the_previous_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 1)

    def fail(folder: Path) -> None:
        (folder / "model").write_text("half")
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        checkpoint_folders.save(tmp_path, 2, fail)
    found = checkpoint_folders.newest(tmp_path)
    assert found is not None
    assert found.step == 1
