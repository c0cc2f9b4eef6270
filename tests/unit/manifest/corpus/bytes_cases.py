"""Byte cases: files that are not text, not a manifest, or too large."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from typing import TYPE_CHECKING

from tests.support.sample_deployment import SAMPLE
from tests.unit.manifest.corpus import MAX_JOBS, Case

if TYPE_CHECKING:
    from collections.abc import Iterator

GOOD = SAMPLE.encode()
LINE = b"us-east-1,s3://ragab-ml/x\n"
MEGABYTE = 1024 * 1024


def _zipped(content: bytes) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr("manifest.csv", content)
    return archive.getvalue()


def cases() -> Iterator[Case]:
    yield from _encodings()
    yield from _formats()
    yield from _sizes()


def _encodings() -> Iterator[Case]:
    yield Case("UTF-16, little-endian", SAMPLE.encode("utf-16"), "file", "UTF-16")
    yield Case("UTF-16, big-endian", b"\xfe\xff" + SAMPLE.encode("utf-16-be"), "file", "UTF-16")
    yield Case("UTF-16 without a mark", SAMPLE.encode("utf-16-le"), "file", "NUL")
    yield Case("UTF-32", SAMPLE.encode("utf-32-be"), "file", "NUL")
    yield Case("Latin-1", GOOD + "us-east-1,s3://ragab-ml/café\n".encode("latin-1"), "line", "not UTF-8")
    yield Case("Windows-1252 quotes", b"us-east-1,s3://ragab-ml/x,\x93name\x94\n", "line", "not UTF-8")
    yield Case("overlong UTF-8", b"us-east-1,s3://ragab-ml/\xc0\xae\xc0\xae/x\n", "line", "not UTF-8")
    yield Case("a surrogate in UTF-8", b"us-east-1,s3://ragab-ml/x,\xed\xa0\x80\n", "line", "not UTF-8")
    yield Case("a character cut in half", GOOD + "us-east-1,s3://ragab-ml/é".encode()[:-1], "line", "not UTF-8")
    yield Case("two byte-order marks", b"\xef\xbb\xbf" * 2 + LINE, "region", "not a training Region")
    yield Case("NUL in a cell", b"us-east-1,s3://ragab-ml/x,na\0me\n", "file", "NUL")
    yield Case("NUL at the end", GOOD + b"\0" * 512, "file", "NUL")
    yield Case("every byte", bytes(range(256)) * 64, "file", "NUL")


def _formats() -> Iterator[Case]:
    yield Case("gzip", gzip.compress(GOOD), "file", "compressed")
    yield Case("a bomb of gzip", gzip.compress(b"\0" * 16 * MEGABYTE), "file", "compressed")
    yield Case("zip, which a spreadsheet's own format is", _zipped(GOOD), "file", "compressed")
    yield Case("a bomb of zip", _zipped(b"0" * 16 * MEGABYTE), "file", "compressed")
    yield Case("bzip2", bz2.compress(GOOD), "file", "compressed")
    yield Case("xz", lzma.compress(GOOD), "file", "compressed")
    yield Case("zstandard", b"\x28\xb5\x2f\xfd\x24\x00", "file", "compressed")
    yield Case("Parquet", b"PAR1\x15\x04\x15\0", "file", "NUL")
    yield Case("PDF", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "line", "this one has 1")
    yield Case("an ELF program", b"\x7fELF\x02\x01\x01\0\0", "file", "NUL")
    yield Case("a pickle", b"\x80\x04\x95\x10\0\0\0", "file", "NUL")
    yield Case("HTML", b"<!doctype html>\n<html><body>Sign in</body></html>\n", "line", "must have 2 or 3 fields")
    yield Case(
        "XML", b'<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>\n', "line", "must have 2 or 3 fields"
    )
    yield Case("YAML", b"- region: us-east-1\n  s3_uri: s3://ragab-ml/x\n", "line", "must have 2 or 3 fields")
    yield Case("an INI file", b"[job]\nregion=us-east-1\n", "line", "invalid JSON")
    yield Case("a shell script", b"rm -rf /\n", "line", "must have 2 or 3 fields")
    yield Case("one JSON array", b'[{"region": "us-east-1"}]\n', "line", "must be a JSON object")
    yield Case("JSON over several lines", b'{\n  "region": "us-east-1"\n}\n', "line", "invalid JSON")


def _sizes() -> Iterator[Case]:
    yield Case("nothing", b"", "file", "has no jobs")
    yield Case("a byte-order mark alone", b"\xef\xbb\xbf", "file", "has no jobs")
    yield Case("blank lines", b"\n \r\n\t\r", "file", "has no jobs")
    yield Case("remarks", b"# nothing\n  # here\n", "file", "has no jobs")
    yield Case("a header alone", b"region,s3_uri\n", "file", "has no jobs")
    yield Case(
        "a cell of 10 MB", b"us-east-1,s3://ragab-ml/" + b"x" * 10 * MEGABYTE + b"\n", "line", "this one is longer"
    )
    yield Case("a quoted cell of 200 kB", b'us-east-1,"s3://ragab-ml/' + b"x" * 200_000 + b'"\n', "line", "invalid CSV")
    yield Case("a cell of 200 kB in a column", b"region,name\nus-east-1," + b"x" * 200_000, "line", "invalid CSV")
    yield Case("33 MB", LINE * (33 * MEGABYTE // len(LINE) + 1), "file", "the file has more lines")
    yield Case("33 MB in one line", b"x" * 33 * MEGABYTE, "file", "a manifest may have at most")
    yield Case("100,000 columns", b"region" + b",hp.x" * 100_000 + b"\n", "file", "100,001 columns")
    yield Case("100,000 cells", b"us-east-1" + b"," * 100_000 + b"x\n", "line", "this one has 100001")
    yield Case("one line more than allowed", LINE * (MAX_JOBS + 1), "file", f"at most {MAX_JOBS} jobs")
    yield Case("one job less than promised", b"# jobs: 5\n" + GOOD, "file", "declares 5 jobs and has 4")
    yield Case("one job more than promised", b"# jobs: 3\n" + GOOD, "file", "declares 3 jobs and has 4")
    yield Case(
        "a promise, and no end of the last line", b"# jobs: 4\n" + GOOD[:-1], "file", "its last line is incomplete"
    )
