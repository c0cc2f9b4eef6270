"""`traingrid data index`: writes the index of TFRecord files with which a training starts without counting records."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from traingrid import names
from traingrid.aws.clients import CALLS_AT_ONCE
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_ranges import KEYS_PER_LIST, Ranges
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.columns import Column, Schema
from traingrid.cli.export import output_option, sentence_printer, write_rows
from traingrid.datasets import record_index
from traingrid.deploy.prices import GET_REQUEST, PUT_REQUEST
from traingrid.errors import UsageError
from traingrid.text import byte_size, counted, printable
from traingrid.threads import map_in_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.aws.s3_copy import Listed
    from traingrid.cli.export import Output
    from traingrid.datasets.record_index import FileEntry, Read

_REPORT_SECONDS = 10.0

_ROWS: Schema[Any] = Schema(
    "folder",
    Column("folder", "string: The S3 URI of the channel's folder."),
    Column("index", "string: The S3 URI of its index."),
    Column("result", "string: written, current if no file has changed, or planned."),
    Column("files", "integer: The number of files."),
    Column("bytes", "integer: Their size."),
    Column("records", "integer: The number of their records; null if planned."),
    Column("counted", "integer: The number of files without a current entry, whose headers are read."),
    Column("requests", "integer: The number of requests to S3, or an estimate if planned."),
    Column("read_bytes", "integer: The bytes that they read, or an estimate."),
    Column("dollars", "number: The list price of the requests in us-east-1, in US dollars, without data transfer."),
)


@dataclass(frozen=True, kw_only=True)
class _Row:
    folder: str
    index: str
    result: str
    files: int
    bytes: int
    records: int | None
    counted: int
    requests: int
    read_bytes: int
    dollars: float


@click.command()
@click.argument("uris", nargs=-1, required=True, metavar="URI...")
@click.option("--plan", is_flag=True, help="Only estimate requests, bytes and dollars.")
@output_option(_ROWS)
def index(uris: tuple[str, ...], *, plan: bool, output: Output) -> None:
    """Index the records of TFRecord files.

    Reads the headers of the records in each folder URI, such as s3://bucket/imagenet/train, and writes the file
    _records.json into it. In File and FastFile mode, a training on this folder then starts without counting records.
    Files that have not changed since the last index are not read again.
    """
    try:
        folders = [S3Uri.parse(text) for text in uris]
    except ValueError as error:
        raise UsageError(f"Invalid URI: {error}.", "Write s3://bucket/folder.") from error
    echo, rows = sentence_printer(output), []
    for folder in folders:
        row = _Folder(folder).planned() if plan else _Folder(folder).write_index()
        echo(printable(_sentence(row)))
        rows.append(row)
    write_rows(rows, _ROWS, output)


def _sentence(row: _Row) -> str:
    cost = f"{counted(row.requests, 'request')}, {byte_size(row.read_bytes)}, {_dollars(row.dollars)}"
    content = f"{row.folder}: {counted(row.files, 'file')}, {byte_size(row.bytes)}"
    if row.result == "planned":
        return f"{content}; about {cost} for the headers of {counted(row.counted, 'file')}. Nothing was written."
    return f"{content}, {counted(row.records or 0, 'record')}; {cost}. {row.index} is {row.result}."


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 0.01 else "less than $0.01"


class _Folder:
    """A folder whose index is written."""

    def __init__(self, folder: S3Uri) -> None:
        self._folder, self._target = folder, folder / names.RECORD_INDEX
        self._ranges, self._storage = Ranges(), Storage()
        listed_objects = list(self._ranges.below(folder))
        self._files = record_index.indexed_files(folder, listed_objects)
        self._lists = len(listed_objects) // KEYS_PER_LIST + 1
        has_index = any(listed_object.key == self._target.key for listed_object in listed_objects)
        stored_index = record_index.stored_index(self._storage.read_if_exists(self._target) if has_index else None)
        self._indexed_files = record_index.current(stored_index, self._files)
        self._is_current = self._indexed_files == stored_index
        self._unindexed_files = {
            name: listed_object for name, listed_object in self._files.items() if name not in self._indexed_files
        }
        self._requests = int(has_index)
        self._bytes = 0
        self._lock = threading.Lock()

    def planned(self) -> _Row:
        """Return an estimate, from the beginning of the first file."""
        requests = read_bytes = 0
        if self._unindexed_files:
            name, sample = next(iter(self._unindexed_files.items()))
            sizes = [entry.size for entry in self._unindexed_files.values()]
            estimate = record_index.estimate(self._folder / name, sample, sizes, self._reader(name, sample))
            requests, read_bytes = estimate.requests, estimate.bytes
        return self._row("planned", None, requests, read_bytes, puts=int(bool(self._unindexed_files)))

    def write_index(self) -> _Row:
        """Count the records, and write the index if it changes."""
        index = self._indexed_files | dict(self._count())
        must_write = bool(self._unindexed_files) or not self._is_current
        if must_write:
            self._storage.write(self._target, record_index.index_document(index), "application/json")
        records = sum(entry.records for entry in index.values())
        return self._row(
            "written" if must_write else "current", records, self._requests, self._bytes, puts=int(must_write)
        )

    def _count(self) -> Iterator[tuple[str, FileEntry]]:
        """Yield the entries of the files without a current one. The first error ends the count."""
        reported = time.monotonic()
        entries = map_in_order(self._entry, self._unindexed_files, CALLS_AT_ONCE)
        for number, name_and_entry in enumerate(zip(self._unindexed_files, entries, strict=True), start=1):
            yield name_and_entry
            if time.monotonic() - reported > _REPORT_SECONDS:
                reported = time.monotonic()
                click.echo(f"{number:,} of {counted(len(self._unindexed_files), 'file')} are counted.", err=True)

    def _entry(self, name: str) -> FileEntry:
        listed_object = self._unindexed_files[name]
        return record_index.entry_of(self._folder / name, listed_object, self._reader(name, listed_object))

    def _reader(self, name: str, listed_object: Listed) -> Read:
        def read(start: int, end: int) -> bytes:
            content = self._ranges.read(self._folder / name, listed_object.etag, start, end)
            with self._lock:
                self._requests += 1
                self._bytes += len(content)
            return content

        return read

    def _row(self, result: str, records: int | None, requests: int, read_bytes: int, *, puts: int) -> _Row:
        return _Row(
            folder=str(self._folder),
            index=str(self._target),
            result=result,
            files=len(self._files),
            bytes=sum(listed_object.size for listed_object in self._files.values()),
            records=records,
            counted=len(self._unindexed_files),
            requests=requests + self._lists + puts,
            read_bytes=read_bytes,
            dollars=requests * GET_REQUEST.dollars + (self._lists + puts) * PUT_REQUEST.dollars,
        )
