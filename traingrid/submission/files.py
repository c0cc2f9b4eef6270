"""Submissions: stores an accepted manifest version in a normalised form, of which each child reads only its line."""

from __future__ import annotations

import hashlib
import re
import struct
from typing import TYPE_CHECKING, Protocol

from traingrid import names
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import UsageError
from traingrid.job.job import Job
from traingrid.job.metrics import shortened
from traingrid.job.sizes import MAX_ARRAY

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_KEY_LENGTH = 1024
# A line's entry in the index: the offset of its end, and its SHA-256.
_ENTRY = struct.Struct(">Q32s")
_KEY = re.compile(re.escape(names.SUBMISSION_PREFIX) + r"([0-9a-f]{8})/(?:jobs(?:-[1-9]\d*)?|retry-[1-9]\d*)\.jsonl")


class RangeReader(Protocol):
    """Reads part of an object."""

    def read_range(self, uri: S3Uri, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to, not including, `end`."""


SUBMISSION_ID_LENGTH = 8
"""The number of characters of a submission's id."""


def submission_id(*identity: str) -> str:
    """Return the id of a submission: 8 hexadecimal digits of the SHA-256 of its identity.

    Args:
        identity: The URI and version of a manifest; the same identity always gives the same id.
    """
    return hashlib.sha256("\0".join(identity).encode()).hexdigest()[:SUBMISSION_ID_LENGTH]


def report_uri(manifest: S3Uri, version: str) -> S3Uri:
    """Return the URI of the intake's report on one version of a manifest, which no other version has.

    A key has at most 1,024 bytes (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html); all versions
    of a manifest with a longer one share the report beside it.
    """
    own_key = f"{manifest.key}.{submission_id(str(manifest), version)}{names.REPORT_SUFFIX}"
    return S3Uri(
        manifest.bucket, own_key if len(own_key.encode()) <= _MAX_KEY_LENGTH else manifest.key + names.REPORT_SUFFIX
    )


def jobs_key(submission: str, chunk: int = 0) -> str:
    """Return the key, in the manifest bucket, of the jobs of a submission's array `chunk`: one JSON object per line."""
    suffix = f"-{chunk}" if chunk else ""
    return f"{names.SUBMISSION_PREFIX}{submission}/jobs{suffix}.jsonl"


def retry_key(submission: str, number: int) -> str:
    """Return the key of the jobs of retry `number` of a submission; the first retry has number 1."""
    return f"{names.SUBMISSION_PREFIX}{submission}/retry-{number}.jsonl"


def chunks(jobs: int) -> list[int]:
    """Return the sizes of the arrays into which a number of jobs is split."""
    return [min(MAX_ARRAY, jobs - start) for start in range(0, jobs, MAX_ARRAY)]


def submission_of_key(key: str) -> str | None:
    """Return the submission whose normalised jobs have this key, or None for any other object."""
    match = _KEY.fullmatch(key)
    return match[1] if match else None


def array_file(key: str) -> str:
    """Return the ledger's name of the file that an array's children read: jobs, jobs-1 or retry-1."""
    return key.rpartition("/")[2].removesuffix(".jsonl")


def index_uri(jobs: S3Uri) -> S3Uri:
    """Return the URI of a normalised file's line index: each line's end as 8 bytes big-endian, and its SHA-256."""
    return S3Uri(jobs.bucket, jobs.key.removesuffix(".jsonl") + ".index")


def normalised(jobs: Iterable[Job]) -> tuple[bytes, bytes]:
    """Return the bytes of `jobs.jsonl` and of its line index.

    The same jobs always give the same bytes, so writing them twice changes nothing.
    """
    stored_jobs = (job.model_copy(update={"metrics": shortened(job.metrics)}) for job in jobs)
    lines = [job.model_dump_json(exclude_defaults=True).encode() + b"\n" for job in stored_jobs]
    return b"".join(lines), line_index(lines)


def line_index(lines: Iterable[bytes]) -> bytes:
    """Return the line index of a normalised file, of which each line has its end."""
    entries, end = [], 0
    for line in lines:
        end += len(line)
        entries.append(_ENTRY.pack(end, hashlib.sha256(line).digest()))
    return b"".join(entries)


def differs(line: bytes, number: int, index: bytes) -> bool:
    """Return True if a line differs from the submitted one.

    Args:
        line: The line, without its end.
        number: Its number in the file, from 0.
        index: The content of the file's line index.
    """
    entry = index[number * _ENTRY.size : (number + 1) * _ENTRY.size]
    return len(entry) != _ENTRY.size or _ENTRY.unpack(entry)[1] != hashlib.sha256(line + b"\n").digest()


def read_job(reader: RangeReader, jobs: S3Uri, index: int) -> Job:
    """Read one job by two range requests, whose size does not depend on the number of jobs.

    Args:
        jobs: The normalised file, or the version of it that was submitted.
        index: The line, from 0: the array index, which equals the job's index only in the first array.

    Raises:
        IndexError: The file has no such line.
        UsageError: The line differs from the submitted one.
    """
    first_index = max(index - 1, 0)
    content = reader.read_range(index_uri(jobs), first_index * _ENTRY.size, (index + 1) * _ENTRY.size)
    if index < 0 or len(content) != (index - first_index + 1) * _ENTRY.size:
        raise IndexError(f"{jobs} has no job {index}")
    entries = list(_ENTRY.iter_unpack(content))
    start = entries[0][0] if index else 0
    end, digest = entries[-1]
    line = reader.read_range(jobs, start, end)
    if hashlib.sha256(line).digest() != digest:
        message = f"Line {index} of {jobs} differs from the submitted line: its SHA-256 does not match."
        raise UsageError(message, "Submit the manifest again; nothing was started for this line.")
    return Job.model_validate_json(line)
