"""Writer: the program that reads the launcher's lines from standard input, and writes parts to S3.

It is a separate process because neither S3 nor a user's regular expression may delay the training: Python's `re` cannot
be interrupted, and some expressions take exponential time. If this process does not keep up, the launcher drops lines
(launcher/metric_feed.py).
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from training_container.contract.stopping import STOP_FILE
from training_container.metric_history.host_use import HostUse
from training_container.metric_history.line_reader import LineReader, record_of
from training_container.metric_history.parts import Parts
from training_container.metric_history.settings import Settings

_READ_BYTES = 2**16
_LOOK_SECONDS = 1.0
_SAMPLE_SECONDS = 300.0
"""The longest time between two samples of the host's use. A part has one, too, so that samples add few parts."""


def main() -> None:
    """Write the history of the lines on standard input until it ends."""
    # The launcher ends this process by closing its input. A signal to the container must not end it before.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    settings = Settings.from_environment(os.environ)
    if settings is None:
        return
    stop_file = Path(os.environ[STOP_FILE]) if STOP_FILE in os.environ else None
    parts = Parts(object_writer(settings), datetime.now(UTC), time.monotonic, warn)
    follow(sys.stdin.fileno(), LineReader(settings.metrics, warn), parts, HostUse().sample, stop_file)


def follow(
    source: int, reader: LineReader, parts: Parts, sample: Callable[[], dict[str, float]], stop_file: Path | None = None
) -> None:
    """Read lines, each with its time in front, until the end of the input; write parts when they are due.

    Args:
        source: The file descriptor of the lines.
        reader: Finds the values in a line.
        sample: Measures the use of this host.
        stop_file: The file that the launcher creates when the training is asked to stop. The values so far are written
            at once then, because the container may be killed before its ranks have ended.
    """
    unfinished, stopping, sampled_at = b"", False, time.monotonic()
    while True:
        if select.select([source], [], [], _LOOK_SECONDS)[0]:
            if not (chunk := os.read(source, _READ_BYTES)):
                break
            *lines, unfinished = (unfinished + chunk).split(b"\n")
            for line in lines:
                _read(line, reader, parts)
        stop_requested = stop_file is not None and not stopping and stop_file.exists()
        is_silent = time.monotonic() - sampled_at >= _SAMPLE_SECONDS
        if stop_requested or is_silent or parts.is_due:
            if values := sample():
                parts.add(record_of(values, time.time()))
            sampled_at = time.monotonic()
            parts.write()
        stopping = stopping or stop_requested
    parts.write_rest()


def _read(line: bytes, reader: LineReader, parts: Parts) -> None:
    seconds, _, text = line.partition(b" ")
    if record := reader.read(text.decode("utf-8", errors="replace"), float(seconds)):
        parts.add(record)


def object_writer(settings: Settings) -> Callable[[str, bytes], None]:
    """Return a function that writes an object below the settings' prefix; it raises OSError if it fails.

    Only its first call imports botocore, which takes a quarter of a second. The object gets the bucket's default
    encryption.
    """
    client: Any = None

    def write(name: str, content: bytes) -> None:
        nonlocal client
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415  # imported by the first call only

        try:
            client = client or _create_client()
            client.put_object(
                Bucket=settings.bucket, Key=settings.prefix + name, Body=content, ContentType="application/jsonl"
            )
        except (BotoCoreError, ClientError, ValueError) as error:  # ValueError: create_client refuses the endpoint
            raise OSError(f"{settings.uri}{name}: {error}") from error

    return write


def _create_client() -> Any:
    """Return a client of S3 whose tries are short, because the next write repeats a failed one."""
    from botocore.config import Config  # noqa: PLC0415  # imported by the first call only
    from botocore.session import get_session  # noqa: PLC0415  # as above

    config = Config(connect_timeout=4, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 2})
    return get_session().create_client("s3", region_name=os.environ.get("AWS_REGION"), config=config)


def warn(text: str) -> None:
    """Print a sentence into the log of the training job."""
    print(text, flush=True)


if __name__ == "__main__":
    main()
