"""Checkpoint upload: copies new, changed and deleted checkpoints to S3, repeatedly, as SageMaker does.

"SageMaker AI saves checkpoints to Amazon S3 and syncs your training job with the checkpoint S3 bucket"
(https://docs.aws.amazon.com/sagemaker/latest/dg/model-checkpoints-enable.html), and a checkpoint that is deleted in the
container is also deleted in S3 (https://docs.aws.amazon.com/sagemaker/latest/dg/model-checkpoints.html).

A record beside the folder holds which files are in S3, so that a restarted container continues. The hosts of a job
share the prefix. So each host deletes only objects that it has written, while they are unchanged. The main host also
deletes those that were restored before the training: every host has a copy of these, and may not need it.
"""

import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.outage import is_outage
from traingrid.aws.s3_delete import delete_unchanged
from traingrid.aws.s3_uri import S3Uri
from traingrid.strict_json import JsonError, json_object
from traingrid.text import counted
from traingrid.threads import map_in_order

logger = logging.getLogger(__name__)

SETTLED_SECONDS = 2.0
"""A file that changed less than this ago is copied at the next pass, because it is probably being written."""
_FILES_AT_ONCE = 8
_CONFIG = TransferConfig(multipart_threshold=32 * 2**20, multipart_chunksize=32 * 2**20, max_concurrency=4)


class _Stamp(NamedTuple):
    """The state by which a changed file is recognized.

    Attributes:
        modified: The time of modification, in nanoseconds.
        size: The size in bytes.
    """

    modified: int
    size: int


@dataclass(frozen=True, kw_only=True)
class CopiedFile:
    """A file whose content is in S3.

    Attributes:
        modified: The file's time of modification, in nanoseconds.
        size: Its size in bytes.
        written: True if this host wrote the object; False if the file was downloaded from it.
    """

    modified: int
    size: int
    etag: str
    written: bool


class CheckpointRecord:
    """The files that are in S3, by their paths in the folder, stored in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.copied: dict[str, CopiedFile] = {}

    def load(self) -> None:
        """Read the file. Without it, all files are copied, and none is deleted."""
        try:
            document = json_object(self._file.read_bytes(), self._file)
            self.copied = {path: CopiedFile(**fields) for path, fields in document.items()}
        except FileNotFoundError:
            return
        except (JsonError, TypeError) as error:
            logger.warning("%s cannot be read, so all files are copied: %s", self._file, error)

    def save(self) -> None:
        """Replace the file."""
        new = self._file.with_suffix(".new")
        try:
            new.write_text(json.dumps({path: asdict(copied_file) for path, copied_file in self.copied.items()}))
            new.replace(self._file)
        except OSError as error:  # the disk may be full; the files are copied nevertheless
            logger.warning("%s cannot be written: %s", self._file, error)


@dataclass(kw_only=True)
class CheckpointUpload:
    """Copies one folder.

    Attributes:
        s3: The client, which several threads may share.
        target: The prefix in S3.
        is_main: True for the main host.
    """

    s3: Any
    folder: Path
    target: S3Uri
    record: CheckpointRecord
    is_main: bool
    _delete_refused: bool = field(default=False, init=False)

    def copy_changes(self, *, final: bool = False) -> Exception | None:
        """Copy changes once, and return the first error; the files with errors are copied by the next pass.

        Args:
            final: If true, files that have just been written are copied, too.
        """
        if not self.folder.exists():  # the training removed the folder itself: nothing is copied or deleted
            return None
        try:
            stamp_by_path = dict(_files(self.folder))
        except OSError as error:  # without a complete list, nothing may be deleted
            logger.warning("%s cannot be listed: %s", self.folder, error)
            return error
        changed_paths = [path for path, stamp in stamp_by_path.items() if self._is_changed(path, stamp, final=final)]
        changed_paths.sort(key=lambda path: stamp_by_path[path].modified)  # the last file may refer to earlier ones
        errors = [error for error in map_in_order(self._copy, changed_paths, _FILES_AT_ONCE) if error]
        removed_paths = [
            path for path in self.record.copied if path not in stamp_by_path and not (self.folder / path).exists()
        ]
        for path in removed_paths:
            self._delete(path)
        if changed_paths or removed_paths:
            self.record.save()
            copied_files = counted(len(changed_paths) - len(errors), "file")
            logger.info("Copied %s of %s to %s, %d deleted", copied_files, self.folder, self.target, len(removed_paths))
        return errors[0] if errors else None

    def _is_changed(self, path: str, stamp: _Stamp, *, final: bool) -> bool:
        copied_file = self.record.copied.get(path)
        if copied_file and (copied_file.modified, copied_file.size) == stamp:
            return False
        age = time.time() - stamp.modified / 1e9
        return final or not 0 <= age < SETTLED_SECONDS

    def _copy(self, path: str) -> Exception | None:
        """Upload a file. If it changed meanwhile, it counts as not copied."""
        file = self.folder / path
        uri = self._uri(path)
        try:
            before = _stamp(file)
            self.s3.upload_file(str(file), uri.bucket, uri.key, Config=_CONFIG)
            head_reply = self.s3.head_object(Bucket=uri.bucket, Key=uri.key)
            after = _stamp(file)
        except FileNotFoundError:  # deleted or renamed meanwhile
            return None
        except Exception as error:  # noqa: BLE001 - also for a name that S3 does not accept; the others are copied
            logger.warning("%s was not copied: %s. It is tried again.", file, error)
            return error
        if before == after:
            self.record.copied[path] = CopiedFile(
                modified=after.modified, size=after.size, etag=head_reply["ETag"], written=True
            )
        return None

    def _delete(self, path: str) -> None:
        """Delete the object of a file that no longer exists, if this host may and no other has replaced it."""
        copied_file = self.record.copied[path]
        if copied_file.written or self.is_main:
            try:
                delete_unchanged(self.s3, self._uri(path), copied_file.etag)
            except (BotoCoreError, ClientError) as error:
                if is_outage(error):
                    return  # the next pass deletes it
                if not self._delete_refused:
                    # Only storage is lost, so the training continues.
                    logger.warning("%s was not deleted: %s", self._uri(path), error)
                    self._delete_refused = True
        del self.record.copied[path]

    def _uri(self, path: str) -> S3Uri:
        return S3Uri(self.target.bucket, self.target.key.rstrip("/")) / path


def _files(folder: Path) -> Iterator[tuple[str, _Stamp]]:
    """Yield the path of each file in a folder, and its stamp.

    Raises:
        OSError: The folder, or a folder in it, cannot be read.
    """

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError) or error.filename == str(folder):
            raise error

    for directory, _, names in os.walk(folder, onerror=refuse):
        for name in names:
            file = Path(directory, name)
            try:
                if file.is_file():
                    yield file.relative_to(folder).as_posix(), _stamp(file)
            except OSError:  # deleted or renamed meanwhile
                continue


def _stamp(file: Path) -> _Stamp:
    stat = file.stat()
    return _Stamp(stat.st_mtime_ns, stat.st_size)


def record_restored(folder: Path, etags: dict[str, str], record: CheckpointRecord) -> None:
    """Record downloaded files, which need not be copied.

    Args:
        etags: The ETag of each object, by its path in the folder.
    """
    for path, etag in etags.items():
        modified, size = _stamp(folder / path)
        record.copied[path] = CopiedFile(modified=modified, size=size, etag=etag, written=False)
    record.save()
