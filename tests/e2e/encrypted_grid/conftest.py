import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.ecr import process_images
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import control_plane, two_regions
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client
from verification.checkout import images

REGION = "us-east-1"
GRID = """\
name: traingrid
home: us-east-1
regions:
  us-east-1:
  eu-west-1: {residency: [eu]}
  us-west-2:
encryption: kms
moves: true
notifications: {emails: [team@example.com]}
training: {remote_debug: true}
images:
  tiny: {repository: training, tag: tiny}
job:
  image: tiny
  instance_type: ml.m5.large
  volume_gb: 10
  max_runtime: 10m
"""
TRAINING = f"""\
import json, os, pathlib, subprocess, sys, time
base = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"])
given = json.loads((base / "input/config/hyperparameters.json").read_text())
time.sleep(float(given.get("seconds", 0)))
if code := int(given.get("code", 0)):
    sys.exit(code)
(base / "model" / "m").write_bytes((base / "input/data/train/a").read_bytes())
os.chdir({str(Path(__file__).resolve().parents[3])!r})
writer = [sys.executable, "-m", "training_container.metric_history.writer"]
subprocess.run(writer, input=b"1.5 epoch=1 train_loss=0.5\\n", check=True)
"""
"""Trains for `seconds`; then fails with `code`, or writes a model and a metric."""


@pytest.fixture(scope="package")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A localcloud with one grid for all tests of this folder."""
    image = process_images.ProcessImage(command=(sys.executable, "-c", TRAINING, "train"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images, "TRAINING", image)  # the deployment pushes it as the training image
        with two_regions(tmp_path_factory.mktemp("encrypted"), grid=GRID) as running:
            yield running


@pytest.fixture(scope="package")
def plane(cloud: LocalCloud) -> Iterator[ControlPlane]:
    """The control plane as the CLI accesses it, with a user's environment, and data in the home Region."""
    with control_plane(cloud) as made:
        bucket = names.data_bucket("traingrid", made.deployment.account, REGION)
        for channel in ("train", "validation"):
            client("s3", REGION).put_object(Bucket=bucket, Key=f"x/{channel}/a", Body=b"a")
        yield made
