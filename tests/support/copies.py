"""Copies: two folders in different Regions, their contents, and stores that count or interrupt calls."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import boto3
import pytest

from tests.support.sample_deployment import ACCOUNT
from traingrid import names
from traingrid.aws.s3_copy import CopyStore
from traingrid.aws.s3_uri import S3Uri
from traingrid.ledger.moves import MoveItem
from traingrid.transfers.folder_copy import FolderCopy
from traingrid.transfers.listing import Folders
from traingrid.transfers.object_copy import ObjectCopy, Sizes

SOURCE_REGION, TARGET_REGION = "us-east-1", "eu-west-1"
SOURCE = S3Uri(names.data_bucket("traingrid", ACCOUNT, SOURCE_REGION), "day1/1")
TARGET = S3Uri(names.data_bucket("traingrid", ACCOUNT, TARGET_REGION), "copies/day1")
SMALL = Sizes(in_one_piece=20, part=8, largest=64, smallest_part=1)
"""Sizes with which an object of some dozen bytes is copied in parts."""
FEW_PARTS = replace(SMALL, part=20)
"""Sizes with which the large object of CONTENT has three parts, for tests that copy it many times."""
CONTENT = {"train/a": b"first", "train/b": b"0123456789" * 5, "validation/c": b"last"}
"""Objects of the source; the second is copied in parts."""


def move_item(**fields: Any) -> MoveItem:
    """Return the ledger's item of the copy from SOURCE to TARGET."""
    return MoveItem(target=str(TARGET), source=str(SOURCE), region=TARGET_REGION, from_region=SOURCE_REGION, **fields)


def two_buckets(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a client of S3 with the data buckets of both Regions, in which a part may have any size."""
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)
    client: Any = boto3.client("s3", SOURCE_REGION)
    client.create_bucket(Bucket=SOURCE.bucket)
    client.create_bucket(Bucket=TARGET.bucket, CreateBucketConfiguration={"LocationConstraint": TARGET_REGION})
    return client


class KilledError(BaseException):
    """The process ended here."""


class Calls:
    """Counts the calls of stores, and raises KilledError at one of them and at all that follow.

    Attributes:
        made: The names of the calls, in their order.
        kill_at: The number, from 1, of the first call that is not made; 0 for none.
        after: True to make that call, and lose its reply.
        before_each: Called with the name of each call.
    """

    def __init__(self, kill_at: int = 0, *, after: bool = False) -> None:
        self.made: list[str] = []
        self.kill_at, self.after = kill_at, after
        self.before_each: Callable[[str], None] = lambda _name: None
        self._lock = threading.Lock()

    def of(self, made: Any) -> Any:
        """Return an object whose methods are counted."""
        return _Counted(made, self)

    def make(self, name: str, call: Callable[[], Any]) -> Any:
        with self._lock:
            self.made.append(name)
            number = len(self.made)
        self.before_each(name)
        if self.kill_at and number >= self.kill_at:
            if self.after and number == self.kill_at:
                call()
            raise KilledError
        return call()


_READS = {"find", "first_part_bytes", "head", "page", "parts", "uploads", "user_now"}


def kills(counted: Calls) -> list[Calls]:
    """Return calls that are killed before the first of the counted ones, and after each one that writes.

    A read changes nothing, so a process that is killed at one leaves the state that the previous write has left.
    """
    writes = [number for number, name in enumerate(counted.made, 1) if name not in _READS]
    return [Calls(1), *(Calls(number, after=True) for number in writes)]


class _Counted:
    def __init__(self, made: Any, calls: Calls) -> None:
        self._made, self._calls = made, calls

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._made, name)
        return lambda *arguments, **options: self._calls.make(name, lambda: method(*arguments, **options))


def folders(calls: Calls | None = None) -> Folders:
    calls = calls or Calls()
    return Folders(
        source=SOURCE,
        source_store=calls.of(CopyStore(SOURCE_REGION)),
        target=TARGET,
        target_store=calls.of(CopyStore(TARGET_REGION)),
    )


def folder_copy(both: Folders, threads: int = 1, *, target_has_kms: bool = False, sizes: Sizes = SMALL) -> FolderCopy:
    objects = ObjectCopy(
        source_store=both.source_store,
        target_store=both.target_store,
        threads=threads,
        sizes=sizes,
        target_has_kms=target_has_kms,
        sleep=lambda _seconds: None,
    )
    return FolderCopy(folders=both, objects=objects, threads=threads)


def upload(s3: Any, content: dict[str, bytes], folder: S3Uri = SOURCE, **options: Any) -> None:
    for name, body in content.items():
        uri = folder / name
        s3.put_object(Bucket=uri.bucket, Key=uri.key, Body=body, **options)


def stored(s3: Any, folder: S3Uri = TARGET) -> dict[str, bytes]:
    """Return the objects of a folder by name."""
    found = s3.list_objects_v2(Bucket=folder.bucket, Prefix=f"{folder.key}/").get("Contents", [])
    return {
        entry["Key"].removeprefix(f"{folder.key}/"): s3.get_object(Bucket=folder.bucket, Key=entry["Key"])[
            "Body"
        ].read()
        for entry in found
    }
