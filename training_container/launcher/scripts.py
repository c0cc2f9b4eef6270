"""Scripts: downloads and unpacks the archive of a custom script on every host, and installs its requirements.

This follows AWS's sagemaker-training toolkit (entry_point.py, modules.py, files.py): the archive is unpacked in
/opt/ml/code, and pip installs its requirements.txt once per host, before any rank starts. Unlike the toolkit, pip
installs into an environment of the job, not into the image's Python.
"""

import hashlib
import importlib.metadata
import re
import tempfile
from pathlib import Path, PurePosixPath

from training_container.contract.launch_options import Script
from training_container.contract.training_job import ContractError, Folders
from training_container.launcher import script_packages
from training_container.unpacking import ArchiveError, ArchiveLimits, shown, unpack

# The name of an archive that `traingrid submit` has uploaded. Users of `traingrid upload` may write to its bucket, too.
_HASH_NAME = re.compile(r"([0-9a-f]{64})\.tar\.gz")
# Packages that Horovod was compiled against: ranks cannot load it with another version of one of them.
# PyTorch is fixed, too: another version would bring gigabytes of another CUDA, and may need a newer driver.
_FIXED = ("horovod", "keras", "numpy", "protobuf", "tensorflow", "tensorflow-cpu", "torch")


def prepare(script: Script, folders: Folders) -> None:
    """Download and unpack a script on this host, and install its requirements.

    Raises:
        ContractError: The archive cannot be read or unpacked or lacks the program, or pip fails.
    """
    if script.archive.startswith("s3://"):
        with tempfile.TemporaryDirectory(prefix="traingrid-") as scratch:
            archive = Path(scratch) / "source.tar.gz"
            _fetch(script.archive, archive)
            _unpack(archive, script.archive, folders.code)
    elif script.archive and not folders.here(script.archive).is_dir():
        _unpack(folders.here(script.archive), script.archive, folders.code)
    code = folder(script, folders)
    if not (code / script.entry_point).is_file():
        content = ", ".join(sorted(path.name for path in code.iterdir())[:10]) if code.is_dir() else ""
        raise ContractError(
            f"Program {script.entry_point} does not exist in {script.archive or code}, which contains: "
            f"{content or 'nothing'}. Put it at the archive's top, or set entry_point to its path in the archive."
        )
    _check_line_ends(code / script.entry_point)
    if (code / script_packages.REQUIREMENTS).is_file() or script_packages.is_package(code):
        _install(code, folders.base)


def _check_line_ends(program: Path) -> None:
    """Raise an error for a shell script with the line ends of Windows: no program has a name that ends with them."""
    if program.suffix != ".sh":
        return
    with program.open("rb") as file:
        if file.readline().endswith(b"\r\n"):
            raise ContractError(
                f"Program {program.name} has the line ends of Windows (CRLF), so that no shell can run it. Save it "
                "with those of Linux (LF), for example with `sed -i 's/\\r$//' FILE`, and submit the line again."
            )


def folder(script: Script, folders: Folders) -> Path:
    """Return the folder on this host that contains a script, and in which it runs."""
    given_path = folders.here(script.archive)
    return (
        given_path
        if script.archive and not script.archive.startswith("s3://") and given_path.is_dir()
        else folders.code
    )


def _fetch(uri: str, target: Path) -> None:
    import boto3  # noqa: PLC0415  # the import takes a second, and only scripts need it
    from boto3.exceptions import Boto3Error  # noqa: PLC0415  # as above
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415  # as above

    bucket, _, key = uri.removeprefix("s3://").partition("/")
    try:
        boto3.client("s3").download_file(bucket, key, str(target))
    except (Boto3Error, BotoCoreError, ClientError) as error:
        raise ContractError(
            f"The script's archive {uri} cannot be read: {error}. Check that it exists, and that the training job's "
            "execution role may read its bucket (s3:GetObject)."
        ) from error


def _unpack(archive: Path, uri: str, target: Path) -> None:
    """Unpack a .tar.gz into the folder of the script, which may have files of the image."""
    if not archive.is_file():
        raise ContractError(f"The script's archive {uri} does not exist on this host.")
    _verify(archive, uri)
    try:
        left_out = unpack(archive, target, ArchiveLimits.of_disk(archive.parent, "Set a larger volume_gb"))
        if left_out:
            print(shown(left_out), flush=True)
    except (ArchiveError, OSError) as error:
        raise ContractError(
            f"The script's archive {uri} cannot be unpacked: {error}. It must be a .tar.gz without paths that lead "
            "outside it; create it with `tar czf sourcedir.tar.gz -C FOLDER .`."
        ) from error


def _verify(archive: Path, uri: str) -> None:
    """Compare an archive with the SHA-256 in its name, if it has one."""
    expected = _HASH_NAME.fullmatch(uri.rpartition("/")[2])
    with archive.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest() if expected else ""
    if expected and actual != expected[1]:
        raise ContractError(
            f"The script's archive {uri} was replaced after it was submitted: its content has the SHA-256 {actual}. "
            "Nothing in it was run. Submit the line again, and check who may write to the bucket."
        )


def _install(code: Path, base: Path) -> None:
    """Install requirements.txt, and the package that the folder is, into the job's environment."""
    requirements = code / script_packages.REQUIREMENTS
    files = [str(requirements)] if requirements.is_file() else []
    if script_packages.is_package(code):
        files.append(f"the package {code}")
    print(f"Installing {' and '.join(files)} on this host", flush=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.writelines(f"{name}=={version}\n" for name, version in _fixed_versions())
        constraints.flush()
        result = script_packages.install(code, Path(constraints.name), base)
    print(result.stdout, end="", flush=True)
    if result.returncode:
        errors = " ".join(line.strip() for line in result.stderr.splitlines() if line.startswith("ERROR"))
        raise ContractError(
            f"{' and '.join(files)} cannot be installed: {errors or result.stderr.strip()[-500:]} "
            f"Requirements must be compatible with the image's {', '.join(name for name, _ in _fixed_versions())}. "
            "Without access to a package index, add the packages to a custom image."
        )


def _fixed_versions() -> list[tuple[str, str]]:
    versions = []
    for name in _FIXED:
        try:
            versions.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def program(script: Script, folders: Folders) -> Path:
    """Return the path of a script's program on this host."""
    return folder(script, folders) / PurePosixPath(script.entry_point)
