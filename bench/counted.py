"""Runs a part of traingrid in a process of its own and says what it asked AWS for.

`python -m bench.counted REPORT child` runs what the orchestrator's container runs; with `intake EVENT` instead it runs
the intake function once, on an event in JSON. REPORT is the file that takes a `Report` in JSON.
"""

import importlib
import json
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3

from bench.machine import peak_memory_mib


@dataclass(kw_only=True)
class Report:
    """What a process has done.

    Attributes:
        ended_at: When it was done, in seconds since 1970.
        handler_seconds: How long its own code took, without Python's start and the imports of boto3.
        peak_mib: Most memory of the process.
        calls: HTTP requests by service and operation, each try of a retried one too.
        bytes_read: Bytes of the bodies of S3's GetObject answers.
    """

    ended_at: float = 0.0
    handler_seconds: float = 0.0
    peak_mib: float = 0.0
    calls: Counter[str] = field(default_factory=Counter)
    bytes_read: int = 0

    def watch(self) -> None:
        """Count for every client that this process makes from now on: boto3's default session hands its hooks on."""
        boto3.setup_default_session()
        events = boto3._get_default_session().events
        events.register("before-send", self._sent)
        events.register("after-call.s3.GetObject", self._read)

    def _sent(self, event_name: str, **_: Any) -> None:
        self.calls[event_name.removeprefix("before-send.")] += 1

    def _read(self, http_response: Any, **_: Any) -> None:
        if http_response.status_code < 300:
            self.bytes_read += int(http_response.headers["content-length"])


def main() -> int:
    """Run the part that the arguments name, write the report and return the exit code."""
    file, part, *event = sys.argv[1:]
    report = Report()
    report.watch()
    started = time.perf_counter()
    code = _intake(event[0]) if part == "intake" else _child()
    report.handler_seconds = time.perf_counter() - started
    report.ended_at = time.time()
    report.peak_mib = peak_memory_mib("self")
    Path(file).write_text(json.dumps(vars(report)))
    return code


def _child() -> int:
    orchestrator = importlib.import_module("traingrid.orchestrator")
    return int(orchestrator.run_child(os.environ))


def _intake(event: str) -> int:
    """A Lambda context has more than this; the handler reads no more."""
    accept = importlib.import_module("lambda.accept_manifest")
    left = 60_000  # the timeout in milliseconds (stacks/event_function.py)
    context = SimpleNamespace(aws_request_id=f"bench-{os.getpid()}", get_remaining_time_in_millis=lambda: left)
    said = accept.handler(json.loads(event), context)
    return 0 if said["state"] == "submitted" else 1


if __name__ == "__main__":
    sys.exit(main())
