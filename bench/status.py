"""`make bench-status`: measures the status of a submission with 10,000 jobs in 20 Regions.

The ledger is a table of a localcloud in this process, which pages replies at 1 MB of items as DynamoDB does. Other
processes read it with the functions of `traingrid status`, once as an overview and once with all jobs, print it to a
file, and count their requests. They wait for localcloud, which needs seconds for a page of an index, so the report has
the time in which they do not wait for it: the requests' own time in AWS has to be added.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
from moto.dynamodb.responses import DynamoHandler

from bench.counted import Report
from bench.machine import description, peak_memory_mib
from bench.report import Result, report
from bench.size import size
from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.batch import Batch
from traingrid.aws.dynamodb import marshalled
from traingrid.aws.s3 import Storage
from traingrid.cli.console import console
from traingrid.cli.status import print_overview
from traingrid.cli.status_table import status_table
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.ledger.items import job_item
from traingrid.ledger.job_states import INDEXED
from traingrid.ledger.ledger import Ledger
from traingrid.names import LEDGER_STATES

JOBS, _WRITTEN_AT_ONCE = size(10_000, 100), 25
REGIONS = [f"{area}-{number}" for area in ("us-east", "eu-west", "ap-southeast", "sa-east") for number in range(1, 6)]
_HOME, _ACCOUNT, _TABLE, _SUBMISSION = "us-east-1", "123456789012", "traingrid-ledger", "0123abcd"
_BATCH_JOB = "8f7c1c9e-5c5f-4d0f-9a53-3d9e4d0b7a11"


def _state(index: int) -> str:
    """Return the state of a job. Failed and running jobs are spread over all jobs."""
    place = index % 50
    return "Failed" if place == 0 else "InProgress" if place % 10 == 5 else "Completed"


def _item(index: int) -> dict[str, Any]:
    """Return a job's item with the fields that a child, the events and the training image's metrics record."""
    region, state, name = REGIONS[index % len(REGIONS)], _state(index), f"traingrid-{_SUBMISSION}-{index}-1"
    progress = {
        "epoch": 41.0, "train_loss": 1.8423 + index / JOBS, "validation_loss": 1.7312, "validation_top1": 0.7213,
        "validation_top5": 0.9104, "learning_rate": 0.032, "images_per_second": 20411.7, "ranks": 80.0,
        "step_seconds": 0.4021, "input_seconds": 0.0031,
    }  # fmt: skip
    item = {
        "submission": _SUBMISSION, "item": job_item(index), "state": state, "attempt": 1, "region": region,
        "name": f"campaigns-{region}-2026-10-{index}", "line": index + 1, "ranks": 80, "regions": [region],
        "opened_at": "2026-11-01T00:00:00Z", "updated_at": "2026-11-01T09:12:44Z", "array_file": "jobs.jsonl",
        "batch_child": f"{_BATCH_JOB}:{index}" if state == "InProgress" else "", "training_job": name,
        "training_job_arn": f"arn:aws:sagemaker:{region}:{_ACCOUNT}:training-job/{name}", "fingerprint": "0f" * 32,
        "phase": "Training" if state == "InProgress" else state, "epochs": 90, "progress": progress,
        "progress_at": "2026-11-01T09:12:44Z", "training_started_at": int(time.time()) - 4000,
        "hourly_dollars": 282.4, "running_hourly_dollars": 84.7,
    }  # fmt: skip
    if state != "InProgress":
        item |= {"training_seconds": 4021, "billable_seconds": 3977, "metrics": progress}
    if state == "Completed":
        item["artifact"] = f"s3://traingrid-output-{_ACCOUNT}-{region}/{_SUBMISSION}/{index}/{name}/output/model.tar.gz"
    if state == "Failed":
        reason = (
            "AlgorithmError: ExecuteUserScriptError: ExitCode 1, ErrorMessage: DivergedError: weights are not finite"
        )
        item |= {"failure": "ALGORITHM", "reason": reason}
    return item


def _head() -> dict[str, Any]:
    array = {"batch_job": _BATCH_JOB, "file": "jobs.jsonl", "count": JOBS}
    return {
        "submission": _SUBMISSION, "item": "submission", "state": "Submitted", "manifest": "s3://m/manifests/bench.csv",
        "jobs": JOBS, "claimed_at": "2026-11-01T00:00:00Z", "batch_job": _BATCH_JOB, "arrays": [array],
    }  # fmt: skip


def write() -> None:
    """Write the ledger's table, with the keys and the index that stacks/ledger.py creates."""
    client = boto3.client("dynamodb", region_name=_HOME)
    keys: Any = [{"AttributeName": "submission", "KeyType": "HASH"}, {"AttributeName": "item", "KeyType": "RANGE"}]
    projection: Any = {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(INDEXED)}
    client.create_table(
        TableName=_TABLE,
        KeySchema=keys,
        AttributeDefinitions=[{"AttributeName": key["AttributeName"], "AttributeType": "S"} for key in keys],
        GlobalSecondaryIndexes=[{"IndexName": LEDGER_STATES, "KeySchema": keys, "Projection": projection}],
        BillingMode="PAY_PER_REQUEST",
    )
    items = [_head(), *map(_item, range(JOBS))]
    for start in range(0, len(items), _WRITTEN_AT_ONCE):
        puts: Any = [{"PutRequest": {"Item": marshalled(item)}} for item in items[start : start + _WRITTEN_AT_ONCE]]
        client.batch_write_item(RequestItems={_TABLE: puts})


