"""The files of the model with which a job begins: unpacked once on each host."""

import io
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from training_container.contract.training_job import ContractError, Folders
from training_container.script_api import initial_model

Put = Callable[..., Folders]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Put an archive with these files into the channel `model` of a host, as SageMaker does."""

    def write(content: bytes | None = None, **files: bytes) -> Folders:
        folders = Folders(base=tmp_path)
        channel = folders.data / "model"
        channel.mkdir(parents=True)
        if content is not None:
            (channel / "model.tar.gz").write_bytes(content)
            return folders
        with tarfile.open(channel / "model.tar.gz", "w:gz") as archive:
            for name, body in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(body)
                archive.addfile(entry, io.BytesIO(body))
        return folders

    return write


def test_a_job_without_the_channel_has_no_initial_model(tmp_path: Path) -> None:
    assert initial_model.folder(Folders(base=tmp_path)) is None


def test_the_archive_is_unpacked(put: Put) -> None:
    folder = initial_model.folder(put(weights=b"w", report=b"{}"))
    assert folder is not None
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"weights": b"w", "report": b"{}"}


def test_the_folder_is_found_through_the_environment(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = put(weights=b"w")
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(folders.base))
    assert initial_model.folder() == folders.base / "initial_model"


def test_ranks_of_a_host_unpack_it_once(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    folders, unpacked = put(weights=b"w" * 100_000), []
    original = initial_model._unpack

    def counted(archive: Path, target: Path) -> None:
        unpacked.append(target)
        original(archive, target)

    monkeypatch.setattr(initial_model, "_unpack", counted)
    ranks = [threading.Thread(target=initial_model.folder, args=(folders,)) for _ in range(4)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert len(unpacked) == 1


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_a_broken_archive_is_reported_and_leaves_nothing(put: Put, content: bytes) -> None:
    folders = put(content)
    with pytest.raises(ContractError, match=r"model\.tar\.gz cannot be unpacked"):
        initial_model.folder(folders)
    assert {path.name for path in folders.base.iterdir()} == {"input", ".initial_model.lock"}


def test_a_path_outside_of_the_folder_is_refused(put: Put) -> None:
    with pytest.raises(ContractError, match="cannot be unpacked"):
        initial_model.folder(put(**{"../outside": b"x"}))


def test_a_channel_without_an_archive_is_reported(tmp_path: Path) -> None:
    folders = Folders(base=tmp_path)
    (folders.data / "model").mkdir(parents=True)
    with pytest.raises(ContractError, match=r"has no file model\.tar\.gz\. Set init_from"):
        initial_model.folder(folders)
