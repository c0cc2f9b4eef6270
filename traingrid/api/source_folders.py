"""Sources: packs the local folders in a manifest's `source` fields, and uploads them to the lines' Regions.

An archive is stored in the Region's data bucket, which the execution role can read and users of `traingrid upload` can
write. Its key is derived from its content, so that equal files always have the same key and the same bytes.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traingrid import names
from traingrid.api.initial_model_ids import with_full_ids
from traingrid.api.manifest_edit import readable_rows, with_value
from traingrid.api.source_folder import IGNORE_FILE, PackedFolder, archive, check_place
from traingrid.aws.clients import ActingRole
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.manifest.rows import Row
from traingrid.text import printable

logger = logging.getLogger(__name__)
_SHOWN_ERRORS, _SHOWN_PATHS = 20, 8


@dataclass(frozen=True, kw_only=True)
class PackedSource:
    """A packed folder.

    Attributes:
        uri: The URI of the archive.
        files: The number of files in the archive.
        archive: The bytes of the .tar.gz.
        left_out: The paths of environments and files for secrets that are not in the archive.
        role: The role that the upload assumes in another account.
    """

    folder: Path
    uri: S3Uri
    region: str
    files: int
    archive: bytes
    left_out: tuple[str, ...] = ()
    role: ActingRole | None = None

    def __str__(self) -> str:
        size = f"{-(-len(self.archive) // 1024):,} KiB"
        text = f"source {self.folder}: {self.files} file{'s' * (self.files != 1)}, {size} packed -> {self.uri}"
        if not self.left_out:
            return text
        more = f" and {len(self.left_out) - _SHOWN_PATHS} more" if len(self.left_out) > _SHOWN_PATHS else ""
        return f"{text}; left out {', '.join(self.left_out[:_SHOWN_PATHS])}{more} ({IGNORE_FILE} decides)"


class SourceError(UsageError):
    """A source cannot be packed.

    Attributes:
        manifest: The manifest with any URI in place of each local source, to find the errors of its other fields, too.
    """

    def __init__(self, error: UsageError, manifest: "PackedManifest") -> None:
        super().__init__(error.what, error.next_step)
        self.manifest = manifest


@dataclass(kw_only=True)
class PackedManifest:
    """A manifest in which the URIs of archives replace local sources.

    Attributes:
        content: The manifest's bytes; unchanged if it has no local source and no short id.
        sources: The packed folders, one for each Region.
        folders: The local sources as they are written in the manifest, by the number of the line.
    """

    content: bytes
    sources: list[PackedSource] = field(default_factory=list)
    folders: dict[int, str] = field(default_factory=dict)

    def upload(self, announce: Callable[[str], None] = logger.info) -> None:
        """Upload every archive to its URI in the manifest, and report each upload."""
        for source in self.sources:
            Storage(source.region, role=source.role).write(source.uri, source.archive, "application/gzip")
            announce(f"uploaded {printable(str(source))}")


def packed(manifest: Path, deployment: Deployment, content: bytes | None = None) -> PackedManifest:
    """Pack the local folders in a manifest's `source` fields, and complete ids in `init_from`; upload nothing.

    Args:
        manifest: The file; a source is relative to its folder.
        deployment: Defines the bucket of each Region.
        content: The manifest's bytes; by default the file's bytes.

    Raises:
        SourceError: A folder or its program does not exist, or the folder is too large.
        UsageError: An id is not unique.
    """
    content = with_full_ids(manifest, manifest.read_bytes() if content is None else content, deployment)
    rows = _local_rows(content)
    local = [row for row in rows if row.values.get("region") in deployment.grid.regions]
    # The manifest check rejects a row with a Region outside of the grid, and should name this error alone.
    outside = [row for row in rows if row.values.get("region") not in deployment.grid.regions]
    content = _with_sources(
        content, outside, [_uri(next(iter(deployment.grid.regions)), b"", deployment)] * len(outside)
    )
    folders = {row.number: str(row.values["source"]) for row in rows}
    if not local:
        return PackedManifest(content=content, folders=folders)
    try:
        sources = _packed_sources(manifest, local, deployment)
    except UsageError as error:
        any_uris = [_uri(str(row.values["region"]), b"", deployment) for row in local]
        content = _with_sources(content, local, any_uris)
        raise SourceError(error, PackedManifest(content=content, folders=folders)) from None
    content = _with_sources(content, local, [source.uri for source in sources])
    by_uri = {source.uri: source for source in sources}
    return PackedManifest(content=content, sources=list(by_uri.values()), folders=folders)


def _packed_sources(manifest: Path, rows: list[Row], deployment: Deployment) -> list[PackedSource]:
    """Return the packed source of each row."""
    archives: dict[Path, PackedFolder] = {}
    sources: list[PackedSource] = []
    for row, folder in zip(rows, _folders(manifest, rows), strict=True):
        if folder not in archives:
            archives[folder] = archive(_place_in_manifest(manifest, row), folder)
        sources.append(source_in(str(row.values["region"]), folder, archives[folder], deployment))
    return sources


def _with_sources(content: bytes, rows: list[Row], uris: Iterable[S3Uri]) -> bytes:
    """Return a manifest's content with these URIs as the sources of rows."""
    lines = content.splitlines(keepends=True)
    for row, uri in zip(rows, uris, strict=True):
        lines[row.number - 1] = with_value(lines, row, "source", str(uri))
    return b"".join(lines)


