"""Kernel cache: keeps the kernels that a GPU's driver compiles with the checkpoints, for the next start of the job.

A program contains kernels for the GPUs of its time, and others as PTX, which the driver compiles at the first use:
TensorFlow 2.15 has none for H100 and newer, and this may take 30 minutes
(https://github.com/tensorflow/tensorflow/issues/62320). The driver stores them in CUDA_CACHE_PATH
(https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html), in many files with an
index. All ranks of a host share one local folder; it stays empty if the program has kernels for the GPU.

SageMaker copies /opt/ml/checkpoints to S3 at any time, file by file, and from all hosts. So the driver does not write
there: the first host packs the folder when nothing in it changes any more, into one file that has its checksum in its
name. A file with another checksum is not used, and errors here never end a job. For a script, all of this requires the
hyperparameter sagemaker_keep_kernels. No GPU has confirmed this yet.
"""

import errno
import hashlib
import importlib.util
import os
import re
import shutil
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from training_container.contract.launch_options import gpu_count
from training_container.contract.training_job import TrainingJob
from training_container.unpacking import ArchiveError, ArchiveLimits, unpack

COMPILING_SECONDS = 3600.0
"""The time that ranks may need to compile their kernels: TensorFlow's warning names 30 minutes or longer."""
_PATH = "CUDA_CACHE_PATH"
_MAX_BYTES = 2**32  # the maximum of CUDA_CACHE_MAXSIZE; the default is 256 MiB, or 1 GiB in newer drivers
_QUIET_SECONDS = 60.0
_SPARED_SIZES = 4  # room that remains for checkpoints, in sizes of the packed kernels
_HINT = "Set a larger volume_gb"
_NAME = re.compile(r"cuda-kernels-[0-9a-f]{64}\.tar")
# GPUs of compute capability 9.0 and higher: H100 and H200 (p5), Blackwell (p6, g7, g7e).
# Source: https://developer.nvidia.com/cuda-gpus.
_NEWER_THAN_TENSORFLOW = re.compile(r"ml\.(?:p5\w*|p6e?-\w+|g7e?)\.")


def compiles_kernels(job: TrainingJob) -> bool:
    """Return True if TensorFlow has no kernels for this host's GPUs, so that ranks compile them at the first use."""
    instance_type = str(job.resources.get("current_instance_type", ""))
    newer = _NEWER_THAN_TENSORFLOW.match(instance_type) is not None
    return newer and gpu_count() > 0 and importlib.util.find_spec("tensorflow") is not None


def variables(job: TrainingJob) -> dict[str, str]:
    """Return the variables of the cache.

    There are none for a host without GPUs, a job without a folder of checkpoints, or a script that does not ask for the
    cache: its folder of checkpoints has only the files that the script writes, which it may list or delete.
    """
    if not job.launch.keep_kernels or not gpu_count() or not job.folders.checkpoints.is_dir():
        return {}
    return {_PATH: str(_folder(job)), "CUDA_CACHE_MAXSIZE": str(_MAX_BYTES)}


def restore(job: TrainingJob, environment: Mapping[str, str]) -> None:
    """Unpack the kernels that an earlier start has kept, before the ranks of this host start.

    Args:
        environment: The container's variables. With CUDA_CACHE_PATH, the cache is the user's own.
    """
    if not variables(job) or _PATH in environment:
        return
    folder = _folder(job)
    for archive in sorted(_archives(job.folders.checkpoints), key=_size, reverse=True):
        started = time.monotonic()
        try:
            if archive.name != _name(archive):
                print(f"{archive.name} is incomplete or corrupt; kernels are compiled again.", flush=True)
                continue
            shutil.rmtree(folder, ignore_errors=True)
            unpack(archive, folder, ArchiveLimits.of_disk(folder.parent, _HINT))
        except (OSError, ArchiveError) as error:
            print(f"{archive.name} cannot be unpacked; kernels are compiled again: {error}.", flush=True)
            continue
        seconds = time.monotonic() - started
        print(f"Restored {_size(archive):,} bytes of compiled GPU kernels in {seconds:.1f} s.", flush=True)
        return
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def kept(job: TrainingJob, environment: Mapping[str, str], seconds: float = _QUIET_SECONDS) -> Iterator[None]:
    """Keep new kernels with the checkpoints while the block runs: when none was added for some seconds, and at its end.

    Args:
        job: The job. Only the first host keeps its kernels: those of the others are the same.
        environment: The environment of the ranks.
        seconds: The time without a new kernel after which they are kept.
    """
    if not job.is_main_host or not variables(job) or environment.get(_PATH) != str(_folder(job)):
        yield
        return
    keeper = _Keeper(_folder(job), job.folders.checkpoints)
    end_event = threading.Event()
    thread = threading.Thread(target=keeper.run, args=(end_event, seconds), name="kernels", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end_event.set()
        thread.join()
        keeper.keep()


class _Keeper:
    def __init__(self, folder: Path, checkpoints: Path) -> None:
        self._folder, self._checkpoints = folder, checkpoints
        self._saved_state = _state(folder)  # the restored ones

    def run(self, ended: threading.Event, seconds: float) -> None:
        before = self._saved_state
        while not ended.wait(seconds):
            now = _state(self._folder)
            if now == before:
                self.keep()
            before = now

    def keep(self) -> None:
        """Pack the folder, unless it is empty, unchanged, or changes meanwhile."""
        state = _state(self._folder)
        if not state or state == self._saved_state:
            return
        writing = self._checkpoints / ".cuda-kernels"
        try:
            self._check_room(sum(size for size, _ in state.values()))
            with tarfile.open(writing, "w") as packed:
                packed.add(self._folder, arcname=".")
            if _state(self._folder) != state:
                return
            complete_file = writing.with_name(_name(writing))
            writing.replace(complete_file)
            self._saved_state = state
            for old in _archives(self._checkpoints):
                if old != complete_file:
                    old.unlink()
            print(f"Kept {_size(complete_file):,} bytes of compiled GPU kernels with the checkpoints.", flush=True)
        except OSError as error:  # for example, a kernel was replaced while it was read, or the disk is full
            print(f"Compiled GPU kernels could not be kept: {error}.", flush=True)
        finally:
            with suppress(OSError):
                writing.unlink(missing_ok=True)

    def _check_room(self, size: int) -> None:
        """Raise the error of a full disk before it is full, because checkpoints need the room, too."""
        if shutil.disk_usage(self._checkpoints).free < _SPARED_SIZES * size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _folder(job: TrainingJob) -> Path:
    return job.folders.base / "cuda-cache"


def _archives(checkpoints: Path) -> list[Path]:
    return [path for path in checkpoints.glob("cuda-kernels-*.tar") if _NAME.fullmatch(path.name)]


def _state(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size and the time of the last change of each file in a folder."""
    state_by_path = {}
    for path in folder.rglob("*"):
        with suppress(OSError):  # the driver may remove files at any time
            if path.is_file():
                status = path.stat()
                state_by_path[str(path)] = (status.st_size, status.st_mtime_ns)
    return state_by_path


def _name(file: Path) -> str:
    """Return the name of a packed folder with this content."""
    with file.open("rb") as opened:
        return f"cuda-kernels-{hashlib.file_digest(opened, 'sha256').hexdigest()}.tar"


def _size(file: Path) -> int:
    with suppress(OSError):
        return file.stat().st_size
    return 0
