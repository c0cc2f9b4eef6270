"""`make demo-launchers`: two scripts on two hosts each, one with `launcher: mpi` and one with `none`, in a local AWS.

`torchrun` needs PyTorch, and another example shows it. This program deploys a grid, uploads a campaign of handwritten
digits, submits the lines, and prints the files that the hosts have written. With --engine eks, the hosts are pods of a
Kubernetes cluster of Amazon EKS, and the script with `mpi` trains twice: as an Indexed Job and as an MPIJob.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.digits import demo as digits
from examples.digits.clusters import create_clusters, grid_file_of
from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from traingrid.api.data import upload_folder
from traingrid.api.grid import Grid
from verification.checkout.deploy import deploy

WORK = digits.ROOT / "build/demo-launchers"
SOURCE = Path(__file__).parent / "source"
ENGINES = {"sagemaker": digits.GRID_FILE, "eks": Path(__file__).parent / "eks.yaml"}
REGION = "us-east-1"
HOSTS = 2


def main(arguments: Sequence[str] = ()) -> int:
    """Run the demo; return 0 if all jobs have written the expected results, and 1 otherwise."""
    grid_file = grid_file_of(arguments, ENGINES, __doc__ or "")
    work = digits.own_folder(WORK)
    with LocalCloud(Settings(data_dir=work, lambda_retry_delays_seconds=(1, 2))) as cloud:
        os.environ.update(user_environment(cloud.endpoint_url))
        digits.print_text(f"AWS for this run is localcloud at {cloud.endpoint_url}")
        clusters = create_clusters(cloud, grid_file)
        digits.timed("bootstrap and deploy with the CDK CLI", lambda: deploy(cloud.endpoint_url, grid_file, work))
        grid = Grid.load(grid_file)
        data = upload_folder(grid.plane.deployment, digits.DATA / "campaign-1", REGION)
        submission = grid.submit(lines(str(data), on_eks=bool(clusters)), announce=digits.print_text)
        status = digits.timed("train all jobs", lambda: submission.wait(timeout=600))
        for job in status.jobs:
            digits.print_text(f"{job.name}: {job.state} {job.reason}".rstrip())
            if job.state != "Completed":
                for line in submission.logs(job.index, tail=40):
                    digits.print_text(f"  {line.text}")
        found = {
            job.name: contents(submission.download(work / "models", job.index)) if job.artifact else {}
            for job in status.jobs
        }
    for name, files in found.items():
        for file, content in files.items():
            digits.print_text(f"{name}: {file}: {content}")
    return 0 if all(is_expected(files) for files in found.values()) else 1


def lines(data: str, *, on_eks: bool) -> list[dict[str, Any]]:
    """Return the lines, as dictionaries with the fields of a manifest.

    Args:
        data: The campaign's URI.
        on_eks: The lines train on a cluster of EKS.
    """
    common = {"region": REGION, "source": str(SOURCE), "instance_count": HOSTS}
    sharded = {"train": {"uri": f"{data}/train", "distribution": "ShardedByS3Key"}}
    mpi = {
        **common,
        "name": "mpi",
        "launcher": "mpi",
        "entry_point": "sum_of_ranks.py",
        "s3_uri": data,
        "processes_per_host": 1,  # with more, hosts of one machine collide in the shared memory of Open MPI
        "hyperparameters": {"first": 1},
    }
    none = {
        **common,
        "name": "none",
        "launcher": "none",
        "entry_point": "count_records.py",
        "inputs": sharded,
        "metrics": ["files", "records"],
    }
    return [mpi, none, *([{**mpi, "name": "mpijob", "eks_kind": "mpijob"}] if on_eks else [])]


def contents(folders: Sequence[Path]) -> dict[str, Any]:
    """Return the content of each JSON file in the models, by name."""
    files = sorted(path for folder in folders for path in folder.rglob("*.json"))
    return {path.name: json.loads(path.read_text()) for path in files}


def is_expected(files: dict[str, Any]) -> bool:
    """Return True if all ranks have added up their numbers, or the hosts have counted different files."""
    if "sum.json" in files:
        return bool(files["sum.json"] == {"ranks": HOSTS, "total": sum(range(1, HOSTS + 1))})
    parts = [files.get(f"records-{host}.json", {}) for host in range(HOSTS)]
    return all(parts) and len({name for part in parts for name in part}) == sum(map(len, parts))
