"""Script folder: source code that a program gives instead of a path, with the changes that its image requires."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traingrid.api.source_folder import PackedFolder, archive
from traingrid.api.source_folders import PackedSource, source_in
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment


@dataclass(frozen=True, kw_only=True)
class ScriptFolder:
    """The value of a line's `source` that `tg.from_model_trainer` returns: a folder that `grid.submit` will pack.

    Attributes:
        folder: The folder, as an absolute path.
        left_out: The names of files and folders that are not packed, as shell patterns.
        requirements: The file of the folder that is packed as requirements.txt; empty if none is.
        added: The names and texts of programs that are packed in addition.
    """

    folder: Path
    left_out: tuple[str, ...] = ()
    requirements: str = ""
    added: tuple[tuple[str, str], ...] = ()

    def packed(self) -> PackedFolder:
        """Return the .tar.gz.

        Raises:
            UsageError: The folder is missing, too large, or a home folder; or a packed name is used twice.
        """
        place = f"source_dir {self.folder}"
        if not self.folder.is_dir():
            raise UsageError(f"{place} is not a folder any more.", "Create the lines again.")
        if self.folder in (Path(self.folder.anchor), Path.home().resolve()):
            raise UsageError(
                f"{place} is the root folder or your home folder.", "Put the program into a separate folder."
            )
        added_files = {name: text.encode() for name, text in self.added}
        if self.requirements and self.requirements != "requirements.txt":
            added_files["requirements.txt"] = (self.folder / self.requirements).read_bytes()
        return archive(place, self.folder, self.left_out, added_files)


def stage_folders(rows: Iterable[object], deployment: Deployment) -> tuple[list[object], list[PackedSource]]:
    """Pack the script folders of jobs once, and replace each by the URI of its archive in the job's Region.

    Args:
        rows: The jobs. Those without a script folder are returned unchanged.
        deployment: Defines the bucket of each Region.

    Returns:
        The jobs, and the archives to upload.

    Raises:
        UsageError: A folder cannot be packed, or a Region does not belong to the grid.
    """
    archives: dict[ScriptFolder, PackedFolder] = {}
    sources: dict[str, PackedSource] = {}
    staged_rows: list[object] = []
    for row in rows:
        folder = row.get("source") if isinstance(row, Mapping) else None
        if not isinstance(row, Mapping) or not isinstance(folder, ScriptFolder):
            staged_rows.append(row)
            continue
        region = _region(row, deployment)
        if folder not in archives:
            archives[folder] = folder.packed()
        source = source_in(region, folder.folder, archives[folder], deployment)
        sources[str(source.uri)] = source
        staged_rows.append({**row, "source": str(source.uri)})
    return staged_rows, list(sources.values())


def _region(row: Mapping[str, Any], deployment: Deployment) -> str:
    region = row.get("region")
    if isinstance(region, str) and region in deployment.grid.regions:
        return region
    regions = ", ".join(deployment.grid.regions)
    raise UsageError(f"{region} is not a training Region of this grid.", f"The grid has {regions}.")
