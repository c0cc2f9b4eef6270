"""The package `trainer` that a custom script imports, apart from training_container's own packages."""

import json
import os
import subprocess
import sys

import pytest

from tests.training.conftest import REPOSITORY

# Names of docs/training.md and of the docstrings that scripts follow.
API = {
    "channels": ["Channel", "ChannelError", "open"],
    "checkpoints": ["CheckpointError", "Checkpoints", "Progress", "broadcast", "resume"],
    "cluster": ["Cluster", "any_rank", "least", "start"],
    "metric_lines": ["METRICS", "line", "pairs"],
    "tensorboard": ["TensorBoard"],
}
PROGRAM = """
import json, sys
from trainer import channels, checkpoints, cluster, metric_lines, tensorboard
found = {name: dir(module) for name, module in list(globals().items()) if hasattr(module, "__spec__")}
print(json.dumps(found))
"""


def ended(program: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "training_container" / "script_path")])
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def found() -> dict[str, list[str]]:
    imported = ended(PROGRAM)
    assert imported.returncode == 0, imported.stderr
    names: dict[str, list[str]] = json.loads(imported.stdout.splitlines()[-1])
    return names


@pytest.mark.parametrize("module", API)
def test_a_script_finds_the_documented_names(found: dict[str, list[str]], module: str) -> None:
    assert set(API[module]) <= set(found[module])


def test_an_unknown_module_is_refused_with_the_known_ones() -> None:
    failed = ended("import trainer; trainer.models")
    assert "trainer has no attribute 'models'; it has: channels, checkpoints, cluster" in failed.stderr