def _plane() -> ControlPlane:
    """Return the control plane without a request for the deployment, which every command makes."""
    grid = {
        "name": "bench", "home": _HOME, "regions": {_HOME: {}}, "images": {"resnet": {"repository": "t", "tag": "1"}},
        "job": {"image": "resnet", "instance_type": "ml.m5.large"},
    }  # fmt: skip
    deployment = Deployment(
        grid=GridSettings.model_validate(grid), account=_ACCOUNT, table=_TABLE, manifest_bucket="bench"
    )
    return ControlPlane(
        deployment=deployment, ledger=Ledger(_TABLE, _HOME), batch=Batch(deployment, _HOME), storage=Storage(_HOME)
    )


def read(part: str) -> None:
    """Print the overview, or all jobs, as the command does; then print the figures to standard error."""
    counted = Report()
    counted.watch()
    plane = _plane()
    began, processor = time.perf_counter(), time.process_time()
    plane.ledger.pause()
    plane.ledger.shortages()
    out = console()
    if part == "overview":
        plane.head(_SUBMISSION)  # the number of jobs, which decides
        print_overview(plane.overview(_SUBMISSION), out)
    else:
        out.print(status_table(plane.status(_SUBMISSION), out.width))
    found = {
        "seconds": round(time.perf_counter() - began, 3),
        "processor_seconds": round(time.process_time() - processor, 3),
        "peak_mib": round(peak_memory_mib("self"), 1),
        "calls": counted.calls,
    }
    print(json.dumps(found), file=sys.stderr)


def measure(part: str, folder: Path) -> dict[str, Any]:
    """Return the figures of a reader, after checking that it printed every job that it should."""
    printed = folder / part
    reader = [sys.executable, "-m", "bench.status", part]
    served: list[float] = []
    call_action = DynamoHandler.call_action

    def timed(handler: Any) -> Any:
        began = time.perf_counter()
        try:
            return call_action(handler)
        finally:
            served.append(time.perf_counter() - began)

    with printed.open("w") as out, patch.object(DynamoHandler, "call_action", timed):
        ended = subprocess.run(reader, stdout=out, stderr=subprocess.PIPE, text=True, check=True)
    rows = sum("campaigns-" in line for line in printed.read_text().splitlines())
    expected = sum(part == "all" or _state(index) != "Completed" for index in range(JOBS))
    if rows != expected:
        raise RuntimeError(f"{rows} jobs were printed instead of {expected}")
    found = dict(json.loads(ended.stderr.splitlines()[-1]))
    return {**found, "without_server": round(found["seconds"] - sum(served), 3)}


def ledger_requests(found: dict[str, Any]) -> int:
    """Return the number of requests to DynamoDB."""
    return sum(number for call, number in found["calls"].items() if call.startswith("dynamodb."))


def main() -> None:
    """Measure, and print a report."""
    machine = description()
    with tempfile.TemporaryDirectory() as name, LocalCloud(Settings(data_dir=Path(name))) as cloud:
        os.environ.update(user_environment(cloud.endpoint_url))
        write()
        found = {part: measure(part, Path(name)) for part in ("overview", "all")}
    overview, complete = found["overview"], found["all"]
    results = [
        _result("overview of 10,000 jobs, printed", overview["without_server"], 2.0, "s"),
        _result("overview, ledger requests", ledger_requests(overview), 10, "requests"),
        _result("overview, peak memory", overview["peak_mib"], 256, "MiB"),
        _result(
            "its time to that of all jobs",
            round(overview["without_server"] / complete["without_server"], 3),
            1,
            "times",
        ),
    ]
    for part, figures in found.items():
        print(f"{part}: {figures}")
    report("status", results, machine=machine, against="localcloud on the same machine, not AWS", details=found)


def _result(what: str, measured: float, aim: float, unit: str) -> Result:
    return Result(id="", what=what, measured=measured, comparison="<=", aim=aim, unit=unit)


if __name__ == "__main__":
    read(sys.argv[1]) if sys.argv[1:] else main()
