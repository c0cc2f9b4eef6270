"""Model download: copies the archive of a model from S3, continues after an interruption, and unpacks it."""

import json
import logging
import math
import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from botocore.exceptions import BotoCoreError

from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.strict_json import json_object
from traingrid.text import printable
from traingrid.transfers.object_range import ObjectRange
from traingrid.transfers.retries import Retries
from traingrid.unpacking import ArchiveError, ArchiveLimits, FolderConflictError, TooLargeError, shown, unpack

logger = logging.getLogger(__name__)
_TRIES_WITHOUT_PROGRESS = 5
_RETRY_SECONDS = 1.0
MARKER = ".traingrid-model"
"""The file in the folder of a model that names the archives that the folder has."""


class DownloadStoppedError(Exception):
    """The user has interrupted the download; its part stays on the disk."""


@dataclass(frozen=True, kw_only=True)
class DownloadedModel:
    """A model on this machine.

    Attributes:
        result: "downloaded", or "kept" if the folder already had this model.
    """

    index: int
    source: S3Uri
    folder: Path
    bytes: int
    result: Literal["downloaded", "kept"]


@dataclass(kw_only=True)
class ModelDownload:
    """Downloads one archive.

    In the folder, `.traingrid-model` names the archives that the folder has. Until an archive is complete,
    `.NAME.tar.gz-ETAG.part` beside the folder is the part that has arrived. A new attempt of the job has another
    archive, which replaces the files; another job's is refused.

    Attributes:
        s3: The S3 client of the archive's Region.
        submission: The submission of the job.
        source: The archive, a .tar.gz.
        host: The number of the host whose part of a model this is; 0 for a whole model, or the first part.
        progress: Receives the number of bytes that have arrived, and the size of the archive.
        stop: Set to end the download.
        unlimited: If true, an archive of any size is unpacked.
    """

    s3: Any
    submission: str
    source: S3Uri
    folder: Path
    host: int = 0
    progress: Callable[[int, int], object] = lambda _done, _size: None
    stop: threading.Event = field(default_factory=threading.Event)
    unlimited: bool = False

    def run(self, index: int) -> DownloadedModel:
        """Download, verify and unpack the archive, unless the folder already has it.

        The archive is complete if it has the size and the ETag that S3 reported at the start, and if its content has
        the length and CRC-32 that gzip stored at its end.

        Raises:
            TraingridError: The connection was lost several times, the archive is broken, or the folder has the model of
                another job.
            ClientError: S3 refused a request; the code is 404 if there is no archive.
            DownloadStoppedError: `stop` was set.
        """
        object_head = self.s3.head_object(Bucket=self.source.bucket, Key=self.source.key)
        etag, size = object_head["ETag"], object_head["ContentLength"]
        job, archive = f"{self.submission}/{index}", {"archive": str(self.source), "etag": etag}
        facts = {"index": index, "source": self.source, "folder": self.folder, "bytes": size}
        archives = self._archives_of(job)
        if archives.get(str(self.host)) == archive:
            self.progress(size, size)
            return DownloadedModel(**facts, result="kept")
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        part = self._part(etag)
        self._fetch(part, etag, size)
        self._unpack(part)
        archives[str(self.host)] = archive
        (self.folder / MARKER).write_text(json.dumps({"job": job, "archives": archives}))
        part.unlink()
        return DownloadedModel(**facts, result="downloaded")

    def _archives_of(self, job: str) -> dict[str, Any]:
        """Return the archives of a job that the folder has, by the number of the host.

        A folder without other files than the marker has none.

        Raises:
            TraingridError: The folder has the model of another job, whose files would be mixed with these.
        """
        if not self.folder.is_dir() or all(file.name == MARKER for file in self.folder.iterdir()):
            return {}
        stored = _content(self.folder / MARKER)
        other_job = stored.get("job", job)
        if other_job != job:
            text = f"{self.folder} has the model of job {other_job}, whose files would be mixed with these."
            raise TraingridError(text, "Use another folder.")
        archives = stored.get("archives")
        return archives if isinstance(archives, dict) else {}

    @property
    def _name(self) -> str:
        return f"{self.folder.name}-host-{self.host}" if self.host else self.folder.name

    def _part(self, etag: str) -> Path:
        """Return the file of the part that has arrived, and delete those of other archives."""
        prefix = f".{self._name}.tar.gz-"
        part = self.folder.parent / f"{prefix}{etag.strip(chr(34))}.part"
        for file in self.folder.parent.iterdir():
            if file.name.startswith(prefix) and file.name.endswith(".part") and file != part:
                file.unlink()
        return part

    def _fetch(self, part: Path, etag: str, size: int) -> None:
        """Download the rest of the part."""
        part.touch()
        start = part_bytes if (part_bytes := part.stat().st_size) <= size else 0
        missing_range = ObjectRange(source=self.source, etag=etag, size=size, file=part, start=start, end=size)
        retries = Retries(math.inf, _TRIES_WITHOUT_PROGRESS, _RETRY_SECONDS)
        try:
            missing_range.download(self.s3, retries, self.stop, lambda position: self.progress(position, size))
        except BotoCoreError as error:
            text = f"{self.source}: {part.stat().st_size:,} of {size:,} bytes have arrived. {error}"
            raise TraingridError(text, "Run the same command again; it continues.") from error
        if part.stat().st_size < size:
            raise DownloadStoppedError
        self.progress(size, size)

    def _unpack(self, part: Path) -> None:
        """Unpack the archive; a damaged one is deleted, so that the next run downloads it again."""
        limits = ArchiveLimits.of_archive(part.stat().st_size, "If you trust it, use --unlimited")
        if self.unlimited:
            limits = ArchiveLimits(size=sys.maxsize, members=sys.maxsize, hint="")
        try:
            left_out = unpack(part, self.folder, limits)
        except (TooLargeError, FolderConflictError) as error:
            text = f"{self.source} was not unpacked: {error}."
            raise TraingridError(text, "The next run does not download it again.") from error
        except ArchiveError as error:
            part.unlink()
            text = f"{self.source} cannot be unpacked: {error}."
            raise TraingridError(text, "Inspect it with `aws s3 cp`, or download it again.") from error
        if left_out:
            logger.warning("%s: %s", self.source, printable(shown(left_out)))


def other_parts(s3: Any, first: S3Uri) -> dict[int, S3Uri]:
    """Return the archives of other hosts beside the first one, by the number of the host.

    Each host of a cluster uploads the files that it has written; SageMaker makes one archive of them.

    Args:
        s3: The S3 client of the archive's Region.
        first: The archive of the first host, `.../model.tar.gz`; the others are `.../model-<host>.tar.gz`.

    Raises:
        ClientError: S3 refused a request.
    """
    folder = first.key.rpartition("/")[0]
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=first.bucket, Prefix=f"{folder}/model-")
    keys = (entry["Key"] for page in pages for entry in page.get("Contents", []))
    matches = ((re.fullmatch(rf"{re.escape(folder)}/model-(\d+)\.tar\.gz", key), key) for key in keys)
    return {int(match[1]): S3Uri(first.bucket, key) for match, key in matches if match}


def _content(marker: Path) -> Mapping[str, Any]:
    """Return the object in a marker; an empty one if it cannot be read."""
    try:
        return json_object(marker.read_bytes())
    except (OSError, ValueError):
        return {}
