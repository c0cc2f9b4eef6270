"""Unpacked code of Lambda functions and layers, and the packages that AWS's Python runtime includes."""

import importlib.util
import io
import sys
import zipfile
from functools import cache
from pathlib import Path
from threading import Lock

RUNTIME_PACKAGES = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "urllib3", "six")
"""Packages that a function may import besides the standard library (AWS Lambda, "Runtime-included SDK versions"): boto3
and its dependencies. The rest of this interpreter's site-packages is hidden from the function."""

_unpacking = Lock()


def unpack(archive: bytes, digest: str, parent: Path) -> Path:
    """Unpack a ZIP archive once.

    Args:
        digest: The archive's hash, used as the folder name.
        parent: Folder in which to create it.

    Returns:
        The folder with the unpacked files.

    Raises:
        zipfile.BadZipFile: If `archive` is not a ZIP archive.
    """
    folder = parent / digest.replace("/", "_").rstrip("=")
    with _unpacking:
        if folder.exists():
            return folder
        partial = folder.with_suffix(".partial")
        with zipfile.ZipFile(io.BytesIO(archive)) as zipped:
            for item in zipped.infolist():
                path = Path(zipped.extract(item, partial))  # extract() keeps names inside the folder
                mode = item.external_attr >> 16
                if mode and path.is_file():
                    path.chmod(mode & 0o777 | 0o444)
        partial.mkdir(parents=True, exist_ok=True)
        partial.rename(folder)
    return folder


def runtime_packages(parent: Path) -> Path:
    """Return a folder that contains only links to the packages of AWS's runtime."""
    folder = parent / "runtime"
    with _unpacking:
        folder.mkdir(parents=True, exist_ok=True)
        for source in _sources():
            link = folder / source.name
            if not link.is_symlink():
                link.symlink_to(source)
    return folder


@cache
def _sources() -> list[Path]:
    """Return the paths of those packages in this interpreter. Cached, because each invocation needs them."""
    specs = [importlib.util.find_spec(name) for name in RUNTIME_PACKAGES]
    origins = [Path(spec.origin) for spec in specs if spec and spec.origin]
    return [origin.parent if origin.name == "__init__.py" else origin for origin in origins]


def layer_paths(layer: Path) -> tuple[Path, Path]:
    """Return the folders of a layer that Python searches (AWS Lambda, "Layer paths for each Lambda runtime")."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return layer / "python", layer / "python" / "lib" / version / "site-packages"
