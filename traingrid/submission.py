"""Submissions: an accepted manifest version, normalised so that each child reads its own line and nothing else."""

from __future__ import annotations

import hashlib
import re
import struct
from typing import TYPE_CHECKING, Protocol

from traingrid import names
from traingrid.job import Channel, Job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.deployment import Deployment
    from traingrid.manifest import Line
    from traingrid.s3_uri import S3Uri

_OFFSET = struct.Struct(">Q")
_KEY = re.compile(re.escape(names.SUBMISSION_PREFIX) + r"([0-9a-f]{8})/jobs\.jsonl")


class RangeReader(Protocol):
    """Reads part of an object."""

    def read_range(self, uri: S3Uri, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to, not including, `end`."""


def submission_id(*identity: str) -> str:
    """Return the id of a submission: 8 hexadecimal digits of SHA-256 over what makes it the one it is.

    Args:
        identity: For an object, its bucket, key and version; the same identity always gives the same id.
    """
    return hashlib.sha256("\0".join(identity).encode()).hexdigest()[:8]


def jobs_key(submission: str) -> str:
    """Return the key, in the manifest bucket, of a submission's jobs: one JSON object per line."""
    return f"{names.SUBMISSION_PREFIX}{submission}/jobs.jsonl"


def submission_of_key(key: str) -> str | None:
    """Return the submission whose normalised jobs lie under this key, or None for any other object."""
    match = _KEY.fullmatch(key)
    return match[1] if match else None


def index_uri(jobs: S3Uri) -> S3Uri:
    """Return where the line index of a normalised file lies: its end offsets, 8 bytes each, big-endian."""
    return type(jobs)(jobs.bucket, jobs.key.removesuffix(".jsonl") + ".index")


def jobs_of_lines(lines: Sequence[Line], deployment: Deployment, submission: str) -> list[Job]:
    """Return the jobs of a manifest's lines, every default of the grid filled in."""
    return [_job(index, line, deployment, submission) for index, line in enumerate(lines)]


def _job(index: int, line: Line, deployment: Deployment, submission: str) -> Job:
    grid, defaults = deployment.grid, deployment.grid.job
    return Job(
        index=index,
        line=line.number,
        name=line.name,
        region=line.region,
        inputs={channel: Channel(uri=f"{line.data / channel}/") for channel in defaults.channels},
        image=grid.image_uri(defaults.image, deployment.account, line.region),
        instance_type=defaults.instance_type,
        instance_count=defaults.instance_count,
        volume_gb=defaults.volume_gb,
        max_runtime_seconds=defaults.max_runtime,
        processes_per_host=defaults.processes_per_host,
        mpi_options=defaults.mpi_options,
        hyperparameters=defaults.hyperparameters,
        metrics={name: metric_regex(name) for name in defaults.metrics},
        output=names.output_prefix(grid.name, deployment.account, line.region, submission, index),
    )


def metric_regex(name: str) -> str:
    """Return the regular expression that finds a metric printed as `name=value`."""
    return rf"\b{re.escape(name)}=([-+0-9.eE]+)"


def normalised(jobs: Sequence[Job]) -> tuple[bytes, bytes]:
    """Return the bytes of `jobs.jsonl` and of its line index.

    The same jobs always give the same bytes, so writing them twice changes nothing.
    """
    lines = [job.model_dump_json(exclude_defaults=True).encode() + b"\n" for job in jobs]
    ends, end = [], 0
    for line in lines:
        end += len(line)
        ends.append(_OFFSET.pack(end))
    return b"".join(lines), b"".join(ends)


def read_job(reader: RangeReader, jobs: S3Uri, index: int) -> Job:
    """Read one job by two range requests, whose size does not depend on how many jobs there are.

    Args:
        reader: Reads from S3.
        jobs: The normalised file.
        index: The array index, from 0.

    Raises:
        IndexError: The submission has no job of this index.
    """
    first = max(index - 1, 0) * _OFFSET.size
    ends = reader.read_range(index_uri(jobs), first, (index + 1) * _OFFSET.size)
    offsets = [0] * (index == 0) + [offset for (offset,) in _OFFSET.iter_unpack(ends)]
    if len(offsets) != 2:
        raise IndexError(f"{jobs} has no job {index}")
    return Job.model_validate_json(reader.read_range(jobs, *offsets))
