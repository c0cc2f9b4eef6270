"""The benchmarks of `make bench-guard`: `python -m bench.guard_cases NAME` prints the figures of one run in JSON.

They measure the traingrid package on PYTHONPATH, which can be that of an older commit, so they use only interfaces that
both commits have. A benchmark whose interface is missing prints the reason as `skipped`.
"""

import contextlib
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.canned_aws import ENDPOINT, CannedAws, ReachedError
from bench.machine import peak_memory_mib

LINES, DATASETS = 10_000, 1_000
_ACCOUNT, _HOME, _TABLE, _BUCKET, _SUBMISSION = "123456789012", "us-east-1", "ledger", "manifests", "0123abcd"
_JOB = "8f7c1c9e-5c5f-4d0f-9a53-3d9e4d0b7a11"
_GRID: dict[str, Any] = {
    "name": "bench",
    "home": _HOME,
    "regions": {_HOME: {}, "eu-west-1": {}},
    "images": {"resnet": {"repository": "training", "tag": "1"}},
    "job": {"image": "resnet", "instance_type": "ml.p3.16xlarge", "processes_per_host": 8},
}
_KEYS = {
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
    "AWS_DEFAULT_REGION": _HOME,
    "AWS_ENDPOINT_URL": ENDPOINT,
}
_DEPLOYED = {
    "TRAINGRID_GRID": json.dumps(_GRID),
    "TRAINGRID_ACCOUNT": _ACCOUNT,
    "TRAINGRID_TABLE": _TABLE,
    "TRAINGRID_MANIFEST_BUCKET": _BUCKET,
    "TRAINGRID_JOB_QUEUE": "queue",
    "TRAINGRID_JOB_DEFINITION": "definition",
}
Figures = dict[str, float]


def _used(since: float = 0.0, aws: CannedAws | None = None) -> Figures:
    """Return the figures of this process; `since` is the processor time before the measured part."""
    figures = {"CPU s": time.process_time() - since, "peak MiB": peak_memory_mib("self")}
    return figures | ({"calls": float(aws.calls.total()), "bytes": float(aws.bytes)} if aws else {})


def _manifest(lines: int) -> bytes:
    regions = list(_GRID["regions"])
    return "".join(
        f"{region},s3://bench-data-{_ACCOUNT}-{region}/campaign/{number}\n"
        for number in range(lines)
        for region in [regions[number % len(regions)]]
    ).encode()


def parse() -> Figures:
    """Parse a manifest of two fields in each line."""
    from traingrid.grid.deployment import Deployment  # noqa: PLC0415  # of the measured commit, as all imports below
    from traingrid.manifest.parse import parse as parsed  # noqa: PLC0415  # as above

    deployment, content = Deployment.from_environment(_DEPLOYED), _manifest(LINES)
    parsed(_manifest(1), deployment)  # loads SageMaker's service model
    since = time.process_time()
    parsed(content, deployment)
    return _used(since)


def _submitted(lines: int) -> tuple[CannedAws, dict[str, str]]:
    """Submit a manifest with the intake function; return its requests and the variables of the children."""
    variables: dict[str, str] = {}

    def submit(request: Any) -> dict[str, str]:
        listed = request.get("containerOverrides", {}).get("environment", [])
        variables.update({entry["name"]: entry["value"] for entry in listed})
        return {"jobId": _JOB, "jobName": request["jobName"]}

    aws = CannedAws(replies={"batch.SubmitJob": submit}, objects={f"/{_BUCKET}/manifests/x.csv": _manifest(lines)})
    aws.install()
    os.environ.update(_DEPLOYED)
    place = {"bucket": {"name": _BUCKET}, "object": {"key": "manifests/x.csv", "version-id": "1"}}
    context = SimpleNamespace(aws_request_id="bench", get_remaining_time_in_millis=lambda: 60_000)
    report = importlib.import_module("lambda.accept_manifest").handler({"detail": place}, context)
    if report["state"] != "submitted":
        raise RuntimeError(report)
    return aws, variables


def intake() -> Figures:
    """Submit a large manifest, from the start of the function."""
    aws, _ = _submitted(LINES)
    return _used(aws=aws)


def objects() -> dict[str, Any]:
    """Return the objects and variables of a submitted manifest, for a child in another process."""
    aws, variables = _submitted(2)
    return {"objects": {path: content.decode("latin-1") for path, content in aws.objects.items()}, **variables}


def child() -> Figures:
    """Start a child, until its first CreateTrainingJob."""
    ended = subprocess.run([sys.executable, "-m", __spec__.name, "objects"], stdout=subprocess.PIPE, check=True)
    variables = json.loads(ended.stdout)
    stored = {path: content.encode("latin-1") for path, content in variables.pop("objects").items()}
    replies = {
        "dynamodb.Query": lambda _: {"Items": [], "Count": 0},
        "sagemaker.DescribeTrainingJob": lambda _: {
            "__type": "ValidationException",
            "message": "Requested resource not found.",
        },
    }
    aws = CannedAws(replies=replies, objects=stored, ends_at="sagemaker.CreateTrainingJob".__eq__)
    aws.install()
    ids = {"AWS_BATCH_JOB_ID": f"{_JOB}:0", "AWS_BATCH_JOB_ARRAY_INDEX": "0", "AWS_BATCH_JOB_ATTEMPT": "1"}
    os.environ.update({**_DEPLOYED, **variables, **ids})
    return _until_reached(lambda: importlib.import_module("traingrid.child.main").run_child(os.environ), aws)


