"""Results: copies of checkpoints during the training, and archives and the termination message after it."""

import io
import json
import os
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError

from tests.unit.pod.conftest import NAME, request
from traingrid.pod import results
from traingrid.pod.checkpoint_upload import CheckpointRecord, CheckpointUpload
from traingrid.pod.host import Host
from traingrid.pod.objects import split_uri
from traingrid.pod.prepare import prepare
from traingrid.pod.results import Ending, collect
from traingrid.transfers import retries

Make = Callable[..., Host]
Content = Callable[[], dict[str, str]]
CHECKPOINTS = {"CheckpointConfig": {"S3Uri": "s3://out/ckpt/"}}
OLD = time.time() - 60


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "backoff_seconds", lambda *_: 0.0)
    monkeypatch.setattr(results, "RETRY_SECONDS", 0.0)


def write(file: Path, text: str, when: float = OLD) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (when, when))


def ended() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def ending(log: Path) -> dict[str, str]:
    text = log.read_text()
    assert len(text.encode()) <= 4096
    message: dict[str, str] = json.loads(text)
    return message


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "termination-log"
    file.touch()
    return file


def members(s3: Any, key: str) -> dict[str, str]:
    body = s3.get_object(Bucket="out", Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body), mode="r:gz") as archive:
        opened = {one.name: archive.extractfile(one) for one in archive}
        return {name: file.read().decode() for name, file in opened.items() if file}


def test_model_and_output_are_uploaded_as_sagemaker_names_them(host: Make, s3: Any, log: Path) -> None:
    one = host()
    write(one.base / "model/1/weights", "w")
    write(one.base / "model/report.json", "{}")
    write(one.base / "output/data/plot", "p")
    assert collect(one, s3, ended(), log) == 0
    assert ending(log) == {"artifact": f"s3://out/results/{NAME}/output/model.tar.gz", "failure": "", "error": ""}
    assert members(s3, f"results/{NAME}/output/model.tar.gz") == {"1/weights": "w", "report.json": "{}"}
    assert members(s3, f"results/{NAME}/output/output.tar.gz") == {"plot": "p"}


def test_another_host_uploads_its_files_beside_those_of_the_main_host(host: Make, s3: Any, log: Path) -> None:
    one = host(number=1)
    write(one.base / "model/part", "w")
    assert collect(one, s3, ended(), log) == 0
    assert ending(log)["artifact"] == f"s3://out/results/{NAME}/output/model-1.tar.gz"
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket="out")["Contents"]] == [
        f"results/{NAME}/output/model-1.tar.gz"
    ]


def test_without_files_nothing_is_uploaded(host: Make, s3: Any, log: Path) -> None:
    one = host()
    (one.base / "model/empty").mkdir(parents=True)
    assert collect(one, s3, ended(), log) == 0
    assert ending(log) == {"artifact": "", "failure": "", "error": ""}
    assert "Contents" not in s3.list_objects_v2(Bucket="out")


def test_a_failed_training_has_a_reason_and_its_files(host: Make, s3: Any, log: Path) -> None:
    one = host()
    write(one.base / "model/half", "w")
    write(one.base / "output/failure", "ValueError: “no” data\n" + "é" * 5000)
    assert collect(one, s3, ended(), log) == 0
    message = ending(log)
    assert message["failure"].startswith("ValueError: “no” data\n")
    assert message["artifact"]


@pytest.mark.parametrize("character", ["x", "é", "\u4e2d", "\x01", '"', "\U0001f600"])
def test_the_termination_message_always_fits(character: str) -> None:
    text = Ending(artifact=f"s3://{'b' * 63}/{'k' * 900}", failure=character * 1024, error=character * 1024).encoded()
    assert len(text.encode()) <= 4096
    assert json.loads(text)["failure"]


