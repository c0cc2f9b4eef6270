"""Transfers of a training job's data: downloads channels and checkpoints, uploads artifacts and checkpoints."""

import json
import os
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import boto3
from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import BotoCoreError, ClientError

from localcloud.sagemaker.request import Channel, S3Uri

_COPYING, _COPIED = ".sagemaker-uploading", ".sagemaker-uploaded"
CHECKPOINT_SECONDS = 2.0
"""Interval of the search for new checkpoints; SageMaker's guide specifies no interval."""


class TransferError(Exception):
    """Data could not be transferred; the message becomes the FailureReason."""


class TransferInterruptedError(Exception):
    """The job was stopped during a transfer."""


def s3_client(environment: Mapping[str, str]) -> Any:
    """Return an S3 client with the credentials and endpoint of a container's environment."""
    return _session(environment).client("s3", endpoint_url=environment["AWS_ENDPOINT_URL"])


def check_output_key(environment: Mapping[str, str], key: str) -> None:
    """Encrypt with the key of OutputDataConfig and the job's role.

    The role "must include permissions to call kms:Encrypt"
    (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_OutputDataConfig.html), and a job whose role may not
    use the key fails at the upload of its artifact (https://github.com/aws/aws-cdk/issues/12810).

    Args:
        environment: The container's environment, with the credentials of the job's role.
        key: OutputDataConfig.KmsKeyId; empty if the request has none.

    Raises:
        TransferError: If KMS refuses.
    """
    if not key:
        return
    kms = _session(environment).client("kms", endpoint_url=environment["AWS_ENDPOINT_URL"])
    try:
        kms.encrypt(KeyId=key, Plaintext=b"traingrid")
    except (ClientError, BotoCoreError) as error:
        raise TransferError(f"ClientError: Artifact upload failed:Unable to encrypt with {key} ({error})") from error


def _session(environment: Mapping[str, str]) -> boto3.Session:
    return boto3.Session(
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=environment.get("AWS_SESSION_TOKEN"),
        region_name=environment["AWS_REGION"],
    )


class Downloader:
    """Downloads into the channel folders of all hosts."""

    def __init__(self, s3: Any, interrupted: Callable[[], bool]) -> None:
        self._s3 = s3
        self._is_interrupted = interrupted

    def channel(self, channel: Channel, folders: Sequence[Path]) -> None:
        """Download one channel to every host.

        Args:
            folders: The channel's folder on each host.

        Raises:
            TransferError: If S3 refuses a call, or an object is missing.
            TransferInterruptedError: If the job is being stopped.
        """
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        try:
            for number, (source, relative) in enumerate(sorted(objects(self._s3, channel))):
                targets = [folders[number % len(folders)]] if channel.sharded else folders
                self._fetch(source, relative, targets)
        except (ClientError, BotoCoreError, OSError, ValueError) as error:
            message = f"ClientError: Data download failed:Unable to download {channel.uri} ({error})"
            raise TransferError(message) from error

    def prefix(self, uri: S3Uri, folder: Path) -> None:
        """Download all objects below a prefix, which may be none (checkpoints of an earlier job)."""
        folder.mkdir(parents=True, exist_ok=True)
        try:
            for source, relative in _objects_below(self._s3, uri):
                self._fetch(source, relative, [folder])
        except (ClientError, BotoCoreError) as error:
            message = f"ClientError: Data download failed:Unable to download {uri} ({error})"
            raise TransferError(message) from error

    def _fetch(self, source: tuple[str, str], relative: str, folders: Sequence[Path]) -> None:
        bucket, key = source
        if self._is_interrupted():
            raise TransferInterruptedError
        if relative.endswith("/") or not relative:  # a folder's marker object
            return
        if ".." in PurePosixPath(relative).parts:
            message = f"S3 key: s3://{bucket}/{key} is outside its channel"
            raise ValueError(message)
        target, *copies = [folder / relative.lstrip("/") for folder in folders]
        if target.is_dir() or any(folder.is_file() for folder in target.parents):
            message = f"s3://{bucket}/{key}: one key is both an object and the folder of other objects"
            raise ValueError(message)
        target.parent.mkdir(parents=True, exist_ok=True)
        self._s3.download_file(bucket, key, str(target))
        for copy in copies:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, copy)


