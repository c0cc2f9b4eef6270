"""Checkpoints of scripts: atomic, verified, and a limited number."""

import errno
import shutil
import time
from pathlib import Path

import pytest

from traingrid.transfers.checkpoints import newest_checkpoint
from training_container.script_api import checkpoint_folders
from training_container.trainer.checkpoints import background, files


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


def test_incomplete_checkpoints_do_not_count_as_kept_and_are_deleted(tmp_path: Path) -> None:
    complete = save(tmp_path, 1)
    for step in (2, 3):
        incomplete = checkpoint_folders.save(str(tmp_path), step, lambda folder: (folder / "model").touch())
        (incomplete / "model").unlink()
    newest = save(tmp_path, 4)
    assert sorted(tmp_path.iterdir()) == [complete, newest]


def test_a_checkpoint_that_a_thread_writes_into_the_same_folder_comes_first(tmp_path: Path) -> None:
    writing = files.begin(tmp_path, 1)

    def write() -> None:
        time.sleep(0.3)
        (writing / "model").write_text("weights")
        files.finish(writing, {"step": 1, "state": {}})

    background.start(write)
    save(tmp_path, 2)
    assert [path.name[-1] for path in files.folders(tmp_path)] == ["1", "2"]


def test_an_incomplete_checkpoint_is_reported_and_the_previous_one_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, 1)
    (save(tmp_path, 2) / "model").write_text("weight")
    found = checkpoint_folders.newest(tmp_path)
    assert found is not None
    assert found.step == 1
    assert "is skipped: model has 6 of its 7 bytes" in capsys.readouterr().out


MARKERS = ("model.sagemaker-uploading", "model.sagemaker-uploaded", "model.sagemaker-ignore", ".nfs000000000a1b2c3d")


@pytest.mark.parametrize("marker", MARKERS)
def test_files_that_another_program_keeps_beside_those_of_a_checkpoint_are_no_part_of_it(
    tmp_path: Path, marker: str
) -> None:
    def write(folder: Path) -> None:
        (folder / "model").write_text("weights")
        (folder / marker).touch()

    saved = checkpoint_folders.save(tmp_path, 1, write)
    (saved / marker).unlink()
    found = checkpoint_folders.newest(tmp_path)
    assert found is not None
    assert found.step == 1


def test_a_checkpoint_of_an_earlier_image_that_has_recorded_a_marker_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(files, "is_foreign", lambda name: False)
        saved = checkpoint_folders.save(tmp_path, 1, lambda folder: (folder / MARKERS[0]).touch())
    (saved / MARKERS[0]).unlink()
    assert checkpoint_folders.newest(tmp_path) is not None


def test_a_folder_in_which_markers_appear_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PAUSE_SECONDS", 0.0)
    rmtree, left = shutil.rmtree, [3]

    def delete(folder: Path) -> None:
        """Delete a folder, in which another program creates a file during the first deletions."""
        left[0] -= 1
        if left[0] > 0:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", str(folder))
        rmtree(folder)

    monkeypatch.setattr(shutil, "rmtree", delete)
    kept = [save(tmp_path, step) for step in range(3)][-2:]
    assert sorted(tmp_path.iterdir()) == kept


def test_a_folder_that_cannot_be_deleted_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PAUSE_SECONDS", 0.0)

    def refuse(folder: Path) -> None:
        raise OSError(errno.EACCES, "Permission denied", str(folder))

    saved = save(tmp_path, 1)
    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(OSError, match="Permission denied"):
        files.remove(saved)


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


def test_a_job_that_moves_takes_the_newest_checkpoint_with_all_its_files_along(tmp_path: Path) -> None:
    """The child reads state.json in S3, without this module (traingrid/transfers/checkpoints.py)."""
    save(tmp_path, 1)
    newest_folder = save(tmp_path, 2)
    (save(tmp_path, 3) / "model").unlink()
    contents = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    checkpoint = newest_checkpoint({name: len(body) for name, body in contents.items()}, contents.__getitem__)
    assert checkpoint is not None
    assert checkpoint.name == newest_folder.name
    assert set(checkpoint.sizes) == {f"{newest_folder.name}/{name}" for name in ("model", "state.json")}
