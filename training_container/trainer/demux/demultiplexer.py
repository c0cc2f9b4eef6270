"""Demultiplexer: starts the process that distributes the records of a channel's stream to the ranks of a host.

Ranks cannot share a FIFO, because each would get fragments of records. One channel per rank soon exceeds SageMaker's
limit of 20. So each rank has its own FIFO on the host, and record i of the stream goes to local rank i mod ranks.
native/demux.cc is the program.
"""

import atexit
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from training_container.trainer.demux.record_reader import ending

PROGRAM = Path(sys.prefix) / "lib" / "traingrid" / "demux"
"""The program that setup/training.sh builds, on Linux."""
_ROOT = Path(__file__).resolve().parents[3]
_running: list["subprocess.Popen[bytes]"] = []
_folders: set[Path] = set()


def rank_fifo(  # noqa: PLR0913  # the position of a rank, by keyword or in this order
    folder: Path,
    channel: str,
    epoch: int,
    local_rank: int,
    local_size: int,
    *,
    timeout_seconds: float = 600.0,
    content: str = "tfrecord",
) -> str:
    """Return the path of the FIFO from which this rank reads its share of a channel's stream in one epoch.

    Local rank 0 starts the demultiplexer, which ends with that rank. Each rank reads its FIFO with fifo_records. If the
    stream is invalid, all ranks fail with the same message. A rank may close its FIFO early; when all ranks have, the
    stream is closed. The only rank of a host reads the stream directly.

    Args:
        folder: SageMaker's folder with the channels' FIFOs `<channel>_<epoch>`: /opt/ml/input/data.
        epoch: The epoch, from 0.
        local_rank: This rank's number on its host.
        local_size: The number of ranks on the host. All of them must call this for the same epochs.
        timeout_seconds: The maximum time until the stream appears, without data, and until all ranks open their FIFOs.
        content: "tfrecord", or a key of recordio.CONTENTS: another process translates the stream into TFRecords.

    Raises:
        FileNotFoundError: The demultiplexer is not built, and the host has several ranks.
    """
    source = folder / f"{channel}_{epoch}"
    if local_size == 1:
        return str(source if content == "tfrecord" else _start_translator(channel, source, timeout_seconds, content))
    if not PROGRAM.exists():
        raise FileNotFoundError(
            f"Channel {channel}: the demultiplexer {PROGRAM} is missing, which distributes the stream to this host's "
            "ranks. `make setup` builds it, on Linux. Otherwise set the input mode to File, or streams to rank."
        )
    place = _fifo_folder(folder)
    fifos = [place / f"{channel}_{epoch}.rank{rank}of{local_size}" for rank in range(local_size)]
    if local_rank == 0:
        if content != "tfrecord":
            source = _start_translator(channel, source, timeout_seconds, content)
        place.mkdir(mode=0o700, exist_ok=True)
        for fifo in fifos:
            _make_fifo(
                fifo, f"Channel {channel}: the demultiplexer of {source} was killed before the end of the stream."
            )
        _start(channel, source, timeout_seconds, fifos)
    return str(fifos[local_rank])


def _fifo_folder(folder: Path) -> Path:
    """Return the folder of the FIFOs, which all ranks of a host share, and which differs between hosts."""
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"traingrid-{os.getuid()}-{digest}"


def _make_fifo(fifo: Path, failure: str) -> None:
    """Create a FIFO that replaces one of an earlier run. A rank that has already opened the old one detects that."""
    ending(str(fifo)).write_text(failure)
    fresh = fifo.with_name(f"{fifo.name}.new")
    fresh.unlink(missing_ok=True)
    os.mkfifo(fresh, 0o600)
    fresh.replace(fifo)


def _start(channel: str, source: Path, timeout_seconds: float, fifos: list[Path]) -> None:
    arguments = [channel, str(source), f"{timeout_seconds:g}", *map(str, fifos)]
    _run([str(PROGRAM), *arguments], fifos[0].parent)


def _start_translator(channel: str, source: Path, timeout_seconds: float, content: str) -> Path:
    """Start a process that translates a stream into TFRecords. Return its FIFO, which only this process reads."""
    folder = Path(tempfile.mkdtemp(prefix="traingrid-"))
    fifo = folder / source.name
    _make_fifo(
        fifo, f"Channel {channel}: the program that translates {source} was killed before the end of the stream."
    )
    # A second less, so that the error is that of this process, which names the stream, and not that of its reader.
    timeout = max(timeout_seconds - 1, timeout_seconds / 2)
    arguments = [content, channel, str(source), f"{timeout:g}", str(fifo)]
    _run([sys.executable, "-m", "training_container.trainer.demux.recordio", *arguments], folder)
    return fifo


def _run(command: list[str], folder: Path) -> None:
    """Start a process that ends with this one. Its FIFOs are in a folder, which is removed then."""
    if not _folders:
        atexit.register(_end)
    _folders.add(folder)
    for process in [child for child in _running if child.poll() is not None]:
        _close(process)
    path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    _running.append(
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # its lifeline: it is closed when this process ends for any reason
            env=os.environ | {"PYTHONPATH": path},
        )
    )


def _end() -> None:
    while _running:
        _close(_running[-1])
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)
    _folders.clear()


def _close(process: "subprocess.Popen[bytes]") -> None:
    """Close a demultiplexer's lifeline, and wait for its end."""
    if process.stdin:
        process.stdin.close()
    process.wait()
    _running.remove(process)
