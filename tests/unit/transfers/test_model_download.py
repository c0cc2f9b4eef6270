"""Downloads of models with moto's S3: they continue, verify, and replace only complete archives."""

import gzip
import io
import shutil
import tarfile
import threading
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ResponseStreamingError

from tests.support.sample_deployment import sample_deployment
from traingrid.api import data
from traingrid.api.data import download_models
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.job.backend_traits import BackendName
from traingrid.job.state import JobState
from traingrid.submission.status import JobStatus
from traingrid.transfers import model_download, object_range
from traingrid.transfers.model_download import DownloadStoppedError, ModelDownload


def archive(text: bytes, name: str = "report.json") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as members:
        entry = tarfile.TarInfo(name)
        entry.size = len(text)
        members.addfile(entry, io.BytesIO(text))
    return packed.getvalue()


class Body:
    """The body of a reply whose connection is lost after some bytes."""

    def __init__(self, content: bytes, lost_after: int | None) -> None:
        self.content, self.lost_after = content, lost_after

    def iter_chunks(self, size: int) -> Any:
        sent = self.content if self.lost_after is None else self.content[: self.lost_after]
        for at in range(0, len(sent), size):
            yield sent[at : at + size]
        if self.lost_after is not None:
            raise ResponseStreamingError(error="connection reset")

    def close(self) -> None:
        pass


class LossyS3:
    """S3 that loses the connection after some bytes of each of the first replies."""

    def __init__(self, s3: Any, *lost_after: int) -> None:
        self.s3, self.lost_after, self.ranges = s3, list(lost_after), list[str]()

    def head_object(self, **request: str) -> Any:
        return self.s3.head_object(**request)

    def get_object(self, **request: str) -> Any:
        self.ranges.append(request.get("Range", "all"))
        content = self.s3.get_object(**request)["Body"].read()
        return {"Body": Body(content, self.lost_after.pop(0) if self.lost_after else None)}


@pytest.fixture
def bucket(aws: None) -> str:
    boto3.client("s3").create_bucket(Bucket="models")
    return "models"


