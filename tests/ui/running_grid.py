"""Running grid: a deployed grid in a localcloud whose training jobs wait for a test, and its `traingrid ui` process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from localcloud.credentials.environments import user_environment
from localcloud.ecr import process_images
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from tests.support.deployment import deploy
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.api.submit import wait_for_report
from traingrid.aws.clients import client, renew
from traingrid.aws.s3_uri import S3Uri
from verification.deployed_grid import until

ROOT = Path(__file__).resolve().parents[2]
REGIONS = ("us-east-1", "eu-west-1")
EPOCHS = 3
GRID = """\
name: traingrid
home: us-east-1
regions:
  us-east-1:
  eu-west-1:
images:
  training: {repository: training, tag: "1"}
  steps: {uri: "123456789012.dkr.ecr.{region}.amazonaws.com/traingrid/training:steps"}
job:
  image: steps
  instance_type: ml.m5.large
  volume_gb: 10
  max_runtime: 10m
  channels: [train]
  metrics: [epoch, train_loss, images_per_second]
"""
PROGRAM = """\
import json, os, pathlib, sys, time

base = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"])
given = json.loads((base / "input/config/hyperparameters.json").read_text())
folder = pathlib.Path(given["folder"])
for epoch in range(1, int(given["epochs"]) + 1):
    while not (folder / str(epoch)).exists():
        time.sleep(0.05)
    print(f"epoch={epoch} train_loss={1 / epoch} images_per_second={1000 + epoch}", flush=True)
if (folder / "broken").exists():
    sys.stdout.buffer.write(b"\\x1b[31mred\\x1b[0m <b>bold</b> \\xff\\xfe last words\\n")
    sys.stdout.flush()
    (base / "output/failure").write_text("ValueError: the loss is <NaN>")
    sys.exit(1)
"""
"""The training: each epoch waits for a file of its number, and it fails if the folder has a file `broken`."""


class RunningGrid:
    """A deployed grid.

    Attributes:
        cloud: The localcloud.
        plane: The control plane that the CLI uses.
        work: The folder of grid.yaml and of the folders that control the jobs.
    """

    def __init__(self, cloud: LocalCloud, plane: ControlPlane, work: Path) -> None:
        self.cloud, self.plane, self.work = cloud, plane, work

    def submit(self, jobs: Sequence[str]) -> str:
        """Submit a job for each name, in the Regions in turn, and return the submission's id."""
        lines = ["region,s3_uri,name,hp.epochs,hp.folder"]
        for index, name in enumerate(jobs):
            region = REGIONS[index % len(REGIONS)]
            (self.work / name).mkdir()
            bucket = names.data_bucket("traingrid", self.plane.deployment.account, region)
            lines.append(f"{region},s3://{bucket}/data,{name},{EPOCHS},{self.work / name}")
        uri = S3Uri(self.plane.deployment.manifest_bucket, f"{names.MANIFEST_PREFIX}{jobs[0]}.csv")
        version = self.plane.storage.write(uri, "\n".join([*lines, ""]).encode(), "text/csv")
        report = wait_for_report(self.plane.storage, uri, version)
        assert report["state"] == "submitted", report
        return str(report["submission"])

    def allow(self, name: str, *epochs: int) -> None:
        """Let a job train some epochs."""
        for epoch in epochs:
            (self.work / name / str(epoch)).touch()

    def finish(self, name: str, *, broken: bool = False) -> None:
        """Let a job train all epochs, and then fail if it is broken."""
        broken_file = self.work / name / "broken"
        broken_file.touch() if broken else broken_file.unlink(missing_ok=True)
        self.allow(name, *range(1, EPOCHS + 1))

    def reaches(self, submission: str, index: int, state: str) -> None:
        """Wait until the ledger has a state of a job."""
        ledger = self.plane.ledger
        until(lambda: (item := ledger.job(submission, index)) and item.state == state, f"job {index} is {state}")

    def reports_an_epoch(self, submission: str, index: int) -> None:
        """Wait until the ledger has the first epoch of a job."""
        ledger = self.plane.ledger
        until(lambda: (item := ledger.job(submission, index)) and item.progress, f"job {index} has trained an epoch")


class PageProcess:
    """A process of `traingrid ui`, and the address that it has printed."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self._process, self.address = process, address
        self.port = int(address.rpartition("/")[0].rpartition(":")[2])

    def stop(self) -> str:
        """Interrupt the process as Ctrl-C does, and return the rest of its output."""
        self._process.send_signal(signal.SIGINT)
        rest, _ = self._process.communicate(timeout=30)
        assert self._process.returncode == 0, rest
        return rest


@contextmanager
def running_grid(work: Path) -> Iterator[RunningGrid]:
    """Deploy a grid into a new localcloud; this process has a user's environment meanwhile."""
    settings = Settings(
        data_dir=work, lambda_retry_delays_seconds=(0.5, 0.5), training_stop_grace_seconds=1, training_hosts=12
    )
    image = process_images.ProcessImage(command=(sys.executable, "-c", PROGRAM))
    with LocalCloud(settings) as cloud, _environment(user_environment(cloud.endpoint_url)):
        (work / "grid.yaml").write_text(GRID)
        deploy(cloud.endpoint_url, work / "grid.yaml", work)
        plane = ControlPlane.of(work / "grid.yaml")
        for region in REGIONS:
            process_images.push(client("ecr", region), "traingrid/training", "steps", image)
            bucket = names.data_bucket("traingrid", plane.deployment.account, region)
            plane.storage.write(S3Uri(bucket, "data/train/a"), b"a", "application/x")
        yield RunningGrid(cloud, plane, work)


@contextmanager
def page_process(grid_file: Path, *options: str, **environment: str) -> Iterator[PageProcess]:
    """Run `traingrid ui` in a process with this process's environment, and end it afterwards."""
    command = [sys.executable, "-c", "from traingrid.cli.main import main; main()", "--grid", str(grid_file), "ui"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **environment}
    process = subprocess.Popen(
        [*command, *options], env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("Open http://"), first + process.stdout.read()
        yield PageProcess(process, first.removeprefix("Open ").strip())
    finally:
        process.kill()
        process.communicate()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    renew()  # other tests use other credentials, which boto3 keeps
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        renew()
