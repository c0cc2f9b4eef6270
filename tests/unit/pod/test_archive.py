"""Archive: a streamed .tar.gz that every reader accepts, and the memory that transfers of large files use."""

import gzip
import json
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
import pytest

from traingrid.aws.s3_uri import S3Uri
from traingrid.pod.archive import _Stream, tar_pieces, upload_folder
from traingrid.pod.gzip_stream import BLOCK_BYTES, blocks, compressed
from traingrid.transfers import model_download
from traingrid.unpacking import ArchiveLimits, unpack

MIB = 2**20


def packed(folder: Path) -> bytes:
    return b"".join(compressed(tar_pieces(folder), threads=2))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with every kind of entry."""
    model = tmp_path / "model"
    (model / "empty").mkdir(parents=True)
    (model / "deep" / ("long-" * 30)).mkdir(parents=True)
    (model / "deep" / ("long-" * 30) / ("name" * 20)).write_text("long path")
    (model / "weights").write_bytes(random.Random(1).randbytes(3 * MIB + 5))
    (model / "zero").touch()
    (model / "größe-模型").write_text("unicode")
    (model / "link").symlink_to("weights")
    os.link(model / "weights", model / "weights-again")
    os.mkfifo(model / "pipe")
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(model / "socket"))
    return model


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_python_reads_the_archive(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(packed(folder))
    unpack(tmp_path / "a.tar.gz", tmp_path / "out", ArchiveLimits.of_archive(0, ""))
    assert contents(tmp_path / "out") == contents(folder)
    assert (tmp_path / "out/empty").is_dir()
    assert (tmp_path / "out/link").samefile(tmp_path / "out/weights")


def test_gnu_tar_reads_the_archive(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    subprocess.run(["tar", "-xz", "-C", str(tmp_path / "out")], input=packed(folder), check=True)
    assert contents(tmp_path / "out") == contents(folder)


def test_the_download_of_models_reads_the_archive(folder: Path, tmp_path: Path, aws: None) -> None:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="out")
    assert upload_folder(s3, folder, S3Uri("out", "model.tar.gz"))
    found = model_download.ModelDownload(
        s3=s3, submission="0123abcd", source=S3Uri("out", "model.tar.gz"), folder=tmp_path / "out"
    ).run(0)
    unpacked = contents(found.folder)
    del unpacked[model_download.MARKER]
    assert unpacked == contents(folder)


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 7 * BLOCK_BYTES + 3])
def test_a_stream_of_any_length_is_one_gzip_member(size: int) -> None:
    content = random.Random(size).randbytes(size)
    pieces = [content[at : at + 100_000] for at in range(0, size, 100_000)]
    stream = b"".join(compressed(pieces, threads=3))
    assert gzip.decompress(stream) == content
    assert stream.count(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff") == 1


def test_as_many_blocks_are_read_ahead_as_keep_all_threads_busy() -> None:
    numbers = iter(range(20))
    stream = compressed((bytes(BLOCK_BYTES) for _ in numbers), threads=3)
    assert len(next(stream)) == 10, "the header"
    next(stream)
    assert next(numbers) == 7, "two for each thread, and the one that was returned"


def test_blocks_have_one_length() -> None:
    assert list(blocks([b"abc", b"", b"defgh", b"i"], 4)) == [b"abcd", b"efgh", b"i"]


def test_a_read_returns_all_requested_bytes() -> None:
    stream = _Stream(iter([b"abc", b"defgh", b"ij"]))
    assert [stream.read(4), stream.read(1), stream.read(), stream.read(3)] == [b"abcd", b"e", b"fghij", b""]


def test_a_file_that_becomes_shorter_is_an_error(folder: Path) -> None:
    pieces = tar_pieces(folder)
    while len(next(pieces)) < MIB:
        pass
    os.truncate(folder / "weights", MIB)
    with pytest.raises(OSError, match="weights became shorter"):
        next(pieces)


class NullS3(BaseHTTPRequestHandler):
    """S3 that accepts and forgets multipart uploads, and serves objects of any size."""

    protocol_version = "HTTP/1.1"
    size = 0

    def do_POST(self) -> None:
        self._read()
        if self.path.endswith("uploads"):
            self._reply(b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
        else:
            self._reply(b'<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>')

    def do_PUT(self) -> None:
        self._read()
        self._reply(b"")

    def do_GET(self) -> None:
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        left = int(last) - int(first) + 1
        self.send_response(206)
        self.send_header("Content-Length", str(left))
        self.end_headers()
        while left:
            left -= self.wfile.write(bytes(min(left, MIB)))

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _read(self) -> None:
        left = int(self.headers.get("Content-Length", 0))
        while left:
            left -= len(self.rfile.read(min(left, MIB)))

    def _reply(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"e"')
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), NullS3)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


MEASURED = """
import json, sys
from pathlib import Path
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.pod.archive import upload_folder
from traingrid.pod.download import Downloads
from traingrid.pod.objects import StoredObject

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024

s3, folder, size = client("s3", "us-east-1"), Path(sys.argv[1]), int(sys.argv[2])
before = peak()
if sys.argv[3] == "upload":
    upload_folder(s3, folder, S3Uri("out", "model.tar.gz"))
else:
    stored = StoredObject(uri=S3Uri("data", "large"), size=size, etag='"e"', path="large")
    Downloads(s3, {}).fetch([stored], folder, "Channel train")
print(json.dumps([before, peak()]))
"""


def peak_mib(endpoint: str, folder: Path, size: int, direction: str) -> tuple[int, int]:
    """Return the peak memory of a process before and after a transfer, in MiB."""
    environment = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    command = [sys.executable, "-c", MEASURED, str(folder), str(size), direction]
    process = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    before, after = json.loads(process.stdout)
    return before, after


SIZE = int(os.environ.get("TRAINGRID_TRANSFER_MIB", "256")) * MIB
"""The size of the transferred file. The memory does not depend on it; 2048 needs a minute."""


def test_the_upload_of_a_large_model_needs_little_memory(endpoint: str, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    block = random.Random(0).randbytes(MIB)  # incompressible: gzip sees only 32 kB
    with (model / "weights").open("wb") as file:
        for _ in range(SIZE // MIB):
            file.write(block)
    before, after = peak_mib(endpoint, model, SIZE, "upload")
    assert after - before < 150


def test_the_download_of_a_large_object_needs_little_memory(endpoint: str, tmp_path: Path) -> None:
    before, after = peak_mib(endpoint, tmp_path, SIZE, "download")
    assert (tmp_path / "large").stat().st_size == SIZE
    assert after - before < 150