def test_results_are_encrypted_with_the_key_of_the_request(host: Make, s3: Any, log: Path) -> None:
    one = host(request(OutputDataConfig={"S3OutputPath": "s3://out", "KmsKeyId": "alias/grid"}))
    write(one.base / "model/weights", "w")
    assert collect(one, s3, ended(), log) == 0
    head = s3.head_object(Bucket="out", Key=f"{NAME}/output/model.tar.gz")
    assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", "alias/grid")


class Refusing:
    """S3 whose calls of one operation fail as long as there are errors."""

    def __init__(self, s3: Any, operation: str, *errors: BaseException) -> None:
        self.s3, self.operation, self.errors = s3, operation, list(errors)

    def __getattr__(self, name: str) -> Any:
        if name == self.operation and self.errors:
            raise self.errors.pop(0)
        return getattr(self.s3, name)


def test_an_outage_of_the_upload_is_waited_out(host: Make, s3: Any, log: Path) -> None:
    one = host()
    write(one.base / "model/weights", "w")
    lost = EndpointConnectionError(endpoint_url="https://s3")
    assert collect(one, Refusing(s3, "upload_fileobj", lost, lost), ended(), log) == 0
    assert members(s3, f"results/{NAME}/output/model.tar.gz") == {"weights": "w"}


def test_a_refused_upload_is_the_error_and_the_others_are_uploaded(host: Make, s3: Any, log: Path) -> None:
    one = host(request(**CHECKPOINTS))
    write(one.base / "model/weights", "w")
    write(one.base / "output/data/plot", "p")
    write(one.base / "checkpoints/one", "1")
    denied = ClientError({"Error": {"Code": "AccessDenied", "Message": "Access Denied"}}, "PutObject")
    assert collect(one, Refusing(s3, "upload_fileobj", denied), ended(), log) == 1
    message = ending(log)
    assert message["artifact"] == ""
    assert message["error"].startswith("ClientError: Artifact upload failed:Unable to upload ")
    assert "Check the permissions of the role arn:aws:iam::123456789012:role/training" in message["error"]
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket="out")["Contents"]]
    assert keys == ["ckpt/one", f"results/{NAME}/output/output.tar.gz"]


def test_a_container_that_is_killed_during_the_upload_leaves_a_reason(host: Make, s3: Any, log: Path) -> None:
    one = host()
    write(one.base / "model/weights", "w")
    write(one.base / "output/failure", "it failed")
    with pytest.raises(SystemExit):
        collect(one, Refusing(s3, "upload_fileobj", SystemExit()), ended(), log)
    assert ending(log) == {"artifact": "", "failure": "it failed", "error": results.UNFINISHED}


def test_the_last_copy_of_checkpoints_is_repeated_after_a_wait(host: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []
    monkeypatch.setattr(results, "RETRY_SECONDS", 5.0)
    monkeypatch.setattr(results, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=naps.append))
    outcomes = [
        ConnectionClosedError(endpoint_url="https://s3"),
        ConnectionClosedError(endpoint_url="https://s3"),
        None,
    ]
    copy: Any = SimpleNamespace(copy_changes=lambda **_: outcomes.pop(0), target="s3://out/checkpoints")
    assert results._copy_completely(copy, host(), deadline=60.0) == ""
    assert naps == [5.0, 5.0]


def test_checkpoints_are_copied_during_the_training_and_a_last_time(
    host: Make, s3: Any, log: Path, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "CHECKPOINT_SECONDS", 0.01)
    one, training_ended = host(request(**CHECKPOINTS)), threading.Event()
    write(one.base / "checkpoints/step-1/weights", "1")
    thread = threading.Thread(target=collect, args=(one, s3, training_ended, log))
    thread.start()
    deadline = time.monotonic() + 120
    while "ckpt/step-1/weights" not in content():
        assert time.monotonic() < deadline
    write(one.base / "checkpoints/step-2/weights", "2", when=time.time())
    training_ended.set()
    thread.join()
    assert content() == {"ckpt/step-1/weights": "1", "ckpt/step-2/weights": "2"}


