"""Image root: `python3 batch_job/image_root.py FOLDER` makes FOLDER the root of an image that contains only Python.

Runs in a stage of batch_job/Dockerfile, on a Debian whose Python is Debian's own (in /usr) or that of the public Python
images (in /usr/local). It adds to FOLDER the interpreter, the standard library without the entries of LEFT_OUT, and
every shared library that one of them loads. The image has no shell, no package manager, and no program but Python.

The records of Debian's packages are kept where distroless images have them, so that scanners find them
(https://trivy.dev/latest/docs/coverage/os/google-distroless). Their licences are kept, too.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

LEFT_OUT = (
    # Tests, development tools and user interfaces.
    *("test", "tests", "_test*", "xx*", "idlelib", "lib2to3", "pydoc_data", "turtle*", "tkinter", "_tkinter*"),
    *("curses", "_curses*", "readline*", "distutils", "ensurepip", "venv", "config-*", "__pycache__"),
    # Databases and protocols that would each require more shared libraries.
    *("sqlite3", "_sqlite3*", "dbm", "_dbm*", "_gdbm*", "nis.*", "_crypt*", "ossaudiodev*"),
    # Packages installed on this machine.
    *("site-packages", "dist-packages", "EXTERNALLY-MANAGED"),
)
"""Names of files and folders that are left out of the standard library, at any depth."""

USER = 65532
"""User and group id that the image runs as; distroless images use the same number."""

_ETC = {
    "passwd": f"root:x:0:0:root:/root:/sbin/nologin\nchild:x:{USER}:{USER}:child:/nonexistent:/sbin/nologin\n",
    "group": f"root:x:0:\nchild:x:{USER}:\n",
}
_LOADED = re.compile(r"(?:=>\s+|^\s*)(?P<path>/\S+)\s+\(0x", re.M)
_DPKG = Path("/var/lib/dpkg")


def make(root: Path) -> None:
    """Make `root` the root of an image. It may already contain Python packages."""
    for name in ("lib", "lib64"):  # programs find the loader there; a symbolic link in every Debian since 12
        if Path("/", name).is_symlink():
            (root / name).symlink_to(Path("/", name).readlink())
    python = Path(sys.executable).resolve()
    copied_files = [_copy(python, root), *_standard_library(root)]
    _link(root, python.with_name("python3"), python.name)
    copied_files += _libraries(root)
    for package in _owners(copied_files):
        _keep_record(package, root)
    _configure(root)


def shared_libraries(file: Path) -> list[Path]:
    """Return the shared libraries that a program or library loads at its start, resolved by this machine's loader."""
    loader = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=False)
    if missing := re.findall(r"^\s*(\S+) => not found", loader.stdout, re.M):
        message = f"{file} requires {', '.join(missing)}, which this base image does not contain"
        raise FileNotFoundError(message)
    return [Path(match["path"]) for match in _LOADED.finditer(loader.stdout)]


def _standard_library(root: Path) -> Iterator[Path]:
    folder = Path(sysconfig.get_path("stdlib"))
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _is_left_out(name)]
        for name in files:
            path = Path(place, name)
            if not _is_left_out(name) and path.exists():  # Debian has symbolic links to settings that may be missing
                yield _copy(path, root)


def _is_left_out(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in LEFT_OUT)


def _libraries(root: Path) -> Iterator[Path]:
    """Copy the libraries that the binaries in `root` load. ldd also lists the dependencies of libraries."""
    libraries = {library for file in list(_binaries(root)) for library in shared_libraries(file)}
    for library in sorted(libraries):
        if not library.is_relative_to(root):
            place = library.parent.resolve() / library.name
            target = place.resolve()
            yield _copy(target, root)
            _link(root, place, os.path.relpath(target, place.parent))


def _binaries(root: Path) -> Iterator[Path]:
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def _owners(files: list[Path]) -> Iterator[str]:
    """Return the Debian packages that contain `files`. A Python compiled into /usr/local belongs to no package."""
    unowned_files = set(files)
    for package_list in sorted(_DPKG.glob("info/*.list")):
        if any(Path(os.path.realpath(line)) in unowned_files for line in package_list.read_text().splitlines()):
            yield package_list.stem.partition(":")[0]


def _keep_record(package: str, root: Path) -> None:
    for paragraph in (_DPKG / "status").read_text().split("\n\n"):
        if paragraph.startswith(f"Package: {package}\n"):
            _write(root / f"var/lib/dpkg/status.d/{package}", f"{paragraph}\n")
    licence = Path("/usr/share/doc", package, "copyright")
    if licence.exists():
        _write(root / licence.relative_to("/"), licence.read_text())


def _configure(root: Path) -> None:
    _write(root / "etc/os-release", Path("/etc/os-release").read_text())
    for name, text in _ETC.items():
        _write(root / "etc" / name, text)
    for path in (Path("/etc/ld.so.conf"), *Path("/etc/ld.so.conf.d").glob("*.conf")):
        _copy(path, root)
    subprocess.run(["ldconfig", "-r", str(root)], check=True)


def _copy(path: Path, root: Path) -> Path:
    target = root / path.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
    is_program = path.suffix != ".py" and path.stat().st_mode & 0o111  # the loader is one, too
    target.chmod(0o755 if is_program else 0o644)
    return path.resolve()


def _link(root: Path, link: Path, target: str) -> None:
    place = root / link.relative_to("/")
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