def _local_rows(content: bytes) -> list[Row]:
    """Return the rows with a local source."""
    return [row for row in readable_rows(content) if _is_local(row.values)]


def _is_local(values: dict[str, Any]) -> bool:
    source = values.get("source")
    return isinstance(source, str) and bool(source.strip()) and "://" not in source


def _place_in_manifest(manifest: Path, row: Row) -> str:
    return f"{manifest}:{row.number}: source {printable(str(row.values['source']))}"


def _folders(manifest: Path, rows: list[Row]) -> list[Path]:
    """Return each row's folder.

    Raises:
        UsageError: Some folders or programs do not exist or may not be uploaded. The text names the first of them.
    """
    folders, errors = [], []
    for row in rows:
        folder = (manifest.parent / str(row.values["source"])).resolve()
        folders.append(folder)
        try:
            check_place(_place_in_manifest(manifest, row), folder, manifest)
            _check_program(_place_in_manifest(manifest, row), folder, row)
        except UsageError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        first_errors = "\n".join(str(error) for error in errors[:_SHOWN_ERRORS])
        more = f"\n... and {len(errors) - _SHOWN_ERRORS} more" if len(errors) > _SHOWN_ERRORS else ""
        raise UsageError(f"{len(errors)} sources cannot be uploaded:\n{first_errors}{more}", "Fix these lines.")
    return folders


def _check_program(place: str, folder: Path, row: Row) -> None:
    program = row.values.get("entry_point")
    if isinstance(program, str) and not (folder / program).is_file():
        raise UsageError(
            f"{place}: {printable(program)} does not exist in {folder}.", "Write the program's path inside the folder."
        )


def source_in(region: str, folder: Path, packed: PackedFolder, deployment: Deployment) -> PackedSource:
    """Return a packed folder with its URI in a Region."""
    return PackedSource(
        folder=folder,
        uri=_uri(region, packed.archive, deployment),
        region=region,
        files=packed.files,
        archive=packed.archive,
        left_out=packed.left_out,
        role=deployment.acting_role_in(region),
    )


def _uri(region: str, archive: bytes, deployment: Deployment) -> S3Uri:
    """Return the URI of an archive in a Region's data bucket."""
    bucket = names.data_bucket(deployment.grid.name, deployment.account_of(region), region)
    return S3Uri(bucket, f"{names.SOURCE_PREFIX}{hashlib.sha256(archive).hexdigest()}.tar.gz")