@pytest.fixture
def copier(s3: Any, tmp_path: Path) -> Callable[..., CheckpointUpload]:
    """Return the copy of a host, as a new process of that host would start it."""

    def make(name: str = "a", *, is_main: bool = True, client: Any = s3) -> CheckpointUpload:
        record = CheckpointRecord(tmp_path / f"{name}.json")
        record.load()
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return CheckpointUpload(
            s3=client, folder=folder, target=split_uri("s3://out/ckpt/"), record=record, is_main=is_main
        )

    return make


Copier = Callable[..., CheckpointUpload]


def test_only_changes_are_copied(copier: Copier, content: Content, s3: Any) -> None:
    copy = copier()
    write(copy.folder / "one", "1")
    write(copy.folder / "deep/two", "2")
    assert copy.copy_changes() is None
    assert content() == {"ckpt/one": "1", "ckpt/deep/two": "2"}
    s3.put_object(Bucket="out", Key="ckpt/one", Body=b"untouched")
    write(copy.folder / "deep/two", "22")
    copy.copy_changes()
    assert content() == {"ckpt/one": "untouched", "ckpt/deep/two": "22"}


def test_a_restarted_process_continues(copier: Copier, content: Content, s3: Any) -> None:
    copy = copier()
    write(copy.folder / "one", "1")
    write(copy.folder / "two", "2")
    copy.copy_changes()
    (copy.folder / "two").unlink()
    s3.put_object(Bucket="out", Key="ckpt/mark", Body=b"")
    copier().copy_changes()
    assert content() == {"ckpt/one": "1", "ckpt/mark": ""}


def test_a_broken_record_causes_copies_but_no_deletions(copier: Copier, content: Content, tmp_path: Path) -> None:
    copy = copier()
    write(copy.folder / "one", "1")
    write(copy.folder / "two", "2")
    copy.copy_changes()
    (copy.folder / "two").unlink()
    (tmp_path / "a.json").write_text("[")
    copier().copy_changes()
    assert content() == {"ckpt/one": "1", "ckpt/two": "2"}


def test_a_deleted_file_is_deleted_in_s3(copier: Copier, content: Content) -> None:
    copy = copier()
    write(copy.folder / "step-1/weights", "1")
    write(copy.folder / "step-2/weights", "2")
    copy.copy_changes()
    (copy.folder / "step-1/weights").unlink()
    copy.copy_changes()
    assert content() == {"ckpt/step-2/weights": "2"}


def test_a_missing_folder_deletes_nothing(copier: Copier, content: Content) -> None:
    copy = copier()
    write(copy.folder / "one", "1")
    copy.copy_changes()
    copy.folder.rename(copy.folder.with_name("moved"))
    assert copy.copy_changes() is None
    assert content() == {"ckpt/one": "1"}


