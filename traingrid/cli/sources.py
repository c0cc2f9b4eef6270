"""Local folders that a manifest names as `source`: packed, uploaded into the line's Region, and named by their content.

The archive goes into the Region's data bucket, which its execution role reads and `traingrid upload` writes anyway. The
same files make the same bytes, and so the same key: what is there already is what would be uploaded.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.errors import UsageError
from traingrid.manifest_columns import columns_of
from traingrid.manifest_errors import ManifestError
from traingrid.manifest_rows import Row, Rows
from traingrid.s3_uri import S3Uri
from traingrid.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from traingrid.clients import ActingRole
    from traingrid.deployment import Deployment

MAX_BYTES = 200 * 1024 * 1024
"""Most bytes of a folder: every host of every job fetches it. Data belongs into a channel."""
# What tools leave behind and no script needs; the packed folder would have another name after every run.
_LEFT_OUT = {"__pycache__", ".git", ".hg", ".svn", ".venv", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache"}


@dataclass(frozen=True, kw_only=True)
class Source:
    """A packed folder.

    Attributes:
        folder: What was packed.
        uri: Where the archive belongs.
        region: The Region of `uri`.
        files: How many files are in it.
        archive: The bytes of the .tar.gz.
        role: Whom the upload acts as, in another account.
    """

    folder: Path
    uri: S3Uri
    region: str
    files: int
    archive: bytes
    role: ActingRole | None = None

    def __str__(self) -> str:
        size = f"{-(-len(self.archive) // 1024):,} KiB"
        return f"source {self.folder}: {self.files} file{'s' * (self.files != 1)}, {size} packed -> {self.uri}"


@dataclass(kw_only=True)
class PackedManifest:
    """A manifest whose local sources are named by where their archives belong.

    Attributes:
        content: The manifest's bytes; those that were read where it has no local source.
        sources: The packed folders, one for each Region.
    """

    content: bytes
    sources: list[Source] = field(default_factory=list)

    def upload(self, say: Callable[[str], None]) -> None:
        """Put every archive where the manifest says that it is, and say so."""
        for source in self.sources:
            Storage(source.region, role=source.role).write(source.uri, source.archive, "application/gzip")
            say(f"uploaded {source}")


def packed(manifest: Path, deployment: Deployment) -> PackedManifest:
    """Pack the local folders that a manifest names as `source`; nothing is uploaded.

    Args:
        manifest: The file; a source is relative to its folder.
        deployment: Says which bucket belongs to which Region.

    Raises:
        UsageError: A folder or its program is not there, or it is too large.
    """
    content = manifest.read_bytes()
    found = PackedManifest(content=content)
    # Rows of another Region's are left as they are: they are rejected by it, and have no bucket.
    local = [row for row in _local_rows(content) if row.values.get("region") in deployment.grid.regions]
    if not local:
        return found
    lines = content.splitlines(keepends=True)
    archives: dict[Path, tuple[int, bytes]] = {}
    sources: dict[S3Uri, Source] = {}
    for row in local:
        folder = (manifest.parent / str(row.values["source"])).resolve()
        where = f"{manifest}:{row.number}: source {row.values['source']}"
        _check(where, folder, row)
        if folder not in archives:
            archives[folder] = _archive(where, folder)
        source = _source(folder, *archives[folder], str(row.values["region"]), deployment)
        sources[source.uri] = source
        lines[row.number - 1] = _with_source(lines, row, str(source.uri))
    return PackedManifest(content=b"".join(lines), sources=list(sources.values()))


def _local_rows(content: bytes) -> list[Row]:
    """Return the rows with a local source; what is wrong with others is not said here, but by who checks them all."""
    try:
        return [row for row in Rows(chunks=[content]) if isinstance(row, Row) and _is_local(row.values)]
    except ManifestError:
        return []


def _is_local(values: dict[str, Any]) -> bool:
    source = values.get("source")
    return isinstance(source, str) and bool(source.strip()) and "://" not in source


def _check(where: str, folder: Path, row: Row) -> None:
    if not folder.is_dir():
        raise UsageError(
            f"{where}: there is no folder {folder}.",
            "Write a folder, relative to the manifest's, or s3://bucket/…/sourcedir.tar.gz.",
        )
    program = row.values.get("entry_point")
    if isinstance(program, str) and not (folder / program).is_file():
        raise UsageError(f"{where}: there is no {program} in {folder}.", "Write the program's path inside the folder.")


def _archive(where: str, folder: Path) -> tuple[int, bytes]:
    """Return how many files a folder has, and its .tar.gz: the same bytes for the same files, whoever packs them."""
    files, size, packed = 0, 0, io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in _files(folder):
            files, size = files + 1, size + path.stat().st_size
            if size > MAX_BYTES:
                raise UsageError(
                    f"{where}: {folder} has more than {MAX_BYTES // 2**20} MiB.", "Put data into a channel."
                )
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size, entry.mode = path.stat().st_size, 0o755 if path.stat().st_mode & 0o100 else 0o644
            with path.open("rb") as file:
                archive.addfile(entry, file)
    return files, packed.getvalue()


def _files(folder: Path) -> Iterator[Path]:
    """Yield a folder's files by name; a link to a file is that file."""
    for path in sorted(folder.rglob("*")):
        if _LEFT_OUT.isdisjoint(path.relative_to(folder).parts) and path.is_file() and path.suffix != ".pyc":
            yield path


def _source(folder: Path, files: int, archive: bytes, region: str, deployment: Deployment) -> Source:
    bucket = names.data_bucket(deployment.grid.name, deployment.account_of(region), region)
    uri = S3Uri(bucket, f"{names.SOURCE_PREFIX}{hashlib.sha256(archive).hexdigest()}.tar.gz")
    return Source(
        folder=folder, uri=uri, region=region, files=files, archive=archive, role=deployment.acting_in(region)
    )


def _with_source(lines: list[bytes], row: Row, uri: str) -> bytes:
    """Return a row's line with another source, and its own line end."""
    line = lines[row.number - 1]
    end = line[len(line.rstrip(b"\r\n")) :]
    if not row.csv:
        return json.dumps(row.values | {"source": uri}).encode() + end
    header = next(text for text in map(_text, lines) if text.strip() and not text.lstrip().startswith("#"))
    columns, _ = columns_of(0, _cells(header))
    cells = _cells(_text(line))
    cells[columns.index(("source", ""))] = uri
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow(cells)
    return written.getvalue().encode() + end


def _text(line: bytes) -> str:
    return line.decode("utf-8-sig", errors="replace").rstrip("\r\n")


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([text]))]
