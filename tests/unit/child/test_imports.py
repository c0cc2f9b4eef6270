"""Imports: which programs load the modules of manifests, the client of Kubernetes, and what only some lines need."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# Finds the jobs of children with the given files, and prints the error and the loaded modules of each.
_FIND_JOB = """
import sys
import traingrid.child.main
from tests.support.sample_deployment import sample_deployment
from traingrid.aws.s3_uri import ObjectVersion
from traingrid.child.environment import Child, find_job, with_stored_jobs
from traingrid.errors import TraingridError

class Storage:
    def read_range(self, uri, start, end):
        return b""

    def read(self, uri, limit):
        return b""

class Ledger:
    def submission(self, submission):
        return None

    def record_rejection(self, rejection):
        pass

deployment = sample_deployment()
for key in sys.argv[1:]:
    uri = ObjectVersion.parse(f"s3://{deployment.manifest_bucket}/{key}")
    child = Child(array_file=uri, index=0, size=1, id="1111", attempt=1)
    try:
        find_job(with_stored_jobs(child, deployment, Storage(), Ledger()), Storage())
    except TraingridError as error:
        print(type(error).__name__)
    print(*sorted(name for name in sys.modules if name.startswith("traingrid.manifest.")))
"""


def test_only_a_child_of_a_manifest_by_hand_loads_fields_checks_and_parser_of_manifests() -> None:
    command = [sys.executable, "-c", _FIND_JOB, "submissions/0123abcd/jobs.jsonl", "by-hand/manifest.csv"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    submitted, loaded, by_hand, loaded_by_hand = done.stdout.splitlines()
    assert submitted == "UsageError", "the file has no job 0"
    assert not loaded, "the job in the file has every default"
    assert by_hand == "ManifestError", "the file is empty"
    assert "traingrid.manifest.parse" in loaded_by_hand.split()


# Loads programs and the factories' backends of a grid without a cluster, and prints the modules of Kubernetes.
_WITHOUT_CLUSTER = """
import importlib
import sys
from tests.support.sample_deployment import sample_deployment

deployment = sample_deployment()
assert not any(region.eks for region in deployment.grid.regions.values())
for program in sys.argv[1:]:
    importlib.import_module(program)
    from traingrid.backends import describing, inventory_of, launching, logs_of

    launching(deployment, "eu-west-1", "sagemaker", "direct")
    for factory in (describing, logs_of):
        factory(deployment, "eu-west-1", "sagemaker")
    inventory_of(deployment, "eu-west-1")
    kubernetes = [name for name in sys.modules if name.startswith(("traingrid.kubernetes", "traingrid.backends.eks"))]
    if kubernetes:
        sys.exit(f"{program} loads {kubernetes}")
"""


def test_a_grid_without_a_cluster_does_not_load_the_client_of_kubernetes() -> None:
    names = ("accept_manifest", "guard_regions", "reconcile", "record_job_event")
    command = [sys.executable, "-c", _WITHOUT_CLUSTER, "traingrid.child.main", *(f"lambda.{name}" for name in names)]
    environment = {**os.environ, "AWS_DEFAULT_REGION": "us-east-1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


# Prints the modules that an import loads, and whether it read SageMaker's service model, which takes 14 MiB.
_LOADS = """
import sys
from traingrid.cli import submit
from traingrid.manifest import limits

loaded = [name for name in ("re2", "pathspec", "detect_secrets") if name in sys.modules]
print(limits._shapes.cache_info().currsize, *loaded)
"""


def test_a_command_starts_without_the_service_model_and_without_what_only_folders_need() -> None:
    done = subprocess.run([sys.executable, "-c", _LOADS], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]
