"""`make demo-torch-recipe`: the built-in trainer for PyTorch in two Regions, without a script.

AWS is localcloud, and ranks communicate through Gloo on the CPUs of this machine. Each Region trains on two hosts of
two ranks. A host of the second Region is killed, as if its machine had failed, and the job is retried on one host: two
ranks continue from the checkpoint of four.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from examples.digits import demo as digits
from examples.torch_ddp import demo as torch_ddp
from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.api.grid import Grid
from traingrid.cli.live_status import watch_submission
from verification.checkout.deploy import deploy

GRID_FILE = Path(__file__).parent / "grid.yaml"
DATA, WORK = digits.ROOT / "build/torch-records", digits.ROOT / "build/demo-torch-recipe"
REGIONS = ("us-east-1", "eu-west-1")


def main(_arguments: Sequence[str] = ()) -> int:
    """Run the demo; return 0 if both jobs have reached the required accuracy, and 1 otherwise."""
    started = time.monotonic()
    work = digits.own_folder(WORK)
    with LocalCloud(Settings(data_dir=work, lambda_retry_delays_seconds=(1, 2))) as cloud:
        os.environ.update(user_environment(cloud.endpoint_url))
        digits.timed("bootstrap and deploy with the CDK CLI", lambda: deploy(cloud.endpoint_url, GRID_FILE, work))
        plane = ControlPlane.of(GRID_FILE)
        lines = [line_of(region, str(upload_folder(plane.deployment, DATA, region))) for region in REGIONS]
        submission = Grid(plane).submit(write_manifest(work, lines))
        digits.print_text(f"submission {submission.id}: two Regions, each with two hosts of two ranks")
        name = torch_ddp.kill_a_host(submission, torch_ddp.lose_host)
        watch_submission(plane, submission.id, digits.out)
        digits.print_text(f"{name} has failed; one host of two ranks continues")
        lines[torch_ddp.INTERRUPTED]["instance_count"] = 1
        submission.retry(write_manifest(work, lines))
        watch_submission(plane, submission.id, digits.out)
        good = all(torch_ddp.trained(job) for job in submission.jobs)
        good = torch_ddp.resumed(submission, "Continuing after step") and good
        digits.print_text(f"models: {', '.join(map(str, submission.download(work / 'models')))}")
    digits.print_text(f"{time.monotonic() - started:.0f} s in all")
    return 0 if good else 1


def line_of(region: str, data: str) -> dict[str, object]:
    """Return a line of the manifest: all that it needs beyond the Region and the data is in grid.yaml."""
    return {"region": region, "s3_uri": data, "checkpoints": True, "retries": 0}


def write_manifest(work: Path, lines: Sequence[dict[str, object]]) -> Path:
    """Write the lines, and return their file."""
    manifest = work / "recipe.jsonl"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return manifest
