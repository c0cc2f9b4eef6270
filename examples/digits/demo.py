"""`make demo`: trains four campaigns of handwritten digits on four Horovod clusters in four Regions, from one manifest.

AWS is localcloud, and its clients are the real ones: the CDK CLI deploys the real templates, the manifest is uploaded
to S3, and from then on this program only watches.

    python -m examples digits --input-mode Pipe --streams rank

The input mode is a field of the manifest, and the results are about the same in every mode. With --engine mixed, two of
the Regions train on Kubernetes clusters of Amazon EKS: one as an Indexed Job, and one as an MPIJob with two hosts. With
--keep, the local AWS keeps running afterwards, until Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict, TypeVar

from examples.digits.clusters import create_clusters, kubectl
from localcloud.credentials.environments import user_environment
from localcloud.server.lifecycle import runs
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.api.grid import Grid
from traingrid.api.submission import Submission
from traingrid.api.submit import wait_for_report
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.console import console
from traingrid.cli.live_status import watch_submission
from traingrid.cli.status_table import reasons
from traingrid.errors import TraingridError
from traingrid.submission.status import JobStatus, SubmissionStatus
from verification.checkout.deploy import deploy

ROOT = Path(__file__).resolve().parents[2]
GRID_FILE = Path(__file__).parent / "grid.yaml"
GRID_FILES = {"sagemaker": GRID_FILE, "mixed": Path(__file__).parent / "mixed.yaml"}
DATA = ROOT / "build/digits"
WORK = ROOT / "build/demo"
REPORT, PAGE = ROOT / "demo-report.json", ROOT / "demo-report.html"
ENOUGH = 0.95  # held-out top-1 that every Region must reach

Result = TypeVar("Result")


class ReportRow(TypedDict):
    """A Region's row of demo-report.json."""

    region: str
    training_job: str
    state: str
    ranks: int
    top1: float | None
    images_per_second: float | None
    seconds: int
    artifact: str


out = console()


def main(arguments: Sequence[str] = ()) -> int:
    """Run the demo; return 0 if every Region has reached the required accuracy, and 1 otherwise."""
    fields, grid_file, keep = options_of(arguments)
    started = time.monotonic()
    work = own_folder(WORK)
    with LocalCloud(Settings(data_dir=work, lambda_retry_delays_seconds=(1, 2))) as cloud:
        os.environ.update(user_environment(cloud.endpoint_url))
        print_text(f"AWS for this run is localcloud at {cloud.endpoint_url}, which works with any AWS client")
        if shutil.which("mpirun") is None:
            print_text("Open MPI is not installed: Horovod's ranks use Gloo, and options of MPI have no effect")
        clusters = create_clusters(cloud, grid_file)
        timed("bootstrap and deploy with the CDK CLI", lambda: deploy(cloud.endpoint_url, grid_file, work))
        plane = ControlPlane.of(grid_file)
        manifest = timed("upload a campaign to each Region", lambda: upload_campaigns(plane, fields))
        print_text(another_terminal(cloud.endpoint_url, grid_file, work))
        print_text("drop the manifest into S3, and watch:\n" + manifest)
        status = submit_and_watch(plane, manifest)
        Submission(Grid(plane), status.submission).report(PAGE)
        rows = [report_row(job) for job in status.jobs]
        for cluster, namespace in clusters.items():
            print_text(f"kubectl --context {cluster} get jobs,mpijobs,pods --namespace {namespace}")
            print_text(kubectl(cloud, cluster, "get", "jobs,mpijobs,pods", "--namespace", namespace))
        seconds = round(time.monotonic() - started, 1)
        REPORT.write_text(json.dumps({"regions": rows, "seconds": seconds, **fields}, indent=2) + "\n")
        show(rows, seconds)
        if keep:
            wait_for_ctrl_c()
    good = all(row["state"] == "Completed" and (row["top1"] or 0) >= ENOUGH for row in rows)
    if not good:
        print_text(f"not every Region reached a held-out top-1 of {ENOUGH}")
    return 0 if good and rows else 1


def another_terminal(endpoint_url: str, grid_file: Path, work: Path) -> str:
    """Write a file with which another terminal reaches this run, and return the commands to type there.

    Args:
        endpoint_url: The address of this run's local AWS.
        work: This run's folder, which is removed after its end.
    """
    file = work / "environment.sh"
    variables = {**user_environment(endpoint_url), "KUBECONFIG": str(work / "kubeconfig")}
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    command = work / "bin" / "traingrid"
    command.parent.mkdir()
    program = f"{shlex.quote(str(ROOT / '.venv/bin/traingrid'))} --grid {shlex.quote(str(grid_file))}"
    command.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    command.chmod(0o700)
    path = f"export PATH={shlex.quote(str(command.parent))}:{shlex.quote(str(ROOT / '.venv/bin'))}:$PATH\n"
    file.touch(mode=0o600)
    file.write_text("".join(["unset AWS_PROFILE AWS_SESSION_TOKEN\n", *lines, path]))
    shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return (
        f"to look at it, run in another terminal:\n"
        f"  . {shlex.quote(str(shown))}\n"
        f"  traingrid ui          in a browser: Regions, curves, logs; also: traingrid status, compare, logs"
    )


