"""Counts the AWS requests of a part of traingrid, which it runs in this process.

`python -m bench.counted REPORT child` runs the program of the orchestrator's container; `intake EVENT` instead of
`child` runs the intake function once, for an event in JSON. REPORT is the file to which a `Report` is written in JSON.
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
    """Statistics of a process.

    Attributes:
        ended_at: Time at which it ended, in seconds since 1970.
        handler_seconds: Duration of its own code, without Python's start and the imports of boto3.
        peak_mib: Peak memory of the process.
        calls: HTTP requests by service and operation, including each retry.
        bytes_read: Bytes in the bodies of GetObject replies of S3.
    """

    ended_at: float = 0.0
    handler_seconds: float = 0.0
    peak_mib: float = 0.0
    calls: Counter[str] = field(default_factory=Counter)
    bytes_read: int = 0

    def watch(self) -> None:
        """Count requests of all clients created from now on, which inherit handlers from boto3's default session."""
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
    """Run the part that the arguments name, write the report, and return the exit code."""
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
    orchestrator = importlib.import_module("traingrid.child.main")
    return int(orchestrator.run_child(os.environ))


def _intake(event: str) -> int:
    """Run the intake with the part of a Lambda context that the handler reads; return the exit code."""
    accept = importlib.import_module("lambda.accept_manifest")
    left = 60_000  # the timeout in milliseconds (stacks/event_function.py)
    context = SimpleNamespace(aws_request_id=f"bench-{os.getpid()}", get_remaining_time_in_millis=lambda: left)
    report = accept.handler(json.loads(event), context)
    return 0 if report["state"] == "submitted" else 1


if __name__ == "__main__":
    sys.exit(main())