@pytest.fixture
def s3(bucket: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(model_download, "_RETRY_SECONDS", 0)
    monkeypatch.setattr(object_range, "CHUNK_BYTES", 16)
    made: Any = boto3.client("s3")
    made.put_object(Bucket=bucket, Key="model.tar.gz", Body=archive(b"first"))
    return made


def download(s3: Any, bucket: str, folder: Path, **more: Any) -> Any:
    source = S3Uri(bucket, "model.tar.gz")
    return ModelDownload(s3=s3, submission="0123abcd", source=source, folder=folder, **more).run(0)


def files_in(folder: Path) -> list[str]:
    """Return the names of the files of a model, without the one marker."""
    files = sorted(path.name for path in folder.iterdir())
    files.remove(".traingrid-model")
    return files


def test_a_lost_connection_continues_where_it_ended(s3: Any, bucket: str, tmp_path: Path) -> None:
    lossy, seen = LossyS3(s3, 40, 0, 20), list[tuple[int, int]]()
    found = download(lossy, bucket, tmp_path / "model", progress=lambda *counts: seen.append(counts))
    assert (found.result, (tmp_path / "model/report.json").read_bytes()) == ("downloaded", b"first")
    assert lossy.ranges == ["all", *(f"bytes={start}-{found.bytes - 1}" for start in (40, 40, 60))]
    assert seen[-1] == (found.bytes, found.bytes)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_an_interrupted_download_continues_in_the_next_run(s3: Any, bucket: str, tmp_path: Path) -> None:
    stop = threading.Event()
    with pytest.raises(DownloadStoppedError):
        download(s3, bucket, tmp_path / "model", stop=stop, progress=lambda *_: stop.set())
    assert not (tmp_path / "model").exists()
    again = LossyS3(s3)
    found = download(again, bucket, tmp_path / "model")
    assert again.ranges == [f"bytes=16-{found.bytes - 1}"]
    assert (tmp_path / "model/report.json").exists()


def test_a_connection_that_is_lost_every_time_is_reported(s3: Any, bucket: str, tmp_path: Path) -> None:
    lossy = LossyS3(s3, 20, *[0] * 5)
    with pytest.raises(TraingridError, match=r"20 of \d+ bytes have arrived") as caught:
        download(lossy, bucket, tmp_path / "model")
    assert caught.value.next_step == "Run the same command again; it continues."
    assert len(lossy.ranges) == 6


def test_a_download_names_the_links_that_it_has_left_out(
    s3: Any, bucket: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as members:
        entry = tarfile.TarInfo("weights")
        entry.size = 1
        members.addfile(entry, io.BytesIO(b"w"))
        for name, target in (("latest", "/opt/ml/model/weights"), ("outside", "../../etc")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            members.addfile(link)
    s3.put_object(Bucket=bucket, Key="model.tar.gz", Body=packed.getvalue())
    assert download(s3, bucket, tmp_path / "model").result == "downloaded"
    assert files_in(tmp_path / "model") == ["weights"]
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith(f"s3://{bucket}/model.tar.gz: ")
    assert "latest" in warning
    assert "outside" in warning


def test_a_model_that_is_there_is_not_read_again_until_it_changes(s3: Any, bucket: str, tmp_path: Path) -> None:
    download(s3, bucket, tmp_path / "model")
    second = LossyS3(s3)
    assert download(second, bucket, tmp_path / "model").result == "kept"
    assert second.ranges == []
    s3.put_object(Bucket=bucket, Key="model.tar.gz", Body=archive(b"second"))
    assert download(s3, bucket, tmp_path / "model").result == "downloaded"
    assert (tmp_path / "model/report.json").read_bytes() == b"second"


def job_of(index: int, bucket: str, backend: BackendName = "sagemaker", attempt: int = 1) -> JobStatus:
    """Return a completed job, whose line sets `output`."""
    artifact = f"s3://{bucket}/models/exp/traingrid-0123abcd-{index}-{attempt}/output/model.tar.gz"
    values: dict[str, Any] = {"name": "line", "region": "eu-west-1", "state": JobState.COMPLETED}
    return JobStatus(index=index, artifact=artifact, backend=backend, **values)


def downloaded(job: JobStatus, folder: Path) -> str:
    (model,) = download_models(sample_deployment(), "0123abcd", [job], lambda _: folder)
    return model.result


def test_a_folder_with_the_model_of_another_job_is_left_alone(
    s3: Any, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files would otherwise be mixed with those of this model."""
    monkeypatch.setattr(data, "client", lambda *_: s3)
    first, again, other = job_of(0, bucket), job_of(0, bucket, attempt=2), job_of(1, bucket)
    for job, content in ((first, b"first"), (again, b"again"), (other, b"other")):
        s3.put_object(Bucket=bucket, Key=S3Uri.parse(job.artifact).key, Body=archive(content))
    folder = tmp_path / "model"
    assert [downloaded(job, folder) for job in (first, again)] == ["downloaded", "downloaded"]
    with pytest.raises(TraingridError, match="model has the model of job 0123abcd/0, whose files would be mixed"):
        downloaded(other, folder)
    assert (folder / "report.json").read_bytes() == b"again"
    (folder / "report.json").unlink()  # the marker alone is no model
    assert downloaded(other, folder) == "downloaded"


def test_a_deleted_folder_gets_all_parts_of_a_model(
    s3: Any, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "client", lambda *_: s3)
    folder = tmp_path / "model"
    for index in range(2):
        job = job_of(index, bucket, "eks")
        key = S3Uri.parse(job.artifact).key.removesuffix(".tar.gz")
        for name in ("", "-1"):
            s3.put_object(Bucket=bucket, Key=f"{key}{name}.tar.gz", Body=archive(b"x", f"part{name}"))
        for _ in range(2):
            assert downloaded(job, folder) == "downloaded"
            assert files_in(folder) == ["part", "part-1"]
            shutil.rmtree(folder)


def test_the_parts_of_other_hosts_of_a_cluster_are_unpacked_into_the_same_folder(
    s3: Any, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in (("model", b"0"), ("model-1", b"1"), ("model-11", b"11"), ("model-x", b"x")):
        s3.put_object(Bucket=bucket, Key=f"job/output/{name}.tar.gz", Body=archive(content, f"part-{content.decode()}"))
    monkeypatch.setattr(data, "client", lambda *_: s3)
    job = JobStatus(
        index=0,
        name="line",
        region="eu-west-1",
        state=JobState.COMPLETED,
        artifact=f"s3://{bucket}/job/output/model.tar.gz",
        backend="eks",
    )
    for result in ("downloaded", "kept"):
        (found,) = download_models(sample_deployment(), "0123abcd", [job], lambda _: tmp_path / "model")
        assert found.result == result
        assert files_in(tmp_path / "model") == ["part-0", "part-1", "part-11"]
    assert not list(tmp_path.glob(".*.part"))


def test_the_part_of_a_replaced_archive_is_not_continued(s3: Any, bucket: str, tmp_path: Path) -> None:
    with pytest.raises(TraingridError):
        download(LossyS3(s3, 20, *[0] * 5), bucket, tmp_path / "model")
    s3.put_object(Bucket=bucket, Key="model.tar.gz", Body=archive(b"second"))
    again = LossyS3(s3)
    download(again, bucket, tmp_path / "model")
    assert again.ranges == ["all"]
    assert (tmp_path / "model/report.json").read_bytes() == b"second"
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("at", [-8, -1, 20], ids=["CRC-32", "length", "content"])
def test_a_changed_byte_is_found_and_nothing_is_unpacked(s3: Any, bucket: str, tmp_path: Path, at: int) -> None:
    content = bytearray(archive(b"x" * 999))
    content[at] ^= 0xFF
    s3.put_object(Bucket=bucket, Key="model.tar.gz", Body=bytes(content))
    with pytest.raises(TraingridError, match="cannot be unpacked"):
        download(s3, bucket, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_archive_is_an_empty_folder(s3: Any, bucket: str, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as _:
        pass
    s3.put_object(Bucket=bucket, Key="model.tar.gz", Body=gzip.compress(packed.getvalue()))
    download(s3, bucket, tmp_path / "model")
    assert files_in(tmp_path / "model") == []


def test_other_files_of_the_folder_remain(s3: Any, bucket: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/notes.txt").write_text("mine")
    download(s3, bucket, tmp_path / "model")
    assert files_in(tmp_path / "model") == ["notes.txt", "report.json"]


def test_one_missing_model_does_not_prevent_the_others(
    s3: Any, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "client", lambda *_: s3)
    jobs = [
        JobStatus(index=index, region="us-east-1", name="x", state=JobState.STOPPED, artifact=f"s3://{bucket}/{key}")
        for index, key in enumerate(["model.tar.gz", "missing.tar.gz", "model.tar.gz"])
    ]
    found = list[int]()
    models = download_models(sample_deployment(), "0123abcd", jobs, lambda job: tmp_path / str(job.index))
    with pytest.raises(TraingridError, match=r"There is no model in .*missing\.tar\.gz: the job is Stopped"):
        found.extend(model.index for model in models)
    assert sorted(found) == [0, 2]
