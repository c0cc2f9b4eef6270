"""`make demo-launchers`: two scripts on two hosts each, one with `launcher: mpi` and one with `none`, in a local AWS.

`torchrun` needs PyTorch, and another example shows it. This program deploys the grid of `make demo`, uploads a campaign
of handwritten digits, submits two lines, and prints the files that the hosts have written.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.digits import demo as digits
from localcloud.checkout.deploy import deploy
from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from traingrid.api.data import upload_folder
from traingrid.api.grid import Grid

WORK = digits.ROOT / "build/demo-launchers"
SOURCE = Path(__file__).parent / "source"
REGION = "us-east-1"
HOSTS = 2


def main(_arguments: Sequence[str] = ()) -> int:
    """Run the demo; return 0 if both jobs have written the expected results, and 1 otherwise."""
    work = digits.own_folder(WORK)
    with LocalCloud(Settings(data_dir=work, lambda_retry_delays_seconds=(1, 2))) as cloud:
        os.environ.update(user_environment(cloud.endpoint_url))
        digits.print_text(f"AWS for this run is localcloud at {cloud.endpoint_url}")
        digits.timed(
            "bootstrap and deploy with the CDK CLI", lambda: deploy(cloud.endpoint_url, digits.GRID_FILE, work)
        )
        grid = Grid.load(digits.GRID_FILE)
        data = upload_folder(grid.plane.deployment, digits.DATA / "campaign-1", REGION)
        submission = grid.submit(lines(str(data)), announce=digits.print_text)
        status = digits.timed("train both jobs", lambda: submission.wait(timeout=600))
        for job in status.jobs:
            digits.print_text(f"{job.name}: {job.state} {job.reason}".rstrip())
            if job.state != "Completed":
                for line in submission.logs(job.index, tail=40):
                    digits.print_text(f"  {line.text}")
        found = contents(submission.download(work / "models"))
    for name, content in found.items():
        digits.print_text(f"{name}: {content}")
    return 0 if is_expected(found) else 1


def lines(data: str) -> list[dict[str, Any]]:
    """Return the two lines, as dictionaries with the fields of a manifest.

    Args:
        data: The campaign's URI.
    """
    common = {"region": REGION, "source": str(SOURCE), "instance_count": HOSTS}
    sharded = {"train": {"uri": f"{data}/train", "distribution": "ShardedByS3Key"}}
    return [
        {
            **common,
            "name": "mpi",
            "launcher": "mpi",
            "entry_point": "sum_of_ranks.py",
            "s3_uri": data,
            "processes_per_host": 1,  # with more, hosts of one machine collide in the shared memory of Open MPI
            "hyperparameters": {"first": 1},
        },
        {
            **common,
            "name": "none",
            "launcher": "none",
            "entry_point": "count_records.py",
            "inputs": sharded,
            "metrics": ["files", "records"],
        },
    ]


def contents(folders: Sequence[Path]) -> dict[str, Any]:
    """Return the content of each JSON file in the models, by name."""
    files = sorted(path for folder in folders for path in folder.rglob("*.json"))
    return {path.name: json.loads(path.read_text()) for path in files}


def is_expected(found: dict[str, Any]) -> bool:
    """Return True if all ranks have added up their numbers, and the hosts have counted different files."""
    parts = [found.get(f"records-{host}.json", {}) for host in range(HOSTS)]
    return (
        found.get("sum.json") == {"ranks": HOSTS, "total": sum(range(1, HOSTS + 1))}
        and all(parts)
        and len({name for part in parts for name in part}) == sum(map(len, parts))
    )


if __name__ == "__main__":
    sys.exit(digits.run(sys.argv[1:], main))