def _until_reached(run: Callable[[], object], aws: CannedAws) -> Figures:
    try:
        run()
    except ReachedError:
        return _used(aws=aws)
    raise RuntimeError(f"the end of the measurement was not reached after {dict(aws.calls)}")


def _command(*words: str) -> Figures:
    """Start a command, until its first request."""
    aws = CannedAws(ends_at=lambda _: True)
    aws.install()
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        Path("grid.yaml").write_text(json.dumps(_GRID))
        Path("manifest.csv").write_bytes(_manifest(1))
        sys.argv = ["traingrid", *words]
        return _until_reached(lambda: importlib.import_module("traingrid.cli.main").main(), aws)


def _indexed(index: int) -> dict[str, Any]:
    """Return the entry of a job in the ledger's index; nearly all jobs are completed."""
    state = "Failed" if index % 100 == 0 else "Completed"
    fields = {"item": f"job#{index:06d}", "state": state, "region": _HOME, "name": f"campaign-{index}"}
    return {name: {"S": value} for name, value in fields.items()} | {"attempt": {"N": "1"}}


def status() -> Figures:
    """Print the overview of a large submission."""
    from traingrid.api.control_plane import ControlPlane  # noqa: PLC0415  # as above
    from traingrid.aws.batch import Batch  # noqa: PLC0415  # as above
    from traingrid.aws.s3 import Storage  # noqa: PLC0415  # as above
    from traingrid.cli.console import console  # noqa: PLC0415  # as above
    from traingrid.cli.status import print_overview  # noqa: PLC0415  # as above
    from traingrid.grid.deployment import Deployment  # noqa: PLC0415  # as above
    from traingrid.ledger.ledger import Ledger  # noqa: PLC0415  # as above

    head = {
        "submission": {"S": _SUBMISSION},
        "item": {"S": "submission"},
        "state": {"S": "Submitted"},
        "manifest": {"S": "s3://m/x.csv"},
        "jobs": {"N": str(LINES)},
        "batch_job": {"S": _JOB},
        "version": {"S": "1"},
        "claimed_at": {"S": "2026-11-01T00:00:00Z"},
        "owner": {"S": "bench"},
    }
    entries = {"Items": [_indexed(index) for index in range(LINES)], "Count": LINES}
    nothing: dict[str, Any] = {"Items": [], "Count": 0}
    replies = {
        "dynamodb.GetItem": lambda request: {"Item": head} if request["Key"]["item"]["S"] == "submission" else {},
        "dynamodb.Query": lambda request: entries if "IndexName" in request else nothing,
    }
    aws = CannedAws(replies=replies)
    aws.install()
    deployment = Deployment.from_environment(_DEPLOYED)
    plane = ControlPlane(
        deployment=deployment, ledger=Ledger(_TABLE, _HOME), batch=Batch(deployment, _HOME), storage=Storage(_HOME)
    )
    since = time.process_time()
    print_overview(plane.overview(_SUBMISSION), console())
    return _used(since, aws)


def plan() -> Figures:
    """Plan random datasets."""
    from bench import plan as random_plan  # noqa: PLC0415  # as above

    random_plan.DATASETS = DATASETS
    figures = random_plan.measured("plain")
    return {"CPU s": figures["cpu_seconds"], "peak MiB": figures["peak_mib"]}


def synthesis() -> Figures:
    """Synthesize a grid of two Regions, in another process and its jsii."""
    with tempfile.TemporaryDirectory() as name:
        grid, context = Path(name) / "grid.yaml", json.loads(Path("cdk.json").read_text())["context"]
        grid.write_text(json.dumps(_GRID))
        variables = {"CDK_OUTDIR": name, "CDK_CONTEXT_JSON": json.dumps({**context, "grid": str(grid)})}
        # More than half of the CPU time of a synthesis is the CDK's validation of the templates, which is not ours.
        variables |= {"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20", "CDK_VALIDATION": "false"}
        subprocess.run([sys.executable, "app.py"], env={**os.environ, **variables}, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"CPU s": used.ru_utime + used.ru_stime, "peak MiB": used.ru_maxrss / 1024}


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "parse": parse,
    "intake": intake,
    "child": child,
    "command-status": lambda: _command("status"),
    "command-submit": lambda: _command("submit", "manifest.csv"),
    "status": status,
    "plan": plan,
    "synthesis": synthesis,
}


def main(name: str) -> None:
    """Print the figures of a benchmark on the last line."""
    os.environ.update(_KEYS)
    try:
        figures = (CASES | {"objects": objects})[name]()
    except (ImportError, AttributeError, TypeError) as error:
        figures = {"skipped": f"{type(error).__name__}: {error}"}
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1])