def wait_for_ctrl_c() -> None:
    """Keep the local AWS running until Ctrl-C."""
    print_text("the local AWS keeps running, as asked by --keep; Ctrl-C ends it")
    try:
        signal.pause()
    except KeyboardInterrupt:
        print_text("")


def own_folder(work: Path) -> Path:
    """Return this run's folder in `work`, and remove those of earlier runs whose process has ended."""
    for left in work.glob("[0-9]*"):
        if not runs(int(left.name)):
            shutil.rmtree(left, ignore_errors=True)
    return work / str(os.getpid())


def options_of(arguments: Sequence[str]) -> tuple[dict[str, str], Path, bool]:
    """Return the options of the command line: fields of all lines, the grid, and whether the local AWS stays."""
    parser = argparse.ArgumentParser(prog="python -m examples digits", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--input-mode", choices=("File", "FastFile", "Pipe"), help="how hosts receive the data")
    parser.add_argument("--streams", choices=("host", "rank"), help="in Pipe mode: one stream per host or per rank")
    parser.add_argument("--engine", choices=GRID_FILES, default="sagemaker", help="the services that train")
    parser.add_argument("--keep", action="store_true", help="keep the local AWS running until Ctrl-C")
    options = vars(parser.parse_args(arguments))
    keep, grid_file = options.pop("keep"), GRID_FILES[options.pop("engine")]
    return {name: value for name, value in options.items() if value}, grid_file, keep


def upload_campaigns(plane: ControlPlane, fields: Mapping[str, str]) -> str:
    """Upload one campaign to each training Region, and return a manifest with one line per Region.

    Two hosts with one rank each train an MPIJob, and one host with two ranks trains each other job.
    """
    regions = plane.deployment.grid.regions
    campaigns = sorted(path for path in DATA.iterdir() if path.is_dir())
    rows = [
        {"region": region, "s3_uri": str(upload_folder(plane.deployment, folder, region)), **fields}
        for region, folder in zip(regions, campaigns, strict=True)
    ]
    kinds = [settings.eks.kind if settings.eks else "" for settings in regions.values()]
    if any(kinds):
        for row, kind in zip(rows, kinds, strict=True):
            row |= {"instance_count": "2" if kind == "mpijob" else "1"}
            row |= {"processes_per_host": "1" if kind == "mpijob" else "2"}
    header = [",".join(rows[0])] if len(rows[0]) > 2 else []  # the plain form has no header
    return "".join(f"{line}\n" for line in (*header, *(",".join(row.values()) for row in rows)))


def submit_and_watch(plane: ControlPlane, manifest: str) -> SubmissionStatus:
    """Upload the manifest to S3, wait for the intake's report, and watch until every job has ended."""
    uri = S3Uri(plane.deployment.manifest_bucket, f"{names.MANIFEST_PREFIX}digits.csv")
    version = plane.storage.write(uri, manifest.encode(), "text/csv")
    report = wait_for_report(plane.storage, uri, version)
    if report["state"] != "submitted":
        raise TraingridError(f"The manifest was rejected: {report['errors']}.")
    print_text(f"submission {report['submission']}; in the other terminal: traingrid compare {report['submission']}")
    status = watch_submission(plane, report["submission"], out)
    for reason in reasons(status):
        print_text(reason)
    return status


def report_row(job: JobStatus) -> ReportRow:
    """Return a job's row of demo-report.json; SageMaker has extracted its metrics from the training's log."""
    return {
        "region": job.region,
        "training_job": job.training_job,
        "state": job.state,
        "ranks": int(job.metrics.get("ranks", 0)),
        "top1": job.metrics.get("validation_top1"),
        "images_per_second": job.metrics.get("images_per_second"),
        "seconds": job.seconds,
        "artifact": job.artifact,
    }


def show(rows: Sequence[ReportRow], seconds: float) -> None:
    """Print the models, which the table above has scored on held-out digits, and next steps."""
    out.print()
    for row in rows:
        if row["artifact"]:
            print_text(row["artifact"])
    out.print()
    print_text(f"{seconds:.0f} s in all; {REPORT.name} has the numbers, and {PAGE.name} the curves. Next:")
    print_text('  eval "$(.venv/bin/traingrid local up)"   a local AWS that stays (README: by hand)')
    print_text("  .venv/bin/traingrid --help               everything the command can do")
    print_text("  npx cdk synth traingrid-control          the template that AWS would get")


def timed(what: str, act: Callable[[], Result]) -> Result:
    """Run a function with a status line, and print how long it took."""
    started = time.monotonic()
    with out.status(what):
        result = act()
    print_text(f"{what}: {time.monotonic() - started:.1f} s")
    return result


def print_text(text: str) -> None:
    """Print text verbatim."""
    out.print(text, markup=False, soft_wrap=True)