def test_a_folder_that_cannot_be_listed_deletes_nothing(
    copier: Copier, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copier()
    write(copy.folder / "deep/one", "1")
    copy.copy_changes()
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if str(path).endswith("deep"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert isinstance(copy.copy_changes(), PermissionError)
    assert content() == {"ckpt/deep/one": "1"}


def test_a_host_does_not_delete_the_file_of_another(copier: Copier, content: Content) -> None:
    first, second = copier("a"), copier("b", is_main=False)
    write(second.folder / "shared", "second")
    write(second.folder / "own", "own")
    second.copy_changes()
    write(first.folder / "shared", "first")
    first.copy_changes()
    for name in ("shared", "own"):
        (second.folder / name).unlink()
    second.copy_changes()
    assert content() == {"ckpt/shared": "first"}


def test_only_the_main_host_deletes_restored_files(host: Make, s3: Any, log: Path, content: Content) -> None:
    s3.put_object(Bucket="out", Key="ckpt/step-1/weights", Body=b"w")
    hosts = [host(request(**CHECKPOINTS), number=number) for number in (0, 1)]
    for one in hosts:
        prepare(one, s3)
        (one.base / "checkpoints/step-1/weights").unlink()
    assert collect(hosts[1], s3, ended(), log) == 0
    assert content() == {"ckpt/step-1/weights": "w"}
    assert collect(hosts[0], s3, ended(), log) == 0
    assert content() == {}


def test_restored_files_are_not_copied_again(host: Make, s3: Any, log: Path, content: Content) -> None:
    s3.put_object(Bucket="out", Key="ckpt/step-1/weights", Body=b"w")
    prepare(one := host(request(**CHECKPOINTS)), s3)
    s3.put_object(Bucket="out", Key="ckpt/step-1/weights", Body=b"untouched")
    assert collect(one, s3, ended(), log) == 0
    assert content() == {"ckpt/step-1/weights": "untouched"}


def test_a_file_that_is_being_written_waits_for_the_next_pass(copier: Copier, content: Content) -> None:
    copy = copier()
    write(copy.folder / "one", "half", when=time.time())
    copy.copy_changes()
    assert content() == {}
    copy.copy_changes(final=True)
    assert content() == {"ckpt/one": "half"}


def test_a_file_that_changes_during_its_copy_is_copied_again(copier: Copier, content: Content, s3: Any) -> None:
    class Writing:
        """S3 during whose first upload the training continues to write."""

        def __init__(self) -> None:
            self.uploads = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(s3, name)

        def upload_file(self, file: str, *place: str, **more: Any) -> None:
            s3.upload_file(file, *place, **more)
            self.uploads += 1
            if self.uploads == 1:
                write(Path(file), "complete")

    copy = copier(client=Writing())
    write(copy.folder / "one", "half")
    copy.copy_changes()
    assert content() == {"ckpt/one": "half"}
    copy.copy_changes()
    assert content() == {"ckpt/one": "complete"}


def test_a_file_that_vanishes_is_no_error(copier: Copier, content: Content, s3: Any) -> None:
    class Vanishing:
        def __getattr__(self, name: str) -> Any:
            return getattr(s3, name)

        def upload_file(self, file: str, *_: str, **__: Any) -> None:
            Path(file).unlink()
            Path(file).read_bytes()

    copy = copier(client=Vanishing())
    write(copy.folder / "one", "1")
    assert copy.copy_changes() is None
    assert content() == {}


def test_a_failed_copy_is_repeated(copier: Copier, content: Content, s3: Any) -> None:
    lost = EndpointConnectionError(endpoint_url="https://s3")
    copy = copier(client=Refusing(s3, "upload_file", lost))
    write(copy.folder / "one", "1")
    assert copy.copy_changes() is lost
    assert copy.copy_changes() is None
    assert content() == {"ckpt/one": "1"}


def test_a_refused_deletion_is_reported_once(copier: Copier, s3: Any, caplog: pytest.LogCaptureFixture) -> None:
    denied = ClientError({"Error": {"Code": "AccessDenied", "Message": "Access Denied"}}, "DeleteObject")
    client = Refusing(s3, "delete_object", *[denied] * 4)
    copy = copier(client=client)
    for name in ("one", "two"):
        write(copy.folder / name, name)
    copy.copy_changes()
    for name in ("one", "two"):
        (copy.folder / name).unlink()
    assert copy.copy_changes() is None
    assert copy.copy_changes() is None
    assert caplog.text.count("was not deleted") == 1
    assert len(client.errors) == 2


def test_a_deletion_during_an_outage_is_repeated(copier: Copier, content: Content, s3: Any) -> None:
    copy = copier(client=Refusing(s3, "delete_object", EndpointConnectionError(endpoint_url="https://s3")))
    write(copy.folder / "one", "1")
    copy.copy_changes()
    (copy.folder / "one").unlink()
    copy.copy_changes()
    assert content() == {"ckpt/one": "1"}
    copy.copy_changes()
    assert content() == {}
