"""Imports of a child: the manifest's parser is loaded only by a child of a manifest that was submitted by hand."""

import subprocess
import sys
from pathlib import Path

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