def objects(s3: Any, channel: Channel) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield bucket and key of a channel's objects, and each object's path in the channel from listing or manifest.

    Raises:
        ClientError: If S3 refuses a call.
        ValueError: If the manifest cannot be read.
    """
    uri = S3Uri.parse(channel.uri)
    if channel.data_type == "S3Prefix":
        yield from _objects_below(s3, uri)
        return
    manifest = json.loads(s3.get_object(Bucket=uri.bucket, Key=uri.key)["Body"].read())
    prefix = manifest[0]["prefix"]
    for relative in manifest[1:]:
        place = S3Uri.parse(f"{prefix}{relative}")
        yield (place.bucket, place.key), relative


def _objects_below(s3: Any, uri: S3Uri) -> Iterator[tuple[tuple[str, str], str]]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=uri.bucket, Prefix=uri.key)
    for page in pages:
        for entry in page.get("Contents", []):
            yield (uri.bucket, entry["Key"]), relative_key(uri.key, entry["Key"])


def relative_key(prefix: str, key: str) -> str:
    """Return the path of an S3Prefix channel's object in the channel's folder.

    Below a folder, it is the rest of the key. If the prefix is an object's key, or only the start of keys, the part
    after its last slash is kept.
    """
    if prefix == "" or prefix.endswith("/"):
        return key.removeprefix(prefix)
    if key.startswith(f"{prefix}/"):
        return key[len(prefix) + 1 :]
    return key[prefix.rfind("/") + 1 :]


def upload_archive(s3: Any, folders: Sequence[Path], name: str, target: S3Uri, work: Path) -> bool:
    """Pack the files of all hosts into one archive and upload it.

    Args:
        s3: S3 client of the job's role.
        folders: The same folder of every host; if hosts wrote the same name, the first host's file is used.
        name: File name of the archive.
        target: Folder in S3.
        work: Folder in which to create the archive.

    Returns:
        True if there were files to upload.

    Raises:
        TransferError: If S3 refuses a call.
    """
    members: dict[str, Path] = {}
    for folder in folders:
        if folder.is_dir():
            for path in sorted(folder.rglob("*")):
                members.setdefault(str(path.relative_to(folder)), path)
    if not members:
        return False
    archive = work / name
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for member, path in sorted(members.items()):
            tar.add(path, arcname=member, recursive=False)
    place = target.child(name)
    try:
        s3.upload_file(str(archive), place.bucket, place.key)
    except (ClientError, BotoCoreError, S3UploadFailedError) as error:
        message = f"ClientError: Artifact upload failed:Unable to upload {place} ({error})"
        raise TransferError(message) from error
    return True


class CheckpointSync:
    """Copies new and changed checkpoint files to S3 while a job trains.

    As in SageMaker, an empty file beside a file shows that it is copied, and another one that it has been copied
    (test_SaveCheckpoint_uploading in https://github.com/aws/sagemaker-xgboost-container). A public log of a training
    lists the second kind long after the copy, so these files stay.
    """

    def __init__(self, s3: Any, folders: Sequence[Path], target: S3Uri) -> None:
        self._s3, self._folders, self._target = s3, folders, target
        self._uploaded_versions: dict[Path, tuple[int, int]] = {}
        self._end_event = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)
        self._remember()

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def finish(self) -> None:
        """Copy the remaining files and end."""
        self._end_event.set()
        self._thread.join()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._end_event.wait(CHECKPOINT_SECONDS)
            for path, folder in self._changed_files():
                self._put(path, folder)

    def _remember(self) -> None:
        """Mark downloaded files as seen, because they need not be uploaded."""
        for _ in self._changed_files():
            continue

    def _changed_files(self) -> Iterator[tuple[Path, Path]]:
        for folder in self._folders:
            # os.walk omits folders that the training deletes meanwhile, of which Path.rglob raises an error.
            paths = [Path(root) / name for root, _, file_names in os.walk(folder) for name in file_names]
            for path in sorted(paths):
                try:
                    stat = path.stat()
                except FileNotFoundError:  # replaced in the meantime
                    continue
                state = (stat.st_mtime_ns, stat.st_size)
                if (
                    path.is_file()
                    and not path.name.endswith((_COPYING, _COPIED))
                    and self._uploaded_versions.get(path) != state
                ):
                    self._uploaded_versions[path] = state
                    yield path, folder

    def _put(self, path: Path, folder: Path) -> None:
        place = self._target.child(path.relative_to(folder).as_posix())
        copying = path.with_name(path.name + _COPYING)
        copied = path.with_name(path.name + _COPIED)
        try:
            copied.unlink(missing_ok=True)
            copying.touch()
            self._s3.upload_file(os.fspath(path), place.bucket, place.key)
            copied.touch()
        except (ClientError, BotoCoreError, S3UploadFailedError, OSError):
            self._uploaded_versions.pop(
                path, None
            )  # retried at the next interval; in SageMaker, training also continues
        finally:
            with suppress(OSError):  # the training may have renamed or deleted the folder
                copying.unlink(missing_ok=True)
