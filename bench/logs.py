"""`make bench-logs`: measures how long `traingrid logs` takes to print a million lines of four Regions.

The lines are in the log streams of a localcloud in this process. Another process reads them with the command's
functions, and prints them to a file. localcloud refuses calls above AWS's documented rates, as AWS does, and shares the
two cores of this machine with the reader, as AWS does not.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.machine import description, peak_memory_mib
from bench.report import Result, report
from bench.size import size
from localcloud.credentials.environments import user_environment
from localcloud.limits.rates import rate_of
from localcloud.log_streams import LogStream, ensure_group
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from localcloud.stored_log import StoredLogStream
from traingrid.api.control_plane import ControlPlane
from traingrid.api.logs import LogReader
from traingrid.backends.sagemaker.log import LOG_GROUP
from traingrid.cli.logs import print_lines
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.job.state import JobState
from traingrid.submission.status import JobStatus, SubmissionStatus

LINES, HOSTS = size(1_000_000, 2_000), 2
REGIONS = ("us-east-1", "us-west-2", "eu-west-1", "ap-southeast-2")
_TEXT = "Epoch 7 of 20, {number} of 1000000 steps: loss=0.6931 recent_images_per_second=12345.6 step_seconds=0.0481"
_ACCOUNT = "123456789012"


class _Plane(ControlPlane):
    """A control plane with one job in each Region; its status needs no request."""

    def status(self, submission: str) -> SubmissionStatus:
        jobs = [
            JobStatus(index=index, region=region, name=region, state=JobState.COMPLETED, training_job=f"job-{index}")
            for index, region in enumerate(REGIONS)
        ]
        return SubmissionStatus(submission=submission, manifest="", batch_job="b", batch_state="", jobs=jobs)


def _deployment() -> Deployment:
    grid = {
        "name": "bench",
        "home": REGIONS[0],
        "regions": dict.fromkeys(REGIONS),
        "images": {"resnet": {"repository": "training", "tag": "1"}},
        "job": {"image": "resnet", "instance_type": "ml.m5.large"},
    }
    return Deployment(grid=GridSettings.model_validate(grid), account=_ACCOUNT, table="ledger", manifest_bucket="bench")


def write(lines: int) -> None:
    """Write lines into the streams of all hosts in turn, one per millisecond."""
    hosts = [(index, region, host) for host in range(HOSTS) for index, region in enumerate(REGIONS)]
    now = int(time.time() * 1000) - lines
    for turn, (index, region, host) in enumerate(hosts):
        ensure_group(_ACCOUNT, region, LOG_GROUP)
        stream = LogStream(_ACCOUNT, region, LOG_GROUP, f"job-{index}/algo-{host + 1}-1700000000")
        stream.put(
            [
                {"timestamp": now + number, "message": _TEXT.format(number=number)}
                for number in range(turn, lines, len(hosts))
            ]
        )


def read() -> None:
    """Print the lines, as the command does; the program runs it in another process."""
    nothing: Any = None
    plane = _Plane(deployment=_deployment(), ledger=nothing, batch=nothing, storage=nothing)
    print_lines(LogReader(plane=plane, submission="0123abcd").lines(), is_one_job=False, timestamps=False)
    print(f"{peak_memory_mib('self'):.0f}", file=sys.stderr)


def measure(lines: int, folder: Path) -> dict[str, Any]:
    """Return the seconds, the memory and the calls of a reader, after checking that it printed every line in order."""
    calls: Counter[str] = Counter()
    get_log_events = StoredLogStream.get_log_events

    def counted(stream: StoredLogStream, *arguments: Any) -> Any:
        calls[stream.region] += 1
        return get_log_events(stream, *arguments)

    with (
        patch.object(StoredLogStream, "get_log_events", counted),
        LocalCloud(Settings(data_dir=folder)) as cloud,
        (folder / "printed").open("wb") as out,
    ):
        write(lines)
        environment = {**os.environ, **user_environment(cloud.endpoint_url), "PYTHONUNBUFFERED": ""}
        reader, started = [sys.executable, "-m", "bench.logs", "--read"], time.monotonic()
        ended = subprocess.run(reader, env=environment, stdout=out, stderr=subprocess.PIPE, text=True, check=True)
        seconds = time.monotonic() - started
    numbers = [int(found) for found in re.findall(r", (\d+) of 1000000 steps", (folder / "printed").read_text())]
    if numbers != list(range(lines)):
        raise RuntimeError(f"{len(numbers)} of {lines} lines were printed, or not in the order of time")
    memory = float(ended.stderr.splitlines()[-1])
    return {"seconds": round(seconds, 2), "peak_mib": memory, "calls": dict(calls), "aws": seconds_in_aws(calls)}


def seconds_in_aws(calls: Counter[str]) -> float:
    """Return the seconds that the calls take at least at AWS's documented rates, with no other reader."""
    rate = rate_of("logs", "GetLogEvents")
    if rate is None:
        raise RuntimeError("localcloud knows no rate of GetLogEvents")
    return max(round(number / rate.at(region)[0], 1) for region, number in calls.items())


def main() -> None:
    """Measure, and print a report."""
    machine = description()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(LINES, Path(folder))
    results = [
        Result(id="", what="a million lines, printed", measured=found["seconds"], comparison="<=", aim=10.0, unit="s"),
    ]
    total = sum(found["calls"].values())
    print(f"{total} calls of GetLogEvents, at AWS's rates at least {found['aws']} s; {found['peak_mib']:.0f} MiB")
    report("logs", results, machine=machine, against="localcloud on the same machine, not AWS", details=found)


if __name__ == "__main__":
    read() if "--read" in sys.argv else main()
