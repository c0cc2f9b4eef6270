"""The demultiplexer of a host: one process reads a channel's stream and deals its records to the host's ranks.

Ranks cannot share a FIFO (each would get pieces of records), and a channel per rank soon exceeds SageMaker's 20. So
each rank gets a FIFO of its own on the host, and record i of the stream goes to local rank i mod ranks.
"""

import atexit
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from training_container.trainer.byte_blocks import ending

PROGRAM = Path(sys.prefix) / "lib" / "traingrid" / "deal"
"""Where setup/training.sh puts the demultiplexer; where it could not be built, dealer.py serves."""
_PACKAGE = Path(__file__).resolve().parents[2]
_running: list["subprocess.Popen[bytes]"] = []


def dealt(  # noqa: PLR0913  # the place of a rank, in keywords or in this order
    folder: Path, channel: str, epoch: int, local_rank: int, local_size: int, *, timeout_seconds: float = 600.0
) -> str:
    """Return the path of the FIFO from which this rank reads its share of a channel's stream in one epoch.

    Local rank 0 starts the demultiplexer, which ends with that rank. Every rank reads its FIFO with fifo.records, where
    a broken stream fails on every rank with the same sentence. A rank may close its FIFO before the end; when all
    have, the stream is closed. A host's only rank reads the stream itself.

    Args:
        folder: where SageMaker puts the channels' FIFOs, `<channel>_<epoch>`: /opt/ml/input/data.
        channel: its name.
        epoch: from 0.
        local_rank: this rank's number on its host.
        local_size: the host's ranks; all call this for the same epochs.
        timeout_seconds: how long the stream may take to appear and be silent, and how long ranks may take to come.
    """
    source = folder / f"{channel}_{epoch}"
    if local_size == 1:
        return str(source)
    place = _place(folder)
    fifos = [place / f"{channel}_{epoch}.rank{rank}of{local_size}" for rank in range(local_size)]
    if local_rank == 0:
        place.mkdir(mode=0o700, exist_ok=True)
        for fifo in fifos:
            _make(fifo, f"Channel {channel}: the demultiplexer of {source} was killed before the end of the stream.")
        _start(channel, source, timeout_seconds, fifos)
    return str(fifos[local_rank])


def _place(folder: Path) -> Path:
    """Return where the FIFOs of a host's ranks are: the same in all its ranks, and no other host's on this machine."""
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"traingrid-{os.getuid()}-{digest}"


def _make(fifo: Path, unless_said_otherwise: str) -> None:
    """Make a FIFO in place of what an earlier run has left; a rank that has opened that one notices."""
    ending(str(fifo)).write_text(unless_said_otherwise)
    fresh = fifo.with_name(f"{fifo.name}.new")
    fresh.unlink(missing_ok=True)
    os.mkfifo(fresh, 0o600)
    fresh.replace(fifo)


def _start(channel: str, source: Path, timeout_seconds: float, fifos: list[Path]) -> None:
    program = [str(PROGRAM)] if PROGRAM.exists() else [sys.executable, "-m", "training_container.trainer.dealer"]
    atexit.unregister(_end)
    atexit.register(_end, fifos[0].parent)
    for process in [one for one in _running if one.poll() is not None]:
        _close(process)
    _running.append(
        subprocess.Popen(
            [*program, channel, str(source), f"{timeout_seconds:g}", *map(str, fifos)],
            stdin=subprocess.PIPE,  # its lifeline: closed with this process, however that ends
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_PACKAGE), os.environ.get("PYTHONPATH", "")])},
        )
    )


def _end(place: Path) -> None:
    while _running:
        _close(_running[-1])
    shutil.rmtree(place, ignore_errors=True)


def _close(process: "subprocess.Popen[bytes]") -> None:
    """Cut a demultiplexer's lifeline and see it end."""
    if process.stdin:
        process.stdin.close()
    process.wait()
    _running.remove(process)
