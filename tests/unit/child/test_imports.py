"""Imports: children load the manifest's parser only by hand, and only grids with a cluster the client of Kubernetes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# Finds the job of a child with the given file, and prints the error and the loaded modules.
_FIND_JOB = """
import sys
import traingrid.child.main
from tests.support.sample_deployment import sample_deployment
from traingrid.aws.s3_uri import ObjectVersion
from traingrid.child.environment import Child, find_job
from traingrid.errors import TraingridError

class Storage:
    def read_range(self, uri, start, end):
        return b""

    def read(self, uri, limit):
        return b""

deployment = sample_deployment()
uri = ObjectVersion.parse(f"s3://{deployment.manifest_bucket}/{sys.argv[1]}")
child = Child(array_file=uri, index=0, size=1, id="1111", attempt=1)
try:
    find_job(child, deployment, Storage(), None)
except TraingridError as error:
    print(type(error).__name__)
print(*sorted(name for name in sys.modules if name.startswith("traingrid.manifest.")))
"""


def found(key: str) -> tuple[str, set[str]]:
    """Return the error of a child of an empty file, and the modules of the manifest's package that it has loaded."""
    command = [sys.executable, "-c", _FIND_JOB, key]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    error, loaded = done.stdout.splitlines()
    return error, set(loaded.split())


def test_a_child_of_a_submitted_manifest_does_not_load_the_parser() -> None:
    error, loaded = found("submissions/0123abcd/jobs.jsonl")
    assert error == "UsageError", "the file has no job 0"
    assert "traingrid.manifest.line" in loaded
    assert not {f"traingrid.manifest.{name}" for name in ("parse", "check", "rows", "columns")} & loaded


def test_a_child_of_a_manifest_by_hand_loads_the_parser() -> None:
    error, loaded = found("by-hand/manifest.csv")
    assert error == "ManifestError", "the file is empty"
    assert "traingrid.manifest.parse" in loaded


# Loads a program and the factories' backends of a grid without a cluster, and prints the modules of Kubernetes.
_WITHOUT_CLUSTER = """
import importlib
import sys
from tests.support.sample_deployment import sample_deployment

importlib.import_module(sys.argv[1])
from traingrid.backends import inventory_of, launching, logs_of, watching

deployment = sample_deployment()
assert not any(region.eks for region in deployment.grid.regions.values())
launching(deployment, "eu-west-1", "sagemaker", "direct")
for factory in (watching, logs_of):
    factory(deployment, "eu-west-1", "sagemaker")
inventory_of(deployment, "eu-west-1")
print(*sorted(name for name in sys.modules if name.startswith(("traingrid.kubernetes", "traingrid.backends.eks"))))
"""


@pytest.mark.parametrize(
    "program",
    [
        "traingrid.child.main",
        *(f"lambda.{name}" for name in ("accept_manifest", "guard_regions", "reconcile", "record_job_event")),
    ],
)
def test_a_grid_without_a_cluster_does_not_load_the_client_of_kubernetes(program: str) -> None:
    command = [sys.executable, "-c", _WITHOUT_CLUSTER, program]
    environment = {**os.environ, "AWS_DEFAULT_REGION": "us-east-1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
